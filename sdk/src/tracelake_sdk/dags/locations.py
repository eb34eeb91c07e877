"""Locations: the named roots that DAGs read files from. An admin defines them; a DAG names one and a path below it.

`landing/orders` is the path `orders` below the location `landing`, whatever root an admin gave it.
"""

import os
import posixpath
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from tracelake_sdk.dags.spec import NAME
from tracelake_sdk.deferred import Deferred

NAME_PATTERN = f"^{NAME.pattern}$"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{2,62}")


class Location(Deferred):
    """A location as it is now, and the roles that may use it in a DAG besides the admins."""

    name: str
    url: str        # `file:///folder` or `s3://bucket/prefix`
    roles: list[str]
    revision: int
    actor: str      # who defined this revision
    at: datetime


@dataclass(frozen=True)
class LocationPath:
    """A path in a config: a location, and a path below it. An empty path is the whole location."""

    location: str
    below: str

    @classmethod
    def parse(cls, path: str) -> Self:
        """Raises ValueError with what is wrong. Nothing is decoded: `%2e` are three characters of a name."""
        if path.startswith(("/", "~")):
            raise ValueError("this is an absolute path")
        if "://" in path or path.startswith(("file:", "s3:", "s3a:")):
            raise ValueError("this is a URL")
        name = named_location(path)
        if not NAME.fullmatch(name):
            raise ValueError("it does not begin with the name of a location")
        below = path[len(name) + 1 :].removesuffix("/")
        if below and (parts := below.split("/")) and not {"", ".", ".."}.isdisjoint(parts):
            raise ValueError("it has a part that is empty, `.` or `..`")
        if "\0" in below:
            raise ValueError("it contains a NUL character")
        return cls(name, below)

    def __str__(self) -> str:
        return f"{self.location}/{self.below}" if self.below else self.location


def named_location(path: str) -> str:
    """The name that a path begins with, also of a path that `LocationPath.parse` refuses: then no location has this name."""
    return path.partition("/")[0]


def check_name(name: str) -> None:
    """Raises ValueError with how a name is written."""
    if not NAME.fullmatch(name):
        raise ValueError("the name of a location is a lowercase letter, then up to 127 lowercase letters, digits and underscores")


def absolute_root(text: str, folder: Path) -> str:
    """A URL unchanged; a path as an absolute path, relative to the folder."""
    if ":" in text.partition("/")[0]:
        return text
    return os.path.normpath(folder / Path(text).expanduser())


def canonical_url(text: str) -> str:
    """The one spelling of a location's URL, from a URL or an absolute path; raises ValueError with what is wrong."""
    if text.startswith("/"):
        return _file_url(text)
    url = urlsplit(text)
    if url.query or url.fragment:
        raise ValueError("a location has neither `?` nor `#`")
    if url.scheme == "file" and url.netloc in ("", "localhost") and url.path.startswith("/"):
        return _file_url(unquote(url.path, errors="strict"))
    if url.scheme == "s3" and url.netloc:
        if not _BUCKET.fullmatch(url.netloc):
            raise ValueError("write `s3://bucket/prefix`; a bucket name has 3 to 63 characters: lowercase letters, digits, `.`, `-` and `_`, the first a letter or a digit")
        return f"s3://{url.netloc}/{_prefix(url.path)}".rstrip("/")
    raise ValueError("write `file:///folder` with an absolute path, or `s3://bucket/prefix`")


def local_folder(url: str) -> PurePosixPath | None:
    """The folder of a canonical `file:` URL; None for one of an object store."""
    parts = urlsplit(url)
    return PurePosixPath(unquote(parts.path)) if parts.scheme == "file" else None


def _file_url(path: str) -> str:
    if "\0" in path or ".." in path.split("/"):
        raise ValueError("a location's path has no `..`")
    return f"file://{quote('/' + posixpath.normpath(path).lstrip('/'))}"


def _prefix(path: str) -> str:
    prefix = path.strip("/")
    if prefix and not {"", ".", ".."}.isdisjoint(prefix.split("/")):
        raise ValueError("a location's prefix has no part that is empty, `.` or `..`")
    if not {"*", "?", "$"}.isdisjoint(prefix):  # session policies use them as patterns
        raise ValueError("a location's prefix has none of `*`, `?` and `$`")
    return prefix
