"""Source files: the files below a path of a location, never anything outside of it.

Messages name a file by its location and path, such as `landing/orders/x.csv`, and never contain the root of the
location. Names are literal: a star in a name is a star.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tracelake_sdk.dags.locations import LocationPath, local_folder
from tracelake_spark.failures import OperatorFailed
from tracelake_spark.storage import FoundFile, Storage, storage_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SourceFile:
    name: str          # relative to the folder that is read: the key in the state
    shown: str         # as shown to people: `landing/orders/x.csv`
    uri: str
    size: int
    modified_ns: int

    @property
    def mark(self) -> list[int]:
        """Size and time, which change when the file does."""
        return [self.size, self.modified_ns]


class Tree(Protocol):
    """The files of one location. Paths are relative to its root; the empty one is the root."""

    @property
    def uri(self) -> str:
        """The URI of the root for Spark."""
        ...

    def is_folder(self, path: str) -> bool: ...

    def find_file(self, path: str) -> FoundFile | None: ...

    def files(self, folder: str, beginning: str = "") -> Iterator[FoundFile]:
        """Every file below the folder whose path starts with `beginning`, without hidden ones."""
        ...


def find_files(spark: "SparkSession", path: str, locations: Mapping[str, str]) -> list[SourceFile]:
    """The files of a folder, one file, or the files whose path starts with this path; sorted by name, without hidden ones."""
    try:
        location_path = LocationPath.parse(path)
    except ValueError as error:
        raise OperatorFailed("location_path_invalid", f"The config's `path` must be a location and a path below it, such as landing/orders: {error}.") from None
    url = locations.get(location_path.location)
    if url is None:
        raise OperatorFailed("location_unknown", f"Location `{location_path.location}` is not available to this task; ask an admin to add it with `tracelake admin location add`.")
    local = local_folder(url)
    # An object store is opened with the URI of the order: its scheme identifies the task's own connection.
    tree: Tree = LocalTree(location_path.location, Path(local)) if local else StoredTree(spark, location_path.location, url)
    try:
        folder, found = _found(tree, location_path)
    except PermissionError:
        raise OperatorFailed("path_unreadable", f"The worker is not allowed to read a file or folder of {location_path}; change its permissions.", retry=True) from None
    below = f"{folder}/" if folder else ""
    files = [SourceFile(each.path, f"{location_path.location}/{below}{each.path}", f"{tree.uri}/{below}{each.path}", each.size, each.modified_ns) for each in found]
    return sorted(files, key=lambda file: file.name)


def _found(tree: Tree, location_path: LocationPath) -> tuple[str, list[FoundFile]]:
    """The folder that is read, and the files in it."""
    if tree.is_folder(location_path.below):
        return location_path.below, list(tree.files(location_path.below))
    folder, _, name = location_path.below.rpartition("/")
    if location_path.below and not _hidden(name) and (file := tree.find_file(location_path.below)):
        return folder, [file]
    # Never for the location itself: a name that starts with its root is another folder beside it.
    beginning = list(tree.files(folder, name)) if location_path.below and tree.is_folder(folder) else []
    if not beginning:
        raise OperatorFailed("path_missing", f"Nothing was found at {location_path}, and no file name begins with it; names that begin with `_` or `.` are hidden.", retry=True)
    return folder, beginning


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


class LocalTree:
    """A folder of this machine. Links that stay inside it are followed; one that leaves it is refused, never skipped."""

    def __init__(self, location: str, root: Path) -> None:
        self._location = location
        self._root = Path(os.path.realpath(root))

    @property
    def uri(self) -> str:
        # Not percent-encoded: Hadoop does not decode `%20`.
        return f"file://{str(self._root).rstrip('/')}"

    def is_folder(self, path: str) -> bool:
        return self._real(self._root / path, path).is_dir()

    def find_file(self, path: str) -> FoundFile | None:
        real = self._real(self._root / path, path)
        if not real.exists():
            return None
        found = self._regular(real.stat(), path)
        return FoundFile(path.rsplit("/", 1)[-1], found.st_size, found.st_mtime_ns)

    def files(self, folder: str, beginning: str = "") -> Iterator[FoundFile]:
        top = self._real(self._root / folder, folder)
        shown = f"{folder}/" if folder else ""
        waiting = [(top, "", frozenset({top}))]
        while waiting:
            where, prefix, above = waiting.pop()
            with os.scandir(where) as entries:
                for entry in entries:
                    path = f"{prefix}{entry.name}"
                    if _hidden(entry.name) or not (prefix or entry.name.startswith(beginning)):
                        continue
                    self._check_name(f"{shown}{prefix}", entry.name)
                    real = self._real(Path(entry.path), f"{shown}{path}") if entry.is_symlink() else where / entry.name
                    status = self._status(entry, f"{shown}{path}")
                    if status is None:
                        continue
                    if not stat.S_ISDIR(status.st_mode):
                        found = self._regular(status, f"{shown}{path}")
                        yield FoundFile(path, found.st_size, found.st_mtime_ns)
                    elif real in above:
                        raise self._link_refused(f"{shown}{path}", "a folder that contains it")
                    else:
                        waiting.append((real, f"{path}/", above | {real}))

    def _status(self, entry: os.DirEntry[str], shown: str) -> os.stat_result | None:
        """Follows a link; None if the file was removed meanwhile."""
        try:
            return entry.stat()
        except FileNotFoundError:
            if entry.is_symlink():
                raise self._link_refused(shown, "a path that does not exist") from None
            return None

    def _real(self, path: Path, shown: str) -> Path:
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._root):
            raise self._link_refused(shown, "a path outside the location")
        return real

    def _regular(self, status: os.stat_result, shown: str) -> os.stat_result:
        if not stat.S_ISREG(status.st_mode):
            raise OperatorFailed("file_refused", f"{self._location}/{shown} is neither a file nor a folder, such as a pipe or a device; remove it.")
        return status

    def _link_refused(self, shown: str, target: str) -> OperatorFailed:
        return OperatorFailed("link_refused", f"{self._location}/{shown} resolves through a symbolic link to {target}; remove the link, or put the file itself there.")

    def _check_name(self, folder: str, name: str) -> None:
        if not name.isprintable():  # bytes that cannot be decoded are not printable either
            spelled = name.encode("unicode_escape").decode()
            raise OperatorFailed("file_name", f"In {self._location}/{folder} the file name `{spelled}` has characters that cannot be decoded or printed; rename it.")


class StoredTree:
    """A prefix of an object store. There are no links; keys with `..` are refused, since Hadoop would resolve them."""

    def __init__(self, spark: "SparkSession", location: str, root: str) -> None:
        self._location = location
        self._root = root.rstrip("/")
        self._storage: Storage = storage_of(spark, self._root)

    @property
    def uri(self) -> str:
        return self._root

    def is_folder(self, path: str) -> bool:
        return self._storage.is_folder(self._below(path))

    def find_file(self, path: str) -> FoundFile | None:
        return self._storage.find_file(self._below(path))

    def files(self, folder: str, beginning: str = "") -> Iterator[FoundFile]:
        for each in self._storage.list_files(self._below(folder)):
            parts = each.path.split("/")
            if not {"", ".", ".."}.isdisjoint(parts) or not each.path.isprintable():
                shown = f"{self._location}/{folder}".rstrip("/")
                raise OperatorFailed("file_name", f"In {shown} an object's key has an empty part, `.`, `..` or characters that cannot be printed; rename it.")
            if each.path.startswith(beginning) and not any(_hidden(part) for part in parts):
                yield each

    def _below(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root
