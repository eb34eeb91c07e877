"""Storage: the files below a URI, on this machine or on any storage that Spark can open; names are literal, never patterns."""

import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tracelake_spark.jvm import java_class, session_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_MOVED_AT_ONCE = 8


@dataclass(frozen=True)
class FoundFile:
    path: str          # relative to the folder that was listed
    size: int
    modified_ns: int


class Storage(Protocol):
    moves: bool  # False: a move is a copy, so files should be written to their final folder

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder, including hidden ones."""
        ...

    def is_folder(self, uri: str) -> bool: ...

    def find_file(self, uri: str) -> FoundFile | None:
        """The file itself; its path is its name."""
        ...

    def make_folder(self, uri: str) -> None: ...

    def move(self, files: Iterable[tuple[str, str]]) -> None:
        """Moves each file to another path, in a folder that exists."""
        ...

    def remove(self, folder: str) -> None: ...


def storage_of(spark: "SparkSession", uri: str) -> Storage:
    return LocalStorage() if uri.startswith("file:") else HadoopStorage(spark, uri)


class LocalStorage:
    """Local files, without Java, which starts a program for every folder that it creates."""

    moves: bool = True

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        root = _local(folder)
        for where, _, names in os.walk(root):
            for name in names:
                yield _seen(Path(where, name), root)

    def is_folder(self, uri: str) -> bool:
        return _local(uri).is_dir()

    def find_file(self, uri: str) -> FoundFile | None:
        path = _local(uri)
        return _seen(path, path.parent) if path.is_file() else None

    def make_folder(self, uri: str) -> None:
        _local(uri).mkdir(parents=True, exist_ok=True)

    def move(self, files: Iterable[tuple[str, str]]) -> None:
        for source, target in files:
            _local(source).rename(_local(target))

    def remove(self, folder: str) -> None:
        shutil.rmtree(_local(folder))


def _local(uri: str) -> Path:
    """Hadoop does not decode the path of a URI: `%20` is three characters."""
    return Path("/" + uri.removeprefix("file:").lstrip("/"))


def _seen(path: Path, folder: Path) -> FoundFile:
    status = path.stat()
    return FoundFile(path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns)


class HadoopStorage:
    """Files of any storage that Spark can open."""

    moves: bool = False

    def __init__(self, spark: "SparkSession", uri: str) -> None:
        self._path: Any = java_class(spark, "org.apache.hadoop.fs.Path")
        self._files: Any = self._path(uri).getFileSystem(session_state(spark).newHadoopConf())

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        root = self._files.makeQualified(self._path(folder)).toString().rstrip("/") + "/"
        found = self._files.listFiles(self._path(folder), True)
        while found.hasNext():
            status = found.next()
            yield FoundFile(status.getPath().toString().removeprefix(root), status.getLen(), status.getModificationTime() * 1_000_000)

    def is_folder(self, uri: str) -> bool:
        return self._files.exists(self._path(uri)) and self._files.getFileStatus(self._path(uri)).isDirectory()

    def find_file(self, uri: str) -> FoundFile | None:
        if not self._files.exists(self._path(uri)):
            return None
        status = self._files.getFileStatus(self._path(uri))
        return FoundFile(uri.rsplit("/", 1)[-1], status.getLen(), status.getModificationTime() * 1_000_000)

    def make_folder(self, uri: str) -> None:
        self._files.mkdirs(self._path(uri))

    def move(self, files: Iterable[tuple[str, str]]) -> None:
        with ThreadPoolExecutor(_MOVED_AT_ONCE) as movers:
            list(movers.map(self._move, files))

    def _move(self, names: tuple[str, str]) -> None:
        source, target = names
        if not self._files.rename(self._path(source), self._path(target)):
            raise OSError("a staged file could not be moved to its folder")

    def remove(self, folder: str) -> None:
        self._files.delete(self._path(folder), True)


def parquet_rows(spark: "SparkSession", uri: str) -> int:
    """How many rows a Parquet file has, by its footer."""
    path = java_class(spark, "org.apache.hadoop.fs.Path")(uri)
    file = java_class(spark, "org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(path, session_state(spark).newHadoopConf())
    reader = java_class(spark, "org.apache.parquet.hadoop.ParquetFileReader").open(file)
    try:
        return int(reader.getRecordCount())
    finally:
        reader.close()


def first_lines(spark: "SparkSession", uris: list[str]) -> list[str | None]:
    """The first line of each text file that is not blank, decompressed according to its extension; None if there is none."""
    conf, path_class = session_state(spark).newHadoopConf(), java_class(spark, "org.apache.hadoop.fs.Path")
    codecs = java_class(spark, "org.apache.hadoop.io.compress.CompressionCodecFactory")(conf)
    reader_class, decoder_class = java_class(spark, "java.io.BufferedReader"), java_class(spark, "java.io.InputStreamReader")
    found: list[str | None] = []
    for uri in uris:
        path = path_class(uri)
        packed, stream = codecs.getCodec(path), path.getFileSystem(conf).open(path)
        try:
            lines = reader_class(decoder_class(stream if packed is None else packed.createInputStream(stream), "UTF-8"))
            while (line := lines.readLine()) is not None and not line.strip():
                pass
            found.append(line)
        finally:
            stream.close()
    return found
