"""The warm Spark host: one process with one JVM that runs many tasks, also in parallel, and has no token.

It reads JSON lines on stdin, `{"run": id, "order": path}` and `{"cancel": id}`, and answers on stdout: `{"preparing": what}` while it
fetches jars, `{"unable": class, "message": …}` if it cannot start, `{"ready": …}`,
`{"started": id}`, `{"progress": id, "fraction": …, "note": …}`, `{"ended": id, "poisoned": …}`. The result of a task is in
the outcome file that its order names; without one the task has failed. A poisoned host must be replaced. It ends when
stdin does, and by itself when its JVM has ended.
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
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no checksum files beside the data, and every file name is allowed
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.scheduler.mode": "FAIR",  # a small task gets its share of the cores and does not wait for a large one
}
_JVM_GONE = 3
_PATIENCE_S = 30.0  # for canceled tasks when the host ends, and for the JVM

_log = logging.getLogger("tracelake.spark.host")


class _Run:
    """One task while it runs."""

    def __init__(self, name: str, place: int) -> None:
        self.name = name
        self.place = place  # the scheduler pool; Spark shares its cores between pools
        self.group = f"{name}/{uuid4().hex}"  # never reused: Spark remembers canceled groups
        self.canceled = threading.Event()


class Host:
    """Runs tasks in one JVM, each in its own thread and session."""

    def __init__(self, spark: "SparkSession", say: Say, watch: Callable[[str], None]) -> None:
        self._spark, self._say, self._watch = spark, say, watch
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._threads: dict[str, threading.Thread] = {}

    def hear(self, line: str) -> None:
        """One line of stdin; an invalid line ends the host, because the sender waits for an answer."""
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
                raise ValueError("a task with this id is already running")
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
        """Stops a task: its running jobs, its future jobs, and the operator at its next progress report."""
        with self._lock:
            run = self._runs.get(name)
        if run is not None:
            run.canceled.set()
            try:
                context_of(self._spark).cancelJobGroupAndFutureJobs(run.group, "The task was canceled.")
            except (Py4JError, OSError):
                _log.warning("The JVM has ended; there is no job to cancel.")

    def close(self) -> None:
        """Stops running tasks and waits a moment for them."""
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
            _log.error("A task has no outcome: its order cannot be read or its outcome cannot be written (%s)", type(error).__name__)  # a traceback would quote the order
        finally:
            self._end(run, poisoned=poisoned)

    def _end(self, run: _Run, *, poisoned: bool) -> None:
        with self._lock:
            if not poisoned and len(self._runs) == 1:
                poisoned = not self._forget_shared()
            del self._runs[run.name], self._threads[run.name]
        self._say({"ended": run.name, "poisoned": poisoned})

    def _outcome(self, run: _Run, order: Order) -> tuple[OperatorOutcome, bool]:
        """The outcome of the task, and whether the host must be replaced."""
        operator = OPERATORS.get(order.operator)
        if operator is None:
            return _failed(OperatorError(error_class="operator_unknown", message=f"Spark has no operator {order.operator!r}.", retry=False)), False
        try:
            session = self._spark.newSession()
            session.sparkContext.setJobGroup(run.group, "a task", interruptOnCancel=True)
            session.sparkContext.setLocalProperty("spark.scheduler.pool", f"place-{run.place}")
        except Exception:  # without a session the task cannot run
            return _failed(spark_died()), True
        try:
            self._heard(run)("operator_start")
            with own_connection(session, order) as reachable:
                outcome = operator(session, reachable, Progress(report=self._progress(run), moment=self._heard(run)))
        except (Exception, SystemExit) as error:  # an exception of an operator becomes its outcome
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
        """Temporary views and settings end with a session; shared state is dropped when no other task runs. False if that fails."""
        try:
            self._spark.catalog.clearCache()
        except (Py4JError, OSError):
            return False
        return True


def _failed(error: OperatorError) -> OperatorOutcome:
    return OperatorOutcome(error=error)


def _canceled() -> OperatorOutcome:
    return _failed(OperatorError(error_class="canceled", message="The task was canceled and has stopped.", retry=False))


def write_outcome(path: Path, outcome: OperatorOutcome) -> None:
    """Written atomically."""
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    draft.write_text(outcome.model_dump_json())
    draft.replace(path)


def _own_stdout() -> IO[str]:
    """The stdout that the worker reads; all other output, also of Java, goes to stderr."""
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
            except BrokenPipeError:  # the worker has ended; stdin ends next
                _log.warning("The worker no longer reads the output.")

    return say


def _end_with(jvm: Any, host: Host, ending: threading.Event) -> None:
    jvm.wait()
    if not ending.is_set():
        host.wait()  # their outcomes report that Spark died
        os._exit(_JVM_GONE)


def _end_jvm(jvm: Any) -> None:
    """It ends when its stdin ends; no process is left behind."""
    jvm.stdin.close()
    try:
        jvm.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


def _session_settings(given: argparse.Namespace, say: Say) -> dict[str, str]:
    """The settings of the session, with its jars fetched; ours come last, because the written files depend on them."""
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


def _to_log(output: bytes) -> None:
    sys.stderr.write(output.decode(errors="replace"))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tracelake_spark.host", description="A warm Spark host that runs the tasks that it reads from stdin.")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="1g", help="memory of the JVM, in Spark's notation")
    parser.add_argument("--master", help="Spark master of a cluster; default: this machine")
    parser.add_argument("--package", action="append", default=[], metavar="GROUP:ARTIFACT:VERSION", help="another package, with its dependencies")
    parser.add_argument("--jars-folder", type=Path, default=jars_folder(default_home()), help="folder of fetched jars")
    parser.add_argument("--s3", type=S3Connection.model_validate_json, metavar="JSON", help="connection to an object store")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="another Spark setting")
    given = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(message)s")
    # PySpark and Spark log failures with the query and the row; the outcome reports them without.
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
