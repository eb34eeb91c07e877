"""Every command of `tracelake`, as a process, against a real control."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from support.controls import EMIT, RANGES, ControlPlane, failed, succeeded
from support.lakes import BRONZE, Lake
from support.wire import Asked, Said, serving

from tracelake_sdk.access import DagRight, TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.client.admin import Administration
from tracelake_sdk.dags import Layer
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import Invalid
from tracelake_sdk.records import Aggregation, MetadataContext, MetadataRecord, MetadataTarget, RecordFilters
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.remote import RemoteRepository
from tracelake_sdk.tasks import ClaimedTask
from tracelake_sdk.tasks.events import EventDraft

pytestmark = pytest.mark.proves("X.1")

PROGRAM = Path(sys.executable).with_name("tracelake")
DEFINITION = EMIT.format(name="sample", max_attempts=1)


class Shell:
    """Calls the command line as a person would."""

    def __init__(self, home: Path, api_url: str | None) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        self.environment = kept | {"TRACELAKE_HOME": str(home)} | ({"TRACELAKE_API_URL": api_url} if api_url else {})

    def __call__(self, *words: str, code: int = 0, stdin: str = "") -> str:
        """What it said: on stdout, or where it failed on stderr."""
        answer = subprocess.run(
            [PROGRAM, *words], capture_output=True, text=True, check=False, timeout=120, env=self.environment, input=stdin
        )
        assert answer.returncode == code, answer
        assert "Traceback" not in answer.stderr
        if code == 0:
            assert answer.stderr == ""
            return answer.stdout
        return answer.stderr

    def json(self, *words: str, stdin: str = "") -> Any:
        return json.loads(self(*words, "-o", "json", stdin=stdin))

    @contextmanager
    def begun(self, *words: str, token: str | None = None) -> Iterator[subprocess.Popen[str]]:
        environment = self.environment | ({"TRACELAKE_TOKEN": token} if token else {})
        with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
            try:
                yield process
            finally:
                process.kill()


@pytest.fixture
def shell(control_plane: ControlPlane, api_url: str) -> Shell:
    return Shell(control_plane.control.settings.home, api_url)


def claimed_one(control_plane: ControlPlane) -> ClaimedTask:
    """The next task, as soon as there is one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if claimed := control_plane.claim(1, wait_s=1):
            return claimed[0]
    raise AssertionError("no task came")


def emitting(claimed: ClaimedTask, *cursors: int) -> Any:
    return succeeded(claimed, events=[EventDraft(output=0, scope=CursorScope(value=cursor)) for cursor in cursors])


def test_a_file_is_deployed_once_and_a_dry_run_only_judges(control_plane: ControlPlane, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "dag.yaml"
    file.write_text(DEFINITION)
    assert "would activate DAG sample as version 1 with 2 jobs: start, end. Nothing was changed." in shell("deploy", str(file), "--dry-run")
    assert shell.json("status") == []
    deployed = shell.json("deploy", str(file))
    assert deployed == {"dry_run": False, "dag": "sample", "version": 1, "created": True, "jobs": ["start", "end"], "published": {}}
    assert "nothing was changed" in shell("deploy", str(file))
    assert shell.json("deploy", "-", "--dry-run", stdin=DEFINITION)["created"] is False
    assert control_plane.one("SELECT count(*) FROM dag_version") == 1


def test_a_refused_file_names_the_place_and_a_missing_one_is_wrong_usage(shell: Shell, tmp_path: Path) -> None:
    said = shell("deploy", "-", stdin=DEFINITION.replace("operator: noop", "operater: noop"), code=1)
    assert said.startswith("error [dag_key_unknown]: line ")
    assert "operater" in said
    assert said.count("\n") == 1
    assert "No such file" in shell("deploy", str(tmp_path / "none.yaml"), code=2)
    (tmp_path / "latin.yaml").write_bytes(b"name: \xff")
    assert "UTF-8" in shell("deploy", str(tmp_path / "latin.yaml"), code=2)


def test_a_run_is_followed_until_everything_that_it_caused_is_final(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    with shell.begun("run", "sample/start", "--cursors", "1..3", "--wait") as process:
        claimed = claimed_one(control_plane)
        assert claimed.payload.trigger.payload == {"cursors": [1, 2, 3], "rewrite": False}
        control_plane.complete(emitting(claimed, 1, 2, 3))
        for _ in range(3):
            assert process.poll() is None
            control_plane.complete(succeeded(claimed_one(control_plane)))
        out, _ = process.communicate(timeout=180)
    assert process.returncode == 0
    assert f"Task {claimed.fence.task_id} of sample/start is completed.\nFinished in 1 attempt; emitted 3 events.\n" in out
    assert "It caused 3 more tasks; all completed:\nsample/start   completed\n└─ sample/end  3 completed\n" in out
    assert out.splitlines()[-1].endswith(f" task show {claimed.fence.task_id}")


def test_only_the_task_is_followed_on_request(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    with shell.begun("run", "sample/start", "--cursor", "1", "--wait", "--only") as process:
        control_plane.complete(emitting(claimed_one(control_plane), 1))
        out, _ = process.communicate(timeout=180)
    assert (process.returncode, "It caused" in out) == (0, False)
    assert "requires --wait" in shell("run", "sample/start", "--cursor", "1", "--only", code=2)
    assert "requires --wait" in shell("run", "sample/start", "--cursor", "1", "--timeout", "5", code=2)


def test_a_run_that_exceeds_the_wait_continues_and_is_exit_code_3(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    with shell.begun("run", "sample/start", "--cursor", "1", "--wait", "--timeout", "0.5") as process:
        control_plane.complete(emitting(claimed_one(control_plane), 1))
        out, _ = process.communicate(timeout=180)
    assert process.returncode == 3
    assert "Timed out:\n" in out
    assert "queued" in out


def test_a_run_without_rows_says_that_there_is_no_version(control_plane: ControlPlane, shell: Shell) -> None:
    lake = Lake(control_plane.control, control_plane.database)
    lake.deploy(BRONZE)
    with shell.begun("run", "sample/load", "--wait") as process:
        taken = eventually_taken(lake)
        lake.write(taken, [])
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "The run completed without rows, so dataset sample_raw has no version yet.\n" in out


def eventually_taken(lake: Lake) -> ClaimedTask:
    deadline = time.monotonic() + 60
    while not (taken := lake.take(1)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return taken[0]


def test_what_a_pause_holds_at_the_timeout_is_named_with_how_it_continues(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    shell("pause", "sample/start")
    for only in ([], ["--only"]):
        with shell.begun("run", "sample/start", "--cursor", "1", "--wait", "--timeout", "0", *only) as process:
            out, _ = process.communicate(timeout=60)
        assert process.returncode == 3
        assert "Timed out:\n  sample/start: 1 task is queued: sample/start is paused (Paused by admin.); resume it with `" in out
        assert "resume sample/start`.\n" in out


def test_a_run_held_by_a_pause_says_how_to_resume(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    shell("pause", "sample/end")
    with shell.begun("run", "sample/start", "--cursor", "1", "--wait") as process:
        control_plane.complete(emitting(claimed_one(control_plane), 1))
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said == "A task of sample/end waits because sample/end is paused (Paused by admin.). To continue:\n"
        resume = process.stderr.readline().strip()
        assert resume.endswith(" resume sample/end")
        subprocess.run(resume, shell=True, check=True, env=shell.environment, capture_output=True)
        control_plane.complete(succeeded(claimed_one(control_plane)))
        process.communicate(timeout=180)
    assert process.returncode == 0


def test_a_run_that_is_no_longer_followed_is_reported_as_running(tmp_path: Path) -> None:
    task = {
        "id": str(uuid4()), "dag": "sample", "job": "start", "state": "running", "waits": None, "trigger_kind": "request", "trigger_id": str(uuid4()), "scope": None,
        "attempt": 1, "failures": 0, "created_at": "2026-01-01T00:00:00Z", "finished_at": None, "due_at": None, "cancel_asked_at": None,
    }  # fmt: skip
    counts = {"queued": 0, "waiting": {}, "running": 1, "committing": 0, "completed": 0, "failed": 0, "canceled": 0, "more": False}
    cascade = {"task": task, "jobs": [{"dag": "sample", "job": "start", "after": None, "tasks": counts}], "failed": []}
    followed = threading.Event()

    def answer(asked: Asked) -> Said:
        if asked.method == "GET":
            followed.set()
            return Said(200, cascade)
        return Said(200, task)

    with serving(answer) as server, Shell(tmp_path, server.url).begun("run", "sample/start", "--cursor", "1", "--wait", token="t") as process:
        assert followed.wait(60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=180)
    assert (process.returncode, out) == (130, "")
    assert f"Stopped following task {task['id']}; it is still running:\n  " in err
    assert err.endswith(f" task show {task['id']}\n")


def test_a_run_of_which_something_fails_is_exit_code_1(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT, max_attempts=1)
    with shell.begun("run", "sample/start", "--cursor", "1", "--wait", "-o", "json") as process:
        claimed = claimed_one(control_plane)
        control_plane.complete(failed(claimed))
        out, _ = process.communicate(timeout=180)
    assert process.returncode == 1
    task = json.loads(out)
    assert (task["state"], task["attempts"][0]["error_class"]) == ("failed", "broken")
    shell("resume", "sample/start")  # which a failure has paused, because it keeps an order
    with shell.begun("run", "sample/start", "--cursor", "2", "--wait") as process:
        control_plane.complete(emitting(claimed_one(control_plane), 2))
        control_plane.complete(failed(claimed_one(control_plane)))
        out, _ = process.communicate(timeout=180)
    assert process.returncode == 1
    assert "It caused 1 more task; not all completed:\nsample/start   completed\n└─ sample/end  failed\nsample/end broken: It broke.\n" in out


def test_a_run_with_a_known_key_is_the_same_task_and_a_dry_run_creates_none(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    assert "one task of sample/start that emits 2 cursors. Nothing was changed." in shell("run", "sample/start", "--cursors", "5,6", "--dry-run")
    assert shell.json("run", "sample/start", "--cursor", "5", "--dry-run")["dry_run"] is True
    assert control_plane.one("SELECT count(*) FROM task") == 0
    words = ("run", "sample/start", "--idempotency-key", "k", "--request", '{"cursors": [5]}')
    assert shell.json(*words)["id"] == shell.json(*words)["id"]
    assert "idempotency_conflict" in shell("run", "sample/start", "--idempotency-key", "k", "--cursor", "6", code=1)
    assert control_plane.one("SELECT count(*) FROM task") == 1


WRONG: list[tuple[list[str], int, str]] = [
    (["run", "sample/end"], 1, "error [job_not_runnable]: Job sample/end"),
    (["run", "sample/end", "--dry-run"], 1, "error [job_not_runnable]: Job sample/end"),
    (["run", "sample/start"], 1, "error [invalid]: The request for sample/start is not valid at cursors"),
    (["run", "sample/start", "--dry-run"], 1, "error [invalid]: The request for sample/start is not valid at cursors"),
    (["run", "sample/start", "--cursor", "2024-01-01T00:00:00Z"], 1, "error [invalid]: The cursors of sample/start are of type integer"),
    (["run", "sample/none", "--dry-run"], 1, "error [not_found]: Job sample/none was not found"),
    (["run", "sample", "--cursor", "1"], 2, "is a DAG; name one of its jobs"),
    (["run", "sample/start", "--cursor", "soon"], 2, "a cursor is a whole number or a time"),
    (["status", "none"], 1, "error [not_found]: DAG 'none' was not found"),
    (["task", "show", str(uuid4())], 1, "error [not_found]: "),
    (["task", "show", "7"], 2, "valid UUID"),
    (["task", "list", "none"], 1, "error [not_found]: DAG 'none' was not found"),
    (["events", "sample/none"], 1, "error [not_found]: Job sample/none was not found"),
    (["log", "a/b/c"], 2, "is neither DAG nor DAG/JOB"),
    (["log", "--token", "x"], 1, "error [malformed]: The page token is not valid"),
    (["log", "--limit", "0"], 2, "--limit"),
    (["task", "list", "--state", "done"], 2, "--state"),
    (["pause", "sample/none"], 1, "error [not_found]: Job sample/none was not found"),
    (["status", "-o", "yaml"], 2, "--output"),
    (["statu"], 2, "Did you mean 'status'?"),
    ([], 2, ""),
]


def test_an_error_is_one_sentence_with_the_right_exit_code(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(EMIT)
    for words, code, said in WRONG:
        assert said in shell(*words, code=code)
    assert control_plane.one("SELECT count(*) FROM task") == 0


def test_status_shows_what_waits_and_why(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(RANGES, name="joined")
    control_plane.run_source("joined")
    control_plane.complete(emitting(claimed_one(control_plane), 1, 2, 3))
    status = shell.json("status", "joined")
    jobs = {job["name"]: job for job in status["jobs"]}
    assert jobs["join"]["inputs"] == ["start"]
    assert jobs["join"]["tasks"] == {
        "queued": 1, "waiting": {"turn": 2}, "running": 0, "committing": 0, "completed": 0, "failed": 0, "canceled": 0, "more": False,
    }  # fmt: skip
    drawn = shell("status")
    assert "joined  version 1\n" in drawn
    assert "\n└─ join  dispatcher/range_aggregator       1  2 (turn)" in drawn
    assert "\x1b" not in drawn


def test_pause_and_resume_change_what_they_say_and_a_dry_run_nothing(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy()
    control_plane.run_source()
    assert "would hold 1 task" in shell("pause", "sample", "--dry-run")
    assert shell.json("resume", "sample/start", "--dry-run")["changes"] is False
    paused = {job["name"]: job for job in shell.json("pause", "sample/start")["jobs"]}
    assert (paused["start"]["paused"], paused["start"]["tasks"]["waiting"], paused["end"]["paused"]) == (True, {"paused": 1}, False)
    assert control_plane.claim(10) == []
    assert "paused: Paused by admin." in shell("status", "sample")
    assert "is already paused" in shell("pause", "sample/start", "--dry-run")
    assert "would let 1 task that waits for it continue." in shell("resume", "sample/start", "--dry-run")
    assert "one task of sample/start, which would wait: sample/start is paused." in shell("run", "sample/start", "--dry-run")
    assert "sample is paused" in shell("pause", "sample")
    assert "its DAG is paused, so its tasks still wait" in shell("resume", "sample/start")
    assert control_plane.claim(10) == []
    assert "sample is resumed." in shell("resume", "sample")
    assert len(control_plane.claim(10)) == 1


def test_a_task_is_listed_shown_and_canceled(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(max_attempts=2)
    first, second = control_plane.run_source(), control_plane.run_source()
    control_plane.complete(failed(claimed_one(control_plane)))
    assert [UUID(task["id"]) for task in shell.json("task", "list")["items"]] == [second, first]
    assert [UUID(task["id"]) for task in shell.json("task", "list", "sample/start", "--state", "running")["items"]] == []
    shown = shell("task", "show", str(first))
    assert f"task          {first}\n" in shown
    assert "queued (for its next attempt)" in shown
    assert "broken: It broke." in shown
    assert shell.json("task", "show", str(first))["attempts"][0]["outcome"] == "failed"
    assert "would end task" in shell("task", "cancel", str(second), "--dry-run")
    assert shell.json("task", "show", str(second))["state"] == "queued"
    assert "is canceled" in shell("task", "cancel", str(second))
    assert shell.json("task", "cancel", str(second))["state"] == "canceled"
    assert shell.json("task", "cancel", str(second), "--dry-run")["changes"] is False
    running = control_plane.run_source()
    claimed = next(task for task in control_plane.claim(10) if task.fence.task_id == running)
    assert "would request a stop of the running task" in shell("task", "cancel", str(running), "--dry-run")
    assert "a stop was requested" in shell("task", "cancel", str(running))
    assert claimed.fence.task_id == running


def test_a_final_task_cannot_be_canceled_not_even_dry(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy()
    task = control_plane.run_source()
    control_plane.complete(emitting(claimed_one(control_plane)))
    for extra in ([], ["--dry-run"]):
        assert shell("task", "cancel", str(task), *extra, code=1) == f"error [already_final]: Task {task} is completed and cannot be canceled.\n"


def test_events_are_listed_with_their_ledger_and_the_log_with_how_it_ended(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy(max_attempts=1)
    producer = control_plane.run_source()
    control_plane.complete(emitting(claimed_one(control_plane), 1, 2))
    broken = claimed_one(control_plane)
    control_plane.complete(failed(broken))
    events = shell.json("events", "sample/start")["items"]
    assert [event["scope"]["value"] for event in events] == [2, 1]
    assert [[(line["job"], line["outcome"]) for line in event["ledger"]] for event in events] == [[("sample/end", "task")]] * 2
    assert len(shell.json("events", "--producer", str(producer))["items"]) == 2
    assert f"{events[0]['ledger'][0]['task_id']}\n" in shell("events", "sample", "--limit", "1")
    assert shell("events", "sample/end") == "No events match.\n"
    runs = shell.json("log", "sample")["items"]
    assert [(run["job"], run["status"]) for run in runs] == [("end", "FAILED"), ("start", "SUCCESS")]
    listed = shell("log", "--status", "FAILED")
    assert "It broke." in listed
    assert shell("log", f"{broken.fence.task_id}:1").startswith(f"run           {broken.fence.task_id}:1\n")
    assert f" {broken.fence.task_id}:1 " in listed
    assert "is an id; `task show`" in shell("log", str(broken.fence.task_id), code=2)
    assert shell("log", "--status", "BLOCKED") == "No runs match.\n"


def test_the_printed_command_shows_the_next_page(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy()
    tasks = [str(control_plane.run_source()) for _ in range(5)]
    seen: list[str] = []
    page = shell("task", "list", "sample/start", "--state", "queued", "--limit", "2")
    while True:
        seen += [line.split()[0] for line in page.splitlines() if "sample/start  queued" in line]
        commands = [line.strip() for line in page.splitlines() if "--token" in line]
        if not commands:
            break
        page = subprocess.run(commands[0], shell=True, capture_output=True, text=True, check=True, env=shell.environment).stdout
    assert seen == tasks[::-1]


def test_the_doctor_looks_at_the_machine_the_way_and_the_token(control_plane: ControlPlane, shell: Shell, tmp_path: Path) -> None:
    checks = {check["name"]: check for check in shell.json("doctor")}
    assert {"python", "home", "api", "token"} <= set(checks)
    assert checks["api"]["ok"] is checks["token"]["ok"] is True
    assert checks["token"]["detail"] == "admin (user) of org main with roles admin"
    shell.environment["TRACELAKE_TOKEN"] = "not-a-token"
    answer = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True, check=False, env=shell.environment)
    assert answer.returncode == 1
    assert "FAILED  token" in answer.stdout
    assert "not-a-token" not in answer.stdout + answer.stderr
    nothing = {check["name"]: check for check in Shell(tmp_path / "nothing", None).json("doctor")}
    assert nothing["api"]["ok"] is None
    assert nothing["api"]["detail"].count("tracelake up`") == 1


def test_without_a_system_every_command_says_how_to_start_one(tmp_path: Path) -> None:
    nobody = Shell(tmp_path, None)
    for words in (["status"], ["log"], ["events"], ["task", "list"], ["pause", "a"], ["run", "a/b"], ["deploy", "-"]):
        said = nobody(*words, code=1)
        assert said.startswith(f"error [not_running]: No Tracelake system runs in {tmp_path}; start one with `TRACELAKE_HOME={tmp_path} ")
    nobody.environment["TRACELAKE_API_URL"] = "nowhere"
    assert nobody("status", code=2).startswith("error [setting_invalid]: TRACELAKE_API_URL")


def test_versions_are_printed(tmp_path: Path) -> None:
    shell = Shell(tmp_path, None)
    assert shell.json("version")["tracelake-sdk"] in shell("version")


def test_a_reader_who_leaves_early_is_not_an_error(control_plane: ControlPlane, shell: Shell) -> None:
    control_plane.deploy()
    for _ in range(40):
        control_plane.run_source()
    for words in ("task list", "task list -o json"):
        answer = subprocess.run(f"{PROGRAM} {words} | head -n 1", shell=True, capture_output=True, text=True, check=True, env=shell.environment)
        assert answer.stderr == ""
        assert answer.stdout.count("\n") == 1


def test_without_the_server_package_the_error_names_it(tmp_path: Path) -> None:
    """An environment that has the SDK and not the server: this interpreter, seen from a folder of its own."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    program = f"import sys; sys.executable = {str(tmp_path / 'bin' / 'python')!r}; sys.argv = ['tracelake', *sys.argv[1:]]; from tracelake_sdk.cli.main import main; main()"
    for command in ("up", "demo"):
        environment = {"PATH": "/nowhere", "TRACELAKE_HOME": str(tmp_path / "home")}
        answer = subprocess.run([sys.executable, "-c", program, command], capture_output=True, text=True, check=False, env=environment)
        assert answer.returncode == 1
        assert "error [server_missing]: " in answer.stderr
        assert "install the package `tracelake`" in answer.stderr


def test_the_client_does_what_the_command_line_does(control_plane: ControlPlane, api_url: str) -> None:
    home = control_plane.control.settings.home
    token = json.loads((home / "credentials.json").read_text())["admin_token"]
    with Client(api_url, token) as client:
        assert client.me().roles == ["admin"]
        assert client.dags.deploy(DEFINITION).created
        assert [dag.name for dag in client.dags.list()] == ["sample"]
        task = client.dags.run("sample", "start", {"cursors": [1, 2]})
        control_plane.complete(emitting(claimed_one(control_plane), 1, 2))
        assert [seen.state.value for seen in client.tasks.follow(task.id)][-1] == "completed"
        assert len(list(client.events.iterate(dag="sample"))) == 2
        assert len(list(client.tasks.iterate(dag="sample", job="end"))) == 2
        assert len(list(client.runs.iterate(dag="sample"))) == 1
        assert client.dags.pause("sample").paused
        assert not client.dags.resume("sample").paused
        assert client.tasks.cancel(next(client.tasks.iterate(job="end")).id).state.value == "canceled"


def admin_calls(admin: Administration) -> list[Callable[[], object]]:
    return [
        lambda: admin.create_user("t"), admin.users, lambda: admin.disable_user("t"), lambda: admin.enable_user("t"),
        lambda: admin.create_role("t"), admin.roles, lambda: admin.add_member("d", "t"), lambda: admin.remove_member("d", "t"),
        lambda: admin.create_token(TokenKind.WORKER, "t"), admin.tokens, lambda: admin.revoke_token("t"),
        lambda: admin.grant("d", DagRight.DEPLOY, "t"), lambda: admin.revoke_grant("d", DagRight.DEPLOY, role="t"), admin.grants,
        lambda: admin.read_roles("d"), lambda: admin.set_read_roles("d", []), admin.audit,
        admin.locations, lambda: admin.add_location("t", "file:///t"), lambda: admin.set_location("t", "file:///t"), lambda: admin.remove_location("t"),
        lambda: admin.grant_location("t", "t"), lambda: admin.revoke_location("t", "t"),
        admin.orgs, lambda: admin.create_org("t", admin="t"), lambda: admin.disable_org("t"), lambda: admin.enable_org("t"),
    ]  # fmt: skip


def record_calls(repository: RemoteRepository) -> list[Callable[[], object]]:
    context = MetadataContext(cluster="c", workspace="w", tenant="main")
    target = MetadataTarget(source_id="s", schema="s", table="t")
    record = MetadataRecord(target=target, kind="task_run", payload={}, produced_at=datetime.now(UTC), producer_id="test.v1")
    kind = Kind(name="t", schema={"type": "object"}, owner="o", description="d")
    return [
        lambda: repository.store(record, context), lambda: repository.bulk_store([record], context), lambda: repository.latest(target, "t", context),
        lambda: repository.history(target, "t", context), lambda: repository.query(RecordFilters(), context), lambda: repository.targets(context),
        lambda: repository.aggregate(RecordFilters(), Aggregation(), context), lambda: repository.tail(context),
        repository.kinds, lambda: repository.kind("t"), lambda: repository.register(kind),
    ]  # fmt: skip


def test_the_client_has_a_method_for_everything_that_users_may_call(api_url: str) -> None:
    with urllib.request.urlopen(f"{api_url}/openapi.json") as answer:
        offered = json.load(answer)["paths"]
    wanted = {(method.upper(), path) for path, methods in offered.items() if path.startswith("/v1/") for method in methods}
    wanted -= {("GET", "/v1/records/query"), ("GET", "/v1/records/aggregate")}  # for people with a browser; programs send their filters as a body
    problem = Said(422, Invalid().problem(), "application/problem+json")
    with serving(lambda asked: problem) as server, Client(server.url, "t") as client, RemoteRepository(server.url, "t", tenant="main") as repository:
        calls: list[Callable[[], object]] = [
            client.me, client.dags.list, lambda: client.dags.get("d"), lambda: client.dags.deploy(""), lambda: client.dags.run("d", "j"), client.runs.list, client.tasks.list, client.events.list,
            lambda: client.dags.pause("d"), lambda: client.dags.resume("d"), lambda: client.dags.pause("d", "j"), lambda: client.dags.resume("d", "j"),
            lambda: client.tasks.get("t"), lambda: client.tasks.cancel("t"), lambda: client.tasks.caused("t"),
            lambda: client.rules.add("d", "UNIQUE", "id"), client.rules.list, lambda: client.rules.revise("t"), lambda: client.rules.deactivate("t"),
            lambda: client.policies.add(Layer.GOLD, "SCHEMA", ""), client.policies.list, lambda: client.policies.revise("t"), lambda: client.policies.deactivate("t"),
            client.promotions.list, lambda: client.promotions.get("t"),
            client.datasets.list, lambda: client.datasets.get("d"), lambda: client.datasets.versions("d"), lambda: client.datasets.version("d", 1), lambda: client.datasets.explain("d"),
            lambda: client.snapshots.pin("d", "t"), client.snapshots.list, lambda: client.snapshots.unpin("t"),
            lambda: client.query("SELECT 1"), lambda: client.queries.replay("t"), client.queries.list, lambda: client.queries.get("t"),
            client.saved_queries.list, lambda: client.saved_queries.get("t"), lambda: client.saved_queries.save("t", "SELECT 1"), lambda: client.saved_queries.forget("t"),
            lambda: client.runs.get("t"), *admin_calls(client.admin), *record_calls(repository),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(Invalid):
                call()
    called = {(asked.method, asked.path.partition("?")[0]) for asked in server.asked}
    assert len(called) == len(calls)
    patterns = {(method, path): re.compile(re.sub(r"{[a-z_]+}", "[dtj1]", path)) for method, path in wanted}
    assert {place for place, pattern in patterns.items() if not any(place[0] == method and pattern.fullmatch(path) for method, path in called)} == set()
    assert len(called) == len(wanted)
