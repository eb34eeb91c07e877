"""The warm Spark host: one process with one JVM that runs task after task, side by side too, and holds no token.

It reads JSON lines on stdin, `{"run": id, "order": path}` and `{"cancel": id}`, and answers on stdout: `{"preparing": what}` while it
fetches jars, `{"unable": class, "message": …}` where it cannot start, `{"ready": …}`,
`{"started": id}`, `{"progress": id, "fraction": …, "note": …}`, `{"ended": id, "poisoned": …}`. What became of a task is in
the outcome file that its order names; without one the task has failed. A poisoned host is to be replaced. It ends when
stdin does, and by itself when its JVM is gone.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pydantic import ValidationError
from pyspark.util import InheritableThread

from tracelake_sdk.errors import JarsMissing, JavaMissing
from tracelake_sdk.home import default_home
from tracelake_sdk.spark_settings import S3Connection, jars_folder
from tracelake_sdk.tasks import OperatorError
from tracelake_sdk.tasks.operator_files import OperatorOutcome, Order
from tracelake_spark.failures import operator_error, ran_out_of_memory, spark_died
from tracelake_spark.jars import S3, Package, fetch_jars
from tracelake_spark.java import find_java
from tracelake_spark.jvm import context_of, java_class, java_process
from tracelake_spark.object_stores import connection_settings, own_connection
from tracelake_spark.operators.registry import OPERATORS
from tracelake_spark.progress import KILL_AT, Canceled, Progress, watch_for
from tracelake_spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[dict[str, Any]], None]

_SETTINGS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no checksum files beside the data, and any name is a name
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.scheduler.mode": "FAIR",  # a small task beside a large one gets its share of the cores, and does not wait behind it
}
_JVM_GONE = 3
_PATIENCE_S = 30.0  # for tasks that were asked to stop when the host ends, and for the JVM

_log = logging.getLogger("tracelake.spark.host")


class _Run:
    """One task while it runs."""

    def __init__(self, name: str, place: int) -> None:
        self.name = name
        self.place = place  # among those that run side by side; Spark shares its cores between places
        self.group = f"{name}/{uuid4().hex}"  # never the same twice: Spark remembers the groups it was asked to cancel
        self.canceled = threading.Event()


class Host:
    """Runs tasks in one JVM, each in a thread and a session of its own."""

    def __init__(self, spark: "SparkSession", say: Say, watch: Callable[[str], None]) -> None:
        self._spark, self._say, self._watch = spark, say, watch
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._threads: dict[str, threading.Thread] = {}

    def hear(self, line: str) -> None:
        """One line of stdin; a line that is not understood ends the host, because somebody waits for its answer."""
        match json.loads(line):
            case {"run": str(name), "order": str(path)}:
                self._start(name, Path(path))
            case {"cancel": str(name)}:
                self.cancel(name)
            case _:
                raise ValueError("a line is {\"run\": id, \"order\": path} or {\"cancel\": id}")

    def _start(self, name: str, path: Path) -> None:
        with self._lock:
            if name in self._runs:
                raise ValueError("a task with this id runs already")
            taken = {run.place for run in self._runs.values()}
            run = self._runs[name] = _Run(name, next(place for place in count() if place not in taken))
        thread = InheritableThread(target=self._work, args=(run, path), name=f"run {name}", daemon=True)
        with self._lock:
            self._threads[name] = thread
        try:
            thread.start()
        except (Py4JError, OSError):  # the JVM has ended: the thread's properties cannot be set
            self._end(run, poisoned=True)

    def cancel(self, name: str) -> None:
        """Stops a task: its jobs that run, those that it would start, and it itself when it next speaks."""
        with self._lock:
            run = self._runs.get(name)
        if run is not None:
            run.canceled.set()
            try:
                context_of(self._spark).cancelJobGroupAndFutureJobs(run.group, "The task was asked to stop.")
            except (Py4JError, OSError):
                _log.warning("The JVM has ended and has no job to cancel.")

    def close(self) -> None:
        """Stops what runs, and waits for it a moment."""
        with self._lock:
            threads, names = list(self._threads.values()), list(self._runs)
        for name in names:
            self.cancel(name)
        self.wait(threads)

    def wait(self, threads: Iterable[threading.Thread] | None = None) -> None:
        with self._lock:
            waited = list(self._threads.values() if threads is None else threads)
        for thread in waited:
            thread.join(_PATIENCE_S)

    def _work(self, run: _Run, path: Path) -> None:
        poisoned = False
        try:
            self._say({"started": run.name})
            order = Order.model_validate_json(path.read_bytes())
            outcome, poisoned = self._outcome(run, order)
            self._watch("before_outcome")
            write_outcome(Path(order.outcome), outcome)
        except (OSError, ValidationError) as error:
            _log.error("A task has no outcome, because its order cannot be read or its outcome cannot be written: %s", type(error).__name__)  # a trace quotes the order
        finally:
            self._end(run, poisoned=poisoned)

    def _end(self, run: _Run, *, poisoned: bool) -> None:
        with self._lock:
            if not poisoned and len(self._runs) == 1:
                poisoned = not self._forget_shared()
            del self._runs[run.name], self._threads[run.name]
        self._say({"ended": run.name, "poisoned": poisoned})

    def _outcome(self, run: _Run, order: Order) -> tuple[OperatorOutcome, bool]:
        """What became of the task, and whether the host can still be used."""
        operator = OPERATORS.get(order.operator)
        if operator is None:
            return _failed(OperatorError(error_class="operator_unknown", message=f"Spark has no operator {order.operator!r}.", retry=False)), False
        try:
            session = self._spark.newSession()
            session.sparkContext.setJobGroup(run.group, "a task", interruptOnCancel=True)
            session.sparkContext.setLocalProperty("spark.scheduler.pool", f"place-{run.place}")
        except Exception:  # whatever it is, without a session there is no work
            return _failed(spark_died()), True
        try:
            self._heard(run)("operator_start")
            with own_connection(session, order) as reachable:
                outcome = operator(session, reachable, Progress(report=self._progress(run), moment=self._heard(run)))
        except (Exception, SystemExit) as error:  # whatever an operator raises is its outcome
            sound = self._sound()
            if run.canceled.is_set() or isinstance(error, Canceled):
                return _canceled(), not sound
            return (_failed(operator_error(session, error)), ran_out_of_memory(error)) if sound else (_failed(spark_died()), True)
        return (_canceled(), False) if run.canceled.is_set() else (outcome, False)

    def _heard(self, run: _Run) -> Callable[[str], None]:
        def moment(name: str) -> None:
            self._watch(name)
            if run.canceled.is_set():
                raise Canceled

        return moment

    def _progress(self, run: _Run) -> Callable[[float | None, str], None]:
        def progress(fraction: float | None, note: str) -> None:
            self._say({"progress": run.name, "fraction": fraction, "note": note})
            if run.canceled.is_set():
                raise Canceled

        return progress

    def _sound(self) -> bool:
        try:
            return not context_of(self._spark).isStopped()
        except (Py4JError, OSError):
            return False

    def _forget_shared(self) -> bool:
        """Temporary views and settings go with a session; what all sessions share is dropped when nobody else runs. False: it cannot be."""
        try:
            self._spark.catalog.clearCache()
        except (Py4JError, OSError):
            return False
        return True


def _failed(error: OperatorError) -> OperatorOutcome:
    return OperatorOutcome(error=error)


def _canceled() -> OperatorOutcome:
    return _failed(OperatorError(error_class="canceled", message="The task was asked to stop, and did.", retry=False))


def write_outcome(path: Path, outcome: OperatorOutcome) -> None:
    """Whole or absent, never half."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_text(outcome.model_dump_json())
    draft.replace(path)


def _own_stdout() -> IO[str]:
    """The stdout that somebody listens to; what anybody else prints, Java too, goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _sayer(answers: IO[str]) -> Say:
    lock = threading.Lock()

    def say(line: dict[str, Any]) -> None:
        with lock:
            try:
                answers.write(json.dumps(line) + "\n")
                answers.flush()
            except BrokenPipeError:  # nobody listens any more; stdin ends next
                _log.warning("Nobody listens.")

    return say


def _end_with(jvm: Any, host: Host, ending: threading.Event) -> None:
    jvm.wait()
    if not ending.is_set():
        host.wait()  # their outcomes say that Spark died
        os._exit(_JVM_GONE)


def _end_jvm(jvm: Any) -> None:
    """It ends with its own stdin; nothing is left behind."""
    jvm.stdin.close()
    try:
        jvm.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _session_settings(given: argparse.Namespace, say: Say) -> dict[str, str]:
    """The settings of the session, with its jars fetched; ours come last, because what is written depends on them."""
    conf: dict[str, str] = dict(pair.split("=", 1) for pair in given.conf)
    own_jars = [jar for jar in conf.pop("spark.jars", "").split(",") if jar]
    packages = [Package.of(coordinates) for coordinates in given.package]
    if given.s3 is not None and not any(Path(jar).name.startswith("hadoop-aws-") for jar in own_jars):
        packages = [*S3, *packages]
    fetched = fetch_jars(
        packages, given.jars_folder, java=find_java().path / "bin" / "java", log=_to_log, fetching=lambda what: say({"preparing": what}),
        ivy_settings=conf.get("spark.jars.ivySettings"),
    ) if packages else []  # fmt: skip
    jars = {"spark.jars": ",".join([*own_jars, *map(str, fetched)])} if own_jars or fetched else {}
    master = {"spark.master": given.master} if given.master else {}
    return conf | jars | master | (connection_settings(given.s3) if given.s3 else {}) | _SETTINGS


def _to_log(said: bytes) -> None:
    sys.stderr.write(said.decode(errors="replace"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tracelake_spark.host", description="A warm Spark that runs the tasks that it reads from stdin.")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="1g", help="of the JVM, as Spark spells it")
    parser.add_argument("--master", help="of a cluster; default: this machine")
    parser.add_argument("--package", action="append", default=[], metavar="GROUP:ARTIFACT:VERSION", help="a further package with what it needs")
    parser.add_argument("--jars-folder", type=Path, default=jars_folder(default_home()), help="where fetched jars are kept")
    parser.add_argument("--s3", type=S3Connection.model_validate_json, metavar="JSON", help="how to reach an object store")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a further setting by its Spark name")
    given = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    # PySpark and Spark log what failed with the query and the row that it failed on; the outcome says it without.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    answers = _own_stdout()
    say = _sayer(answers)
    try:
        settings = _session_settings(given, say)
    except (JarsMissing, JavaMissing) as missing:
        say({"unable": missing.code, "message": missing.detail})
        return 1
    spark = local_session("tracelake", cores=given.cores, memory=given.memory, **settings)
    spark.sparkContext.setLogLevel("FATAL")
    jvm = java_process(spark)
    host = Host(spark, say, watch_for(os.environ.get(KILL_AT)))
    ending = threading.Event()
    threading.Thread(target=_end_with, args=(jvm, host, ending), daemon=True).start()
    say({"ready": {"pid": os.getpid(), "jvm": java_class(spark, "java.lang.ProcessHandle").current().pid(), "spark": spark.version}})
    for line in sys.stdin:
        host.hear(line)
    ending.set()
    host.close()
    spark.stop()
    _end_jvm(jvm)
    return 0


if __name__ == "__main__":
    sys.exit(main())
