"""Paths below the root of the storage: how they are made, and which are safe.

Engines expand globs in file lists and resolve `..`, so nothing that a person or an operator named is ever part of a path.
"""

import re
from uuid import UUID

_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_LOCATION_PARTS = 6  # org/{org}/dataset/{uuid}/version/{dataset_version}


class UnsafePath(ValueError):
    """A path that may mean something else than one file below the root."""


def plain(path: str) -> str:
    """The path, if every engine takes it for exactly one file below the root."""
    if not _PLAIN.fullmatch(path):
        raise UnsafePath("a path is made of letters, digits, `_`, `.`, `-` and `/`")
    return contained(path)


def contained(path: str) -> str:
    """The path, if it stays below the root; enough for what is only listed and deleted, whose names an operator may have chosen."""
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise UnsafePath("a path is relative and has no empty part, no `.` and no `..`")
    return path


def table_location(org: UUID, dataset: UUID, dataset_version: UUID) -> str:
    return f"org/{org}/dataset/{dataset}/version/{dataset_version}"


def log_folder(location: str) -> str:
    return f"{location}/_delta_log"


def log_entry_path(location: str, delta_version: int) -> str:
    return f"{log_folder(location)}/{delta_version:020}.json"


def staging_folder(task_id: UUID, attempt: int) -> str:
    """Relative to a table's location; a staged file is `{location}/{staging folder}/{folder of its scope}/….parquet`."""
    return f"{task_id}-{attempt}"


def below_location(path: str) -> bool:
    """Whether a folder lies inside a table's directory, so that it may vanish when its last file does."""
    return path.count("/") >= _LOCATION_PARTS
