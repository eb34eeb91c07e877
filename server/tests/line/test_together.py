"""Everything at once: workers that are slow, fail or vanish, appends that share keys, wide and narrow rewrites, movers, reaper and sweeper.

When all is quiet, every table is exactly what its inputs say, and everything is accounted for.
"""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.accounting import account_for, wait_until_quiet
from support.controls import ControlPlane, failed, running_control, settings_for
from support.databases import StateDatabase
from support.lakes import Lake
from support.lines import PARTITIONED, part
from support.sizes import seed, size

from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.tasks import ClaimedTask, CompletionAnswer, CompletionResult

# Beside the copy that is rewritten, one that is appended to.
COPIED_AND_COLLECTED = PARTITIONED.replace("publish:", """  - name: collect
    activation: reactive
    inputs: [{{from: {{job: load, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_0}}
    outputs: [{{layer: silver, description: Rows by id}}]
    update_strategy: append
    unique_key: [id]
publish:""")
PARTS = "abcd"


class Hand:
    """A worker that writes what its inputs say, and is not always well."""

    def __init__(self, lake: Lake, number: int) -> None:
        self.lake = lake
        self.rng = random.Random(seed() + number)
        self.name = f"w{number}"

    def run_once(self) -> None:
        for task in self.lake.take(self.rng.choice([1, 2, 4]), worker=self.name):
            mood = self.rng.random()
            if mood < 0.05:
                continue  # gone: its lease ends
            if mood < 0.12:
                self.lake.complete(failed(task))
                continue
            if mood < 0.2:
                time.sleep(self.rng.uniform(0, 0.2))
            try:
                self.work(task)
            except FileNotFoundError:  # the sweeper takes the folder of an attempt that was too slow, while it still writes, and of no other
                assert self.lake.one("SELECT attempt FROM task WHERE id = %s", task.fence.task_id) > task.fence.attempt

    def work(self, task: ClaimedTask) -> None:
        base, measured, moves = task.payload.base, self.written(task, set(), 0), 0
        there: set[int] = set()
        parts: dict[str, Any] = {"state": {"at": str(task.fence.task_id)}} if task.payload.job.operator == "ingest_files" else {}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer: CompletionAnswer = self.lake.report(task, measured, base=base, **parts)
            if answer.result is CompletionResult.BASE_MOVED:
                moves += 1
                there |= {row[0] for file in answer.moved[0].added for row in self.rows_of(task, file.path)}
                base, measured = answer.base, self.written(task, there, moves)
            elif answer.result is CompletionResult.WAIT:
                time.sleep(0.01)
            else:
                assert answer.result in ("committing", "unchanged", "superseded", "stale"), answer
                return

    def rows_of(self, task: ClaimedTask, path: str) -> list[tuple[Any, ...]]:
        staged = task.payload.outputs[0].staged
        assert staged is not None
        return self.lake.rows_of(self.lake.root / staged.location / path)

    def inputs(self, task: ClaimedTask) -> list[tuple[Any, ...]]:
        pinned = task.payload.inputs[0].pinned
        assert pinned is not None
        return [row for file in pinned.files for row in self.lake.rows_of(self.lake.root / pinned.location / file.path)]

    def written(self, task: ClaimedTask, there: set[int], moves: int) -> Any:
        staged = task.payload.outputs[0].staged
        assert staged is not None
        match task.payload.job.name:
            case "load":
                number = self.rng.randrange(10**12)
                rows = [(number + at, key) for at, key in enumerate(self.rng.sample(PARTS, 2))]
                return self.lake.measured([self.lake.stage(task, [row], scope=part(row[1]), name=f"p{row[1]}") for row in rows])
            case "rates":
                return self.lake.measured([self.lake.stage(task, [(1, "x")])])
            case "clean":
                by_part: dict[str, list[tuple[Any, ...]]] = {}
                for row in self.inputs(task):
                    by_part.setdefault(row[1], []).append(row)
                announced: list[Scope] = [part(key) for key in by_part] if staged.everything else list(staged.scopes)
                files = [self.lake.stage(task, rows, scope=part(key)) for key, rows in by_part.items() if part(key) in announced]
                return self.lake.measured(files, scopes=announced)
            case _:
                known = there | {row[0] for file in staged.current for row in self.rows_of(task, file.path)}
                left = [row for row in self.inputs(task) if row[0] not in known]
                return self.lake.measured([self.lake.stage(task, left, name=f"p{moves}")] if left else [])


@contextmanager
def running(steps: list[Any]) -> Iterator[list[BaseException]]:
    """Each step again and again in a thread of its own; what one of them raised."""
    over, raised = threading.Event(), list[BaseException]()

    def live(step: Any) -> None:
        while not over.is_set():
            try:
                step()
            except BaseException as error:
                raised.append(error)
                return
            time.sleep(0.005)

    threads = [threading.Thread(target=live, args=[step], daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield raised
    finally:
        over.set()
        for thread in threads:
            thread.join(timeout=60)
            assert not thread.is_alive()


@pytest.mark.proves("G3.2")
@pytest.mark.proves("T8.1")
@pytest.mark.proves("T8.2")
def test_every_table_is_what_its_inputs_say_once_all_is_quiet(database: StateDatabase, tmp_path: Path):
    tasks = {"housekeeping_seconds": 0.05, "lease_seconds": 2, "backoff_seconds": 0.02, "max_backoff_seconds": 0.1}
    settings = settings_for(database, tmp_path / "home", tasks=tasks, storage={"staging_retention_seconds": 1, "max_unrecorded": 5})
    with running_control(settings, database) as one, running_control(settings, database) as two:
        control_planes: list[ControlPlane] = [one, two]
        lakes = [Lake(control_plane.control, database) for control_plane in control_planes]
        lake = lakes[0]
        lake.deploy(COPIED_AND_COLLECTED, max_attempts=100)
        lake.run("rates")
        hands = [Hand(lakes[number % 2], number) for number in range(4)]
        with running([*(hand.run_once for hand in hands), lake.control.sweeper.run_once]) as raised:
            rng = random.Random(seed())
            for _ in range(size(12, 120)):
                lake.run("load")
                if rng.random() < 0.3:
                    lake.run("rates")
                time.sleep(rng.uniform(0, 0.2))
            wait_until_quiet(database, longest=300)
            assert raised == []
        assert {state for _, state in lake.states()} == {"completed"}
        account_for(database)
        raw = lake.rows(lake.location())
        assert len(raw) == 2 * size(12, 120)
        assert lake.rows(lake.location_of("clean")) == raw
        assert lake.rows(lake.location_of("collect")) == raw
