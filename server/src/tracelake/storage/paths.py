"""Paths below the root of the storage: how they are built, and which are safe.

Engines expand globs in file lists and resolve `..`, so a name that a person or an operator chose is never part of a path.
"""

import re
from uuid import UUID

_PLAIN = re.compile(r"[A-Za-z0-9_./-]+")
_LOCATION_PARTS = 6  # org/{org}/dataset/{uuid}/version/{dataset_version}


class UnsafePath(ValueError):
    """A path that may not be exactly one file below the root."""


def plain(path: str) -> str:
    """The path, if every engine reads it as exactly one file below the root."""
    if not _PLAIN.fullmatch(path):
        raise UnsafePath("a path may contain only letters, digits, `_`, `.`, `-` and `/`")
    return contained(path)


def contained(path: str) -> str:
    """The path, if it stays below the root; enough for files that are only listed and deleted, whose names an operator may have chosen."""
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise UnsafePath("a path must be relative, without empty parts, `.` and `..`")
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
    """Whether a folder is inside a table's directory, so that it may be removed with its last file."""
    return path.count("/") >= _LOCATION_PARTS
