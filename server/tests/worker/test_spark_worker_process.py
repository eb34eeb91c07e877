"""A worker process with programs that write files: the real measuring process, named moments to die at, and a stop that leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.parquet_operator import COMMAND

from tracelake_sdk.rules import NotNull, RuleScope, RuleToMeasure
from tracelake_sdk.tasks import CompletionResult, MissingRules, TaskPayload

from .processes import until
from .scripted_control import TOKEN, ScriptedControl, scripted_control
from .workshop import LOCATION, payload, processes_with, wait_gone


class Floor:
    """Worker processes against a scripted control, each ended by its pid when the test ends."""

    def __init__(self, control: ScriptedControl, folder: Path, ending: ExitStack) -> None:
        self.control, self.folder, self._ending = control, folder, ending
        self.log = folder / "worker.log"

    def start(self, **environment: str) -> "subprocess.Popen[bytes]":
        log = self._ending.enter_context(self.log.open("ab"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        given = {
            "TRACELAKE_HOME": str(self.folder / "home"), "TRACELAKE__WORKER__API_URL": self.control.url, "TRACELAKE__WORKER__TOKEN": TOKEN,
            "TRACELAKE__WORKER__COMMANDS": json.dumps({"ingest_files": COMMAND}),
        }  # fmt: skip
        process = subprocess.Popen([sys.executable, "-m", "tracelake.main", "worker"], env=kept | given | environment, stdout=log, stderr=log, cwd=self.folder)
        self._ending.callback(process.wait, 20)
        self._ending.callback(process.kill)
        return process

    def task(self, spec: dict[str, Any], **more: Any) -> TaskPayload:
        here = self.folder / "here"
        here.mkdir(exist_ok=True)
        (here / "spec.json").write_text(json.dumps(spec))
        return payload(config={"path": "here/spec.json", "format": "csv"}, locations={"here": here.as_uri()}, lease_seconds=30, **more)

    def reported(self, number: int = 1) -> None:
        until(lambda: len(self.control.completions) >= number)

    def entries(self) -> list[str]:
        return [json.loads(line)["event"] for line in self.log.read_text().splitlines()]


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    with ExitStack() as ending:
        control = ending.enter_context(scripted_control())
        yield Floor(control, tmp_path, ending)


def test_ctrl_c_gives_a_running_task_back_once_and_claims_nothing_more(floor: Floor):
    floor.control.requeues = True
    started = floor.folder / "started"
    floor.control.queue(floor.task({"touch": str(started), "wait_for": str(floor.folder / "never")}))
    worker = floor.start(TRACELAKE__WORKER__SLOTS="2")
    until(lambda: started.exists() and floor.control.polls > 0)
    worker.send_signal(signal.SIGINT)
    assert worker.wait(60) == 0
    assert floor.control.outcomes == [("given_back", "given_back")]
    assert len(floor.control.queued) == 1
    wait_gone(processes_with(str(floor.folder)))


def test_a_worker_process_measures_what_a_program_wrote(floor: Floor):
    task = floor.task({"rows": [[1, "a"], [2, None], [2, "b"]], "leftover": True})
    rule = RuleToMeasure(id=task.task_id, revision=1, scope=RuleScope.BATCH, tree=NotNull(column="value"))
    floor.control.queue(task)
    floor.control.answer(CompletionResult.MEASURE, measure=[MissingRules(index=0, rules=[rule]).model_dump(mode="json")])
    worker = floor.start()
    floor.reported(2)
    first, second = [report.outputs[0] for report in floor.control.completions]
    # An append with the key `id`: one of the two rows that share it stays.
    assert (first.rows, first.duplicates, first.rules) == (2, 1, [])
    assert [column["name"] for column in first.table_schema["fields"]] == ["id", "value"]
    assert all(file.path.startswith(f"{task.task_id}-1/") and file.seal for file in first.files)
    [measured] = second.rules
    assert measured.rule_id == rule.id and measured.violations in (0, 1)
    assert second.files == first.files
    worker.terminate()
    assert worker.wait(30) == 0
    assert TOKEN not in floor.log.read_text()
    wait_gone(processes_with(str(floor.folder)))


def test_files_that_are_no_parquet_are_refused_by_the_real_measuring(floor: Floor):
    outcome = json.dumps({"outputs": [{"index": 0, "files": ["full/none.parquet"], "scopes": [{"kind": "full"}]}]})
    floor.control.queue(floor.task({"outcome": outcome}))
    floor.start()
    floor.reported()
    assert floor.control.outcomes == [("failed", "file_missing")]


@pytest.mark.parametrize("moment", ["operator_started", "operator_ended", "measured", "complete_sent", "complete_answered", "batch_posted"])
def test_a_worker_dies_at_its_named_moments_and_its_programs_with_it(moment: str, floor: Floor):
    wait = {"wait_before_outcome": str(floor.folder / "never")} if moment in ("operator_started", "batch_posted") else {}
    batches = {"batches": 1} if moment == "batch_posted" else {}
    floor.control.queue(floor.task({"rows": [[1, "a"]], **wait, **batches}))
    worker = floor.start(TRACELAKE__CHAOS__KILL_AT=moment)
    assert worker.wait(60) == -signal.SIGKILL
    assert len(floor.control.completions) == (1 if moment == "complete_answered" else 0)
    assert len(floor.control.batches) == (1 if moment == "batch_posted" else 0)
    wait_gone(processes_with(str(floor.folder / "home")))


@pytest.mark.parametrize("moment", ["half_the_files", "measuring:sealed", "measuring:measured"])
def test_what_dies_below_a_worker_is_an_attempt_to_repeat(moment: str, floor: Floor):
    spec = {"rows": [[1, "a"]]}
    floor.control.queue(floor.task(spec))
    floor.start(TRACELAKE__CHAOS__KILL_AT=moment)
    floor.reported()
    floor.control.queue(floor.task(spec, attempt=2))
    floor.reported(2)
    first, second = floor.control.completions
    assert first.error is not None and first.error.retry
    assert first.error.error_class == ("no_outcome" if moment == "half_the_files" else "measuring_died")
    assert second.outcome == "succeeded"


def test_a_stopping_worker_gives_back_tasks_that_do_not_end(floor: Floor):
    task = floor.task({"touch": str(floor.folder / "started"), "wait_for": str(floor.folder / "never")})
    floor.control.queue(task)
    worker = floor.start()
    until((floor.folder / "started").exists)
    programs = processes_with(f"{task.task_id}-1/order.json")
    worker.terminate()
    assert worker.wait(40) == 0
    assert floor.control.outcomes == [("given_back", "given_back")]
    wait_gone(programs)
    assert floor.entries()[-1] == "stopped"
    assert list((floor.folder / "home" / "scratch").glob("*-*")) == []
    assert not (floor.folder / "home" / "lake" / LOCATION).exists()


def test_a_worker_of_one_runtime_asks_for_tasks_of_that_one(floor: Floor):
    floor.start(TRACELAKE__WORKER__RUNTIMES='["spark"]', TRACELAKE__WORKER__POLL_SECONDS="0")
    until(lambda: len(floor.control.claims) > 1)
    assert {claim["runtime"] for claim in floor.control.claims} == {"spark"}
