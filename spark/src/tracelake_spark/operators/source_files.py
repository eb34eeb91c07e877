"""Source files: what lies below a path, on this machine or in any storage that Spark can open; a star in a name is a star."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracelake_spark.failures import OperatorFailed
from tracelake_spark.storage import FoundFile, Storage, storage_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class SourceFile:
    name: str          # relative to the folder that is read: what the state knows it by
    uri: str
    size: int
    modified_ns: int

    @property
    def mark(self) -> list[int]:
        """What changes when the file does."""
        return [self.size, self.modified_ns]


def find_files(spark: "SparkSession", path: str) -> list[SourceFile]:
    """The files of a folder, one file, or those that begin with the path; in the order of their names, without hidden ones."""
    if path.startswith("/"):
        path = f"file://{path}"
    if "://" not in path and not path.startswith("file:/"):
        raise OperatorFailed("path_relative", "The config's `path` must be absolute, such as /data/orders, or a URI.")
    if path.startswith("file:"):
        path = "file:///" + path.removeprefix("file:").lstrip("/")
    folder, found = _found(storage_of(spark, path), path.rstrip("/"))
    files = [SourceFile(each.path, f"{folder}/{each.path}", each.size, each.modified_ns) for each in found if not _hidden(each.path)]
    for file in files:
        if not file.name.isprintable():
            raise OperatorFailed("file_name", "A file below the config's `path` has a name with unprintable characters; rename it.")
    return sorted(files, key=lambda file: file.name)


def _hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in name.split("/"))


def _found(storage: Storage, path: str) -> tuple[str, Iterable[FoundFile]]:
    if storage.is_folder(path):
        return path, storage.list_files(path)
    folder, name = path.rsplit("/", 1)
    if file := storage.find_file(path):
        return folder, [file]
    beginning = [each for each in storage.list_files(folder) if each.path.startswith(name)] if storage.is_folder(folder) else []
    if not beginning:
        raise OperatorFailed("path_missing", "There is no file and no folder at the config's `path`, and no file that begins with it.", retry=True)
    return folder, beginning
