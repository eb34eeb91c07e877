"""The JVM behind a session, where PySpark itself offers no way: Hadoop's files, plans, and what Java says of itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def jvm_of(spark: "SparkSession") -> Any:
    inner: Any = spark.sparkContext
    return inner._jvm


def context_of(spark: "SparkSession") -> Any:
    """Java's own SparkContext."""
    inner: Any = spark.sparkContext
    return inner._jsc.sc()


def session_state(spark: "SparkSession") -> Any:
    inner: Any = spark
    return inner._jsparkSession.sessionState()


def execution_of(frame: "DataFrame") -> Any:
    inner: Any = frame
    return inner._jdf.queryExecution()


def java_process(spark: "SparkSession") -> Any:
    """The JVM as a child of this process, a Popen."""
    inner: Any = spark.sparkContext
    return inner._gateway.proc


def estimated_bytes(frame: "DataFrame") -> int:
    """What Spark expects the rows of a frame to be at most; joins are far overestimated."""
    return int(str(execution_of(frame).optimizedPlan().stats().sizeInBytes()))


@dataclass(frozen=True)
class FoundFile:
    path: str          # relative to the folder that was listed
    size: int
    modified_ns: int


class Storage:
    """Files of any storage that Spark can open, by Hadoop's own interface; the names are taken as they are, never as patterns."""

    def __init__(self, spark: "SparkSession", uri: str) -> None:
        self._jvm: Any = jvm_of(spark)
        self._conf: Any = session_state(spark).newHadoopConf()
        self._files: Any = self._path(uri).getFileSystem(self._conf)

    def list_files(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder, with hidden ones."""
        root = self._files.makeQualified(self._path(folder)).toString().rstrip("/") + "/"
        found = self._files.listFiles(self._path(folder), True)
        while found.hasNext():
            status = found.next()
            yield FoundFile(status.getPath().toString().removeprefix(root), status.getLen(), status.getModificationTime() * 1_000_000)

    def is_folder(self, uri: str) -> bool:
        return self._files.exists(self._path(uri)) and self._files.getFileStatus(self._path(uri)).isDirectory()

    def find_file(self, uri: str) -> FoundFile | None:
        """The file itself, by its last name."""
        if not self._files.exists(self._path(uri)):
            return None
        status = self._files.getFileStatus(self._path(uri))
        return FoundFile(uri.rsplit("/", 1)[-1], status.getLen(), status.getModificationTime() * 1_000_000)

    def make_folder(self, uri: str) -> None:
        self._files.mkdirs(self._path(uri))

    def rename(self, source: str, target: str) -> None:
        if not self._files.rename(self._path(source), self._path(target)):
            raise OSError("a staged file could not be moved to its folder")

    def remove(self, folder: str) -> None:
        self._files.delete(self._path(folder), True)

    def parquet_rows(self, uri: str) -> int:
        """How many rows a Parquet file has, by its footer."""
        parquet = self._jvm.org.apache.parquet.hadoop
        reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(self._path(uri), self._conf))
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def first_line(self, uri: str) -> str | None:
        """The first line of a text file that is not blank, unpacked as its name says; None where there is none."""
        path = self._path(uri)
        packed = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._conf).getCodec(path)
        stream = self._files.open(path)
        try:
            plain = stream if packed is None else packed.createInputStream(stream)
            lines = self._jvm.java.io.BufferedReader(self._jvm.java.io.InputStreamReader(plain, "UTF-8"))
            while (line := lines.readLine()) is not None and not line.strip():
                pass
            return line
        finally:
            stream.close()

    def _path(self, uri: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(uri)
