"""Cursors → ranges → chunks over HTTP with two workers, while workers and control die: the splitter after the aggregator is the identity."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from support.accounting import account_for, ask, rows_of, wait_until_quiet
from support.processes import AT_ONCE, KILLED, Processes, wait_until
from support.sizes import seeded, size

from tracelake.embedded.processes import Child
from tracelake_sdk.tasks import TaskState

RANGE = 10
DAG = f"""
name: ranges
defaults: {{domain: test, owner: test, max_attempts: 50}}
jobs:
  - name: cursors
    activation: source
    source: {{kind: manual}}
    runtime: dispatcher
    operator: emit
    config: {{cursor: integer}}
    outputs: [{{layer: bronze, description: Cursors}}]
  - name: join
    activation: reactive
    inputs: [{{from: {{job: cursors, output: 0}}}}]
    runtime: dispatcher
    operator: range_aggregator
    config: {{cursor: integer, range_size: {RANGE}}}
    outputs: [{{layer: bronze, description: Ranges}}]
  - name: cut
    activation: reactive
    inputs: [{{from: {{job: join, output: 0}}}}]
    runtime: dispatcher
    operator: range_splitter
    config: {{cursor: integer, chunk_size: 1}}
    outputs: [{{layer: bronze, description: Chunks of one}}]
  - name: end
    activation: reactive
    inputs: [{{from: {{job: cut, output: 0}}}}]
    runtime: dispatcher
    operator: noop
"""



class Story:
    """One system with control and two workers, which are killed one after the other while they work."""

    def __init__(self, processes: Processes, *, kills: Sequence[tuple[int, str]] = ()) -> None:
        """`kills`: at how many completed tasks who dies."""
        self.processes = processes
        self.database = processes.database
        self._kills = sorted(kills, reverse=True)
        # One worker dies by itself between its work and its report: one attempt at least is lost for certain.
        self.running: dict[str, Child] = {"control": processes.control(), "one": processes.worker(kill_at="worker_ran*2"), "two": processes.worker()}
        with processes.client() as client:
            client.dags.deploy(DAG)

    def emit(self, cursors: Sequence[int]) -> None:
        """A run that emits these cursors, while the one before may still be under way: they are emitted in the order of the requests."""
        with self.processes.client() as client:
            client.dags.run("ranges", "cursors", {"cursors": list(cursors)})
        self.until(lambda: sum(state != "completed" for _, state in self.tasks("cursors")) < 2, "the run before has emitted its cursors")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits, and lets die whose time has come."""

        def looked() -> bool:
            if self.running["one"].exit_code is not None:
                self._replace("one")
            if self._kills and ask(self.database, "SELECT count(*) FROM task WHERE state = 'completed'") >= self._kills[-1][0]:
                self.kill(self._kills.pop()[1])
            return condition()

        wait_until(looked, what, longest=600)

    def rest(self) -> None:
        self.until(lambda: not self._kills, "all who were to die have died")
        wait_until_quiet(self.database, longest=600)

    def kill(self, name: str) -> None:
        self.running[name].stop(AT_ONCE)
        self._replace(name)

    def _replace(self, name: str) -> None:
        assert self.running[name].exit_code == KILLED
        self.running[name] = self.processes.control() if name == "control" else self.processes.worker()

    def emitted(self, job: str) -> list[dict[str, Any]]:
        """The scopes that a job has emitted, in the order of the tasks that emitted them."""
        events = """
            SELECT event.scope FROM dataset_event AS event
            JOIN dataset ON dataset.id = event.dataset_id JOIN job_key ON job_key.id = dataset.job_key_id JOIN task ON task.id = event.producer_task_id
            WHERE job_key.name = %s ORDER BY task.ordinal, (event.scope ->> 'start')::bigint
        """
        return [scope for (scope,) in rows_of(self.database, events, job)]

    def tasks(self, job: str) -> list[tuple[dict[str, Any], str]]:
        """Scope and state of a job's tasks, in their order."""
        tasks = """
            SELECT task.scope, task.state::text FROM task JOIN generation ON generation.id = task.generation_id JOIN job_key ON job_key.id = generation.job_key_id
            WHERE job_key.name = %s ORDER BY task.ordinal, (task.scope ->> 'start')::bigint
        """
        return rows_of(self.database, tasks, job)


def spans(start: int, end: int, step: int) -> list[dict[str, Any]]:
    return [{"kind": "range", "start": first, "end": first + step} for first in range(start, end, step)]


def batches_of(rng: random.Random, number: int, batch: int) -> list[list[int]]:
    """The cursors 0 to `number` in their order, in batches, some of which begin with cursors that were emitted long ago."""
    batches: list[list[int]] = []
    for first in range(0, number, batch):
        known = rng.sample(range(first), rng.randrange(4)) if first > 3 else []
        batches.append(known + list(range(first, min(first + batch, number))))
    return batches


@pytest.mark.proves("T9.1")
@pytest.mark.proves("T9.2")
@pytest.mark.proves("T2.8")
@pytest.mark.proves("G1.6")
def test_the_splitter_after_the_aggregator_is_the_identity_under_crashes(processes: Processes):
    rng = seeded()
    number = size(200, 4000)
    batches = batches_of(rng, number, size(40, 200))
    tasks = sum(map(len, batches)) + number  # about as many as there will be: cursors, and chunks of one
    victims = [rng.choice(["control", "one", "two"]) for _ in range(size(3, 50))]
    story = Story(processes, kills=[(rng.randrange(20, tasks * 3 // 4), victim) for victim in victims])
    for batch in batches:
        story.emit(batch)
    jump = number + 7 * RANGE + 3
    story.emit([jump])
    story.rest()

    end = jump // RANGE * RANGE
    assert story.emitted("join") == spans(0, end, RANGE)                    # each range once, aligned, in order, also those jumped over
    assert sorted(story.emitted("cut"), key=lambda scope: scope["start"]) == spans(0, end, 1)
    whole = number // RANGE * RANGE
    cursors = {scope["value"] for scope in story.emitted("cursors")}
    chunks = {scope["start"] for scope in story.emitted("cut")}
    assert {cursor for cursor in cursors if cursor < whole} == {chunk for chunk in chunks if chunk < whole} == set(range(whole))
    assert [scope["value"] for scope, _ in story.tasks("join")] == [cursor for batch in [*batches, [jump]] for cursor in batch]
    assert ask(story.database, "SELECT revision FROM operator_state") == number + 1  # a known cursor moves nothing
    assert ask(story.database, "SELECT max(attempt) FROM task") > 1
    repeated = sum(map(len, batches)) - number
    assert account_for(story.database).tasks == {
        ("cursors", "completed"): len(batches) + 1,
        ("join", "completed"): number + 1 + repeated,
        ("cut", "completed"): end // RANGE,
        ("end", "completed"): end,
    }


@pytest.mark.proves("T9.1")
def test_a_cursor_out_of_order_pauses_its_job_and_a_resume_continues(processes: Processes):
    story = Story(processes)
    story.emit(range(13))
    story.kill("control")
    story.emit([5])           # known: no effect
    story.emit([40])          # passes three more ranges
    story.until(lambda: len(story.tasks("join")) == 15 and all(state == "completed" for _, state in story.tasks("join")), "the ranges are emitted")
    story.emit([20, 41])      # 20 was never emitted before, and comes after 40
    story.until(lambda: any(state == "failed" for _, state in story.tasks("join")), "the aggregator refuses it")
    story.emit([55])
    for name in story.running:
        story.kill(name)
    story.rest()
    with processes.client() as client:
        [refused] = client.tasks.list(dag="ranges", job="join", state=TaskState.FAILED).items
        assert client.tasks.get(refused.id).attempts[-1].error_class == "out_of_order"
        [join] = [job for job in client.dags.get("ranges").jobs if job.name == "join"]
        assert join.paused
        assert str(refused.id) in (join.pause_reason or "")
        assert sum(join.tasks.waiting.values()) == 2
        assert story.emitted("join") == spans(0, 40, RANGE)

        [join] = [job for job in client.dags.resume("ranges", "join").jobs if job.name == "join"]
        assert not join.paused
    story.rest()
    assert story.emitted("join") == spans(0, 50, RANGE)
    assert sorted(story.emitted("cut"), key=lambda scope: scope["start"]) == spans(0, 50, 1)
    assert account_for(story.database).tasks == {
        ("cursors", "completed"): 5,
        ("join", "completed"): 17,
        ("join", "failed"): 1,
        ("cut", "completed"): 5,
        ("end", "completed"): 50,
    }
