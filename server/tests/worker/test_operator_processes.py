"""How operator programs run: what they may know, that they are ended whole, and how a warm host is kept, replaced and ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tracelake.chaos import Chaos
from tracelake.child_processes import BoundedLog, Starter, clean_environment
from tracelake.settings import read_settings
from tracelake.worker.measuring.contract import Limits
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.building import host_command, limits_of, storage_environment, storage_section
from tracelake.worker.spark.host_process import HostProcess
from tracelake.worker.spark.operator_processes import CommandProcess, OperatorProcesses, OperatorRun, Progress

from .processes import until
from .scripted_control import TOKEN
from .workshop import Workshop, alive, wait_gone, workshop

# A stand-in for Spark: it reports the start and end of an order, and does what the order's text says.
HOST = """
import json, os, sys, threading, time
def say(line):
    sys.stdout.write(json.dumps(line) + "\\n"); sys.stdout.flush()
if "--never-ready" in sys.argv: sys.exit(1)
if "--fetches" in sys.argv: say({"preparing": "jars"})
say({"ready": {"pid": os.getpid()}})
stops = {}
def work(id, order, stop):
    say({"started": id})
    behaviour = open(order).read()
    if behaviour == "crash": os._exit(5)
    if behaviour == "noise": print("this is no JSON", flush=True); print("y" * 2_000_000, flush=True); print("[" * 900_000, flush=True)
    say({"progress": id, "fraction": 0.5, "note": "reading"})
    if behaviour == "wait": stop.wait(60)
    while behaviour == "deaf": time.sleep(1)
    say({"ended": id, "poisoned": behaviour == "poison"})
for line in sys.stdin:
    heard = json.loads(line)
    if "cancel" in heard: stops[heard["cancel"]].set(); continue
    stops[heard["run"]] = threading.Event()
    threading.Thread(target=work, args=(heard["run"], heard["order"], stops[heard["run"]]), daemon=True).start()
"""


def quiet(progress: Mapping[str, Any]) -> None:
    """Progress that nobody asked for."""


@pytest.fixture
def starter() -> Iterator[Starter]:
    made = Starter()
    yield made
    made.close()


class Host:
    def __init__(self, starter: Starter, folder: Path, *words: str) -> None:
        self.folder, self.now, self.progress = folder, 0.0, []
        (folder / "host.py").write_text(HOST)
        self.explained: list[OperatorFailed] = []
        self.process = HostProcess(
            starter, [sys.executable, str(folder / "host.py"), *words], environment=clean_environment(os.environ), folder=folder, log=BoundedLog(folder / "host.log"),
            chaos=Chaos(), idle_seconds=60, explain=lambda: OperatorFailed("java_missing", "No Java.", retry=True), clock=lambda: self.now,
        )
        self.number = 0

    def run(self, behaviour: str, progress: Progress = quiet) -> OperatorRun:
        self.number += 1
        order = self.folder / f"order-{self.number}"
        order.write_text(behaviour)
        return self.process.start(order, f"run-{self.number}", progress)

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid


@pytest.fixture
def host(starter: Starter, tmp_path: Path) -> Iterator[Host]:
    made = Host(starter, tmp_path)
    yield made
    made.process.close()


def test_a_host_is_started_with_the_first_order_and_kept(host: Host):
    assert host.process.pid is None
    said: list[Mapping[str, Any]] = []
    run = host.run("work", said.append)
    first = host.pid
    assert run.wait(30) and run.exit_code is None
    assert said == [{"fraction": 0.5, "note": "reading"}]
    assert host.run("work").wait(30)
    assert host.pid == first


def test_what_a_host_fetches_before_it_is_ready_is_in_the_log(starter: Starter, tmp_path: Path):
    host = Host(starter, tmp_path, "--fetches")
    try:
        with capture_logs() as logged:
            assert host.run("work").wait(30)
        assert [entry["preparing"] for entry in logged if entry["event"] == "a host gets ready"] == ["jars"]
    finally:
        host.process.close()


def test_what_the_settings_say_of_measuring_reaches_its_process():
    assert limits_of(read_settings(measuring={"cores": 3, "memory": "512m"})) == Limits(threads=3, memory="512MB")
    assert limits_of(read_settings(measuring={"memory": "2g"})) == Limits(threads=2, memory="2GB")


def test_a_poisoned_host_is_replaced_and_ends(host: Host):
    assert host.run("work").wait(30)
    first = host.pid
    assert host.run("poison").wait(30)
    assert host.run("work").wait(30)
    assert host.pid != first
    wait_gone([first])


def test_a_host_that_dies_ends_its_orders_and_the_next_gets_a_new_one(host: Host):
    waiting = host.run("wait")
    crashing = host.run("crash")
    assert crashing.wait(30) and waiting.wait(30)
    assert (crashing.exit_code, waiting.exit_code) == (5, 5)
    assert crashing.why_never_ready() is None
    assert host.run("work").wait(30)


def test_one_order_is_stopped_and_the_others_go_on(host: Host):
    one, other = host.run("wait"), host.run("wait")
    first = host.pid
    one.end()
    assert one.wait(0) and not other.wait(0)
    assert alive(first)
    other.end()


def test_a_host_that_does_not_stop_an_order_is_ended(host: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tracelake.worker.spark.host_process._CANCEL_SECONDS", 0.3)
    run = host.run("deaf")
    first = host.pid
    run.end()
    assert run.wait(0) and run.exit_code == -signal.SIGKILL
    wait_gone([first])


def test_a_host_that_makes_noise_is_still_understood(host: Host):
    assert host.run("noise").wait(30)


@pytest.mark.proves("X.10")
def test_a_host_that_cannot_be_listened_to_ends_and_leaves_no_order_waiting(host: Host):
    def broken(progress: Mapping[str, Any]) -> None:
        raise ZeroDivisionError("somebody's data")

    other = host.run("wait")
    first = host.pid
    with capture_logs() as logged:
        run = host.run("work", broken)
        assert run.wait(30) and other.wait(30)
    assert run.exit_code == -signal.SIGKILL
    assert [(entry["error"], entry["pid"]) for entry in logged if entry["log_level"] == "error"] == [("ZeroDivisionError", first)]
    wait_gone([first])
    assert host.run("work").wait(30)


def test_an_idle_host_is_ended_and_a_busy_one_is_not(host: Host):
    run = host.run("wait")
    first = host.pid
    host.now = 1000
    host.process.stop_idle()
    assert alive(first)
    run.end()
    host.process.stop_idle()
    host.now += 59
    host.process.stop_idle()
    assert host.process.pid == first
    host.now += 2
    host.process.stop_idle()
    assert host.process.pid is None
    wait_gone([first])


def test_a_host_that_never_is_ready_says_what_the_machine_lacks(starter: Starter, tmp_path: Path):
    host = Host(starter, tmp_path, "--never-ready")
    run = host.run("work")
    assert run.wait(30)
    missing = run.why_never_ready()
    assert missing is not None and missing.error_class == "java_missing"


def test_a_worker_without_a_host_names_what_to_install():
    with pytest.raises(OperatorFailed, match="tracelake-spark"):
        OperatorProcesses({}, None).of("sql")


@pytest.mark.proves("T3.7")
@pytest.mark.proves("T3.1")
def test_a_program_knows_no_token_and_nothing_of_the_workers_environment(tmp_path: Path):
    secrets = {"TRACELAKE__WORKER__TOKEN": TOKEN, "TRACELAKE_TOKEN": TOKEN, "AWS_SECRET_ACCESS_KEY": "s3-secret", "PGPASSWORD": "pg-secret", "MY_VAR": "mine"}
    with workshop(tmp_path, {**os.environ, **secrets}) as shop:
        shop.spec(rows=[[1, "a"]], dump_environment=shop.path("dumped"))
        task = shop.task()
        fence = shop.control.queue(task)
        shop.start_threads()
        shop.worker.run_once()
        dumped = json.loads(Path(shop.path("dumped")).read_text())
        assert {name for name in dumped["environment"] if name not in clean_environment(os.environ)} <= {"LC_CTYPE"}  # which Python itself sets
        text = Path(shop.path("dumped")).read_text()
        for secret in (TOKEN, "s3-secret", "pg-secret", fence.lease_token, shop.control.url, str(task.idempotency.key_prefix) + "/"):
            assert secret not in text
        assert shop.control.outcomes == [("succeeded", None)]


LOOK = """
import os, sys
for name in ("environ", "mem"):
    try:
        open(f"/proc/{sys.argv[1]}/{name}", "rb").read(10)
    except (PermissionError, OSError) as error:
        print(name, type(error).__name__, flush=True)
    else:
        print(name, "was read", flush=True)
"""
WORKER = """
import os, subprocess, sys
from pathlib import Path
from tracelake.launch import hide_memory
from tracelake.child_processes import Starter, clean_environment
if sys.argv[2] == "open":
    print(subprocess.run([sys.executable, "-c", sys.argv[1], str(os.getpid())], capture_output=True, text=True).stdout, end="")
    sys.exit()
hide_memory()
group = Starter().start([sys.executable, "-c", sys.argv[1], str(os.getpid())], environment=clean_environment(os.environ), folder=Path("/"))
print(group.stdout.read().decode(), end="")
group.end()
"""


@pytest.mark.proves("T3.7")
def test_a_program_cannot_read_the_memory_or_the_environment_of_its_worker(tmp_path: Path):
    def look(how: str) -> str:
        return subprocess.run([sys.executable, "-c", WORKER, LOOK, how], capture_output=True, text=True, check=True, timeout=60).stdout

    assert look("hidden") == "environ PermissionError\nmem PermissionError\n"
    assert "environ was read" in look("open")  # else this test could not fail


def test_a_program_is_ended_with_everything_that_it_started(starter: Starter, tmp_path: Path):
    # One child stays in its group, one leaves it, and both would outlive it.
    script = tmp_path / "parent.py"
    script.write_text(
        "import os, subprocess\n"
        "children = [subprocess.Popen(['sleep', '1000']), subprocess.Popen(['sleep', '1000'], process_group=0)]\n"
        "open('pids', 'w').write(' '.join(str(pid) for pid in [os.getpid(), *(child.pid for child in children)]))\n"
        "children[0].wait()\n"
    )
    process = CommandProcess(starter, [sys.executable, str(script)], environment=clean_environment(os.environ), log=BoundedLog(tmp_path / "log"), chaos=Chaos())
    order = tmp_path / "order.json"
    order.touch()
    run = process.start(order, "id", quiet)
    until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 3)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(alive(pid) for pid in pids)
    run.end()
    wait_gone(pids)
    assert run.exit_code == -signal.SIGKILL


def test_what_a_program_leaves_behind_is_ended_too(starter: Starter, tmp_path: Path):
    script = tmp_path / "parent.sh"
    script.write_text("#!/bin/sh\nsleep 1000 &\necho $! > pid\nexit 3\n")
    script.chmod(0o755)
    process = CommandProcess(starter, [str(script)], environment=clean_environment(os.environ), log=BoundedLog(tmp_path / "log"), chaos=Chaos())
    run = process.start(tmp_path / "order.json", "id", quiet)
    assert run.wait(30) and run.exit_code == 3
    wait_gone([int((tmp_path / "pid").read_text())])


ORPHAN = """
import os, subprocess, sys, time
from pathlib import Path
from tracelake.child_processes import Starter
group = Starter().start([sys.executable, "-c", "import time; time.sleep(1000)"], environment={}, folder=Path("/"), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
print(group.pid, flush=True)
time.sleep(1000)
"""


def test_a_program_dies_with_its_worker(tmp_path: Path):
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        pid = int(worker.stdout.readline())
        assert alive(pid)
        worker.kill()
    wait_gone([pid])


def test_a_log_keeps_the_newest_output_and_no_more_than_twice_its_limit(tmp_path: Path):
    log = BoundedLog(tmp_path / "logs" / "a.log", limit=1000)
    for number in range(100):
        log.write(f"line {number:04}\n".encode() * 5)
    log.write(b"x" * 5000)
    log.write(b"the last line\n")
    kept = [path.stat().st_size for path in (tmp_path / "logs").iterdir()]
    assert len(kept) == 2 and sum(kept) <= 2000
    assert log.path.read_bytes() == b"the last line\n"


def test_what_a_program_says_is_kept_in_its_log(shop: Workshop):
    shop.spec(rows=[[1, "a"]], say="hello from the program")
    shop.run(shop.task())
    until(lambda: shop.folder.joinpath("operator.log").read_text().count("hello from the program") == 2)


def test_a_kill_moment_is_passed_on_until_a_process_has_died_of_it(tmp_path: Path):
    with workshop(tmp_path, dict(os.environ), Chaos({"TRACELAKE__CHAOS__KILL_AT": "half_the_files"})) as shop:
        shop.spec(rows={"from": 0, "to": 4, "value": "a"}, files=2)
        shop.run(shop.task())
        shop.run(shop.task(attempt=2))
        assert shop.control.outcomes == [("failed", "no_outcome"), ("succeeded", None)]


def test_no_operator_process_is_given_the_key_of_the_store():
    environment = {"AWS_PROFILE": "someone", "AWS_SECRET_ACCESS_KEY": "ambient", "OTHER": "x"}
    assert storage_environment(read_settings(), environment) == {}
    given = {"url": "s3://bucket/x", "endpoint": "http://127.0.0.1:1", "access_key_id": "id", "secret_access_key": "key"}
    settings = read_settings(storage=given)
    assert storage_environment(settings, environment) == {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    assert not any("key" in word for word in host_command(settings))
    assert storage_section(settings)["secret_access_key"] == "key"
    # Without a key in the settings operators find what this machine offers, and `doctor` warns.
    assert storage_environment(read_settings(storage={"url": "s3://bucket"}), environment) == {
        "AWS_PROFILE": "someone", "AWS_SECRET_ACCESS_KEY": "ambient", "AWS_REGION": "us-east-1",
    }


def test_what_the_settings_say_of_spark_reaches_its_host():
    spark = {"master": "local[3,2]", "cores": 3, "memory": "2g", "packages": ["a.b:c:1"], "conf": {"spark.x": "a=b"}, "jars_folder": "/jars"}
    command = " ".join(host_command(read_settings(spark=spark)))
    assert command.endswith("--cores 3 --memory 2g --jars-folder /jars --master local[3,2] --package a.b:c:1 --conf spark.x=a=b")
    assert "--s3" in host_command(read_settings(storage={"url": "s3://bucket"}))


def test_waiting_for_a_program_respects_the_timeout(starter: Starter, tmp_path: Path):
    process = CommandProcess(starter, ["/bin/sh", "-c", "sleep 1000"], environment={}, log=BoundedLog(tmp_path / "log"), chaos=Chaos())
    run = process.start(tmp_path / "order.json", "id", quiet)
    began = time.monotonic()
    assert not run.wait(0.05)
    assert time.monotonic() - began < 30
    run.end()
    assert run.wait(0)
