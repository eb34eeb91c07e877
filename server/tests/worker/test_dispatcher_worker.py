"""The worker against a real control: batches, cancels, lost leases, refusals and lost answers, each with one effect."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs
from support.controls import EMIT, ControlPlane, succeeded

from tracelake.worker.dispatcher.dispatcher_worker import DispatcherWorker
from tracelake.worker.dispatcher.operators.contract import OperatorResult
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.datasets.scopes import CursorScope, FullScope
from tracelake_sdk.errors import Unauthenticated
from tracelake_sdk.tasks import TaskPayload, TaskState
from tracelake_sdk.tasks.events import EventDraft

from .answering import relaying
from .hiring import Hire, run_until_idle

CHAIN = """
name: {name}
defaults: {{domain: test, owner: test, max_attempts: {max_attempts}}}
jobs:
  - {{name: start, activation: source, source: {{kind: manual}}, runtime: dispatcher, operator: emit, config: {{cursor: integer}},
     outputs: [{{layer: bronze, description: Cursors}}]}}
  - {{name: join, activation: reactive, inputs: [{{from: {{job: start, output: 0}}}}], execution_strategy: PerUpdate, runtime: dispatcher,
     operator: range_aggregator, config: {{cursor: integer, range_size: 10}}, outputs: [{{layer: bronze, description: Tens}}]}}
  - {{name: cut, activation: reactive, inputs: [{{from: {{job: join, output: 0}}}}], execution_strategy: PerUpdate, runtime: dispatcher,
     operator: range_splitter, config: {{cursor: integer, chunk_size: 5}}, outputs: [{{layer: bronze, description: Fives}}]}}
  - {{name: end, activation: reactive, inputs: [{{from: {{job: cut, output: 0}}}}], execution_strategy: PerUpdate, runtime: dispatcher, operator: noop}}
"""

STATES = "SELECT state::text, count(*)::int FROM task GROUP BY 1"
ATTEMPTS = "SELECT outcome::text, error_class FROM task_attempt WHERE task_id = %s ORDER BY attempt"
RANGES = """
SELECT (e.scope->>'start')::int, (e.scope->>'end')::int FROM dataset_event e
WHERE e.scope->>'kind' = 'range' ORDER BY 2, 1
"""


def at(moment: str, act: Callable[[], object]) -> Callable[[str], None]:
    """Does something once, the first time the worker reaches a moment."""
    left = [act]

    def watch(reached: str) -> None:
        if reached == moment and left:
            left.pop()()

    return watch


def end_task(control_plane: ControlPlane) -> str:
    """The one task of job `end`, waiting to be claimed."""
    control_plane.deploy(EMIT)
    control_plane.emit(1)
    [source] = control_plane.claim()
    control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=1))]))
    return control_plane.one("SELECT id FROM task WHERE state = 'queued'")


def later(seconds: float = 3600) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.mark.proves("T3.11")
def test_a_chain_of_operators_runs_to_its_end(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(CHAIN)
    control_plane.emit(3, 10, 25)
    run_until_idle(hire())
    assert dict(control_plane.query(STATES)) == {"completed": 1 + 3 + 2 + 4}
    assert control_plane.query(RANGES) == [(0, 5), (0, 10), (5, 10), (10, 15), (10, 20), (15, 20)]
    assert control_plane.one("SELECT count(*) FROM event_ledger") == 3 + 2 + 4


def test_the_call_that_reports_a_batch_brings_the_next(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    control_plane.emit(*range(250))
    moments: list[str] = []
    assert run_until_idle(hire(watch=moments.append)) == [1, 100, 100, 50]
    assert moments == ["worker_claimed", *["worker_ran", "worker_completing", "worker_completed", "worker_claimed"] * 3, "worker_ran", "worker_completing", "worker_completed"]
    # One claim was asked for by itself; all others came with a completion.
    assert control_plane.one("SELECT count(DISTINCT claim_sha256) FROM task_attempt") == 4


def test_a_failed_operator_is_reported_with_its_class_and_whether_to_retry(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)

    def fails(payload: TaskPayload) -> OperatorResult:
        raise OperatorFailed("no_luck", "It cannot be done; do something else.", retry=False)

    run_until_idle(hire(noop=fails))
    assert control_plane.query(ATTEMPTS, task) == [("failed", "no_luck")]
    assert control_plane.one("SELECT error_message FROM task_attempt WHERE task_id = %s", task) == "It cannot be done; do something else."
    assert dict(control_plane.query(STATES)) == {"completed": 1, "failed": 1}


def test_an_operator_that_raises_is_retried_and_only_the_log_has_the_trace(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)

    def raises(payload: TaskPayload) -> OperatorResult:
        raise ZeroDivisionError("row 42 of somebody's data")

    with capture_logs() as logs:
        hire(noop=raises).run_once()
    [(outcome, error_class, message)] = control_plane.query("SELECT outcome::text, error_class, error_message FROM task_attempt WHERE task_id = %s", task)
    assert (outcome, error_class) == ("failed", "ZeroDivisionError")
    assert "somebody" not in message
    [entry] = [entry for entry in logs if entry["event"] == "an operator raised"]
    assert entry["id"] in message and entry["exc_info"]
    assert dict(control_plane.query(STATES)) == {"completed": 1, "queued": 1}


def test_a_report_that_control_refuses_becomes_a_final_failure(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)
    result = OperatorResult([EventDraft(output=7, scope=FullScope())])
    assert run_until_idle(hire(noop=lambda payload: result)) == [1]
    assert control_plane.query(ATTEMPTS, task) == [("failed", "event_invalid")]
    assert dict(control_plane.query(STATES)) == {"completed": 1, "failed": 1}


def test_one_refused_report_harms_no_other(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    control_plane.emit(*range(5))
    bad = OperatorResult([EventDraft(output=7, scope=FullScope())])
    run_until_idle(hire(noop=lambda payload: bad if payload.trigger.scope == CursorScope(value=3) else OperatorResult()))
    assert dict(control_plane.query(STATES)) == {"completed": 5, "failed": 1}


@pytest.mark.proves("T3.6")
def test_a_task_that_is_canceled_after_the_claim_is_not_run(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)
    ran: list[TaskPayload] = []

    def cancel() -> None:
        control_plane.services.tasks.cancels.cancel(control_plane.admin, task)
        worker.leases.run_once()

    def noop(payload: TaskPayload) -> OperatorResult:
        ran.append(payload)
        return OperatorResult()

    worker = hire(watch=at("worker_claimed", cancel), noop=noop)
    run_until_idle(worker)
    assert ran == []
    assert control_plane.query(ATTEMPTS, task) == [("canceled", "canceled")]
    assert control_plane.one("SELECT state::text FROM task WHERE id = %s", task) == "canceled"


@pytest.mark.proves("T3.6")
def test_a_cancel_while_the_operator_runs_replaces_its_result(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    source = control_plane.emit(1, 2)

    def cancel() -> None:
        control_plane.services.tasks.cancels.cancel(control_plane.admin, source)
        worker.leases.run_once()

    worker: DispatcherWorker = hire(watch=at("worker_ran", cancel))
    run_until_idle(worker)
    assert dict(control_plane.query(STATES)) == {"canceled": 1}
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 0


@pytest.mark.proves("T3.6")
def test_a_canceled_task_hears_that_its_attempt_has_stopped(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)

    def cancel() -> None:
        control_plane.services.tasks.reaper.run_once(now=later())  # nobody runs it by the database's clock, so the cancel ends it at once
        assert control_plane.services.tasks.cancels.cancel(control_plane.admin, task) is TaskState.CANCELED
        worker.leases.run_once()

    worker: DispatcherWorker = hire(watch=at("worker_ran", cancel))
    with capture_logs() as logs:
        run_until_idle(worker)
    assert "report not accepted" not in {entry["event"] for entry in logs}


def test_what_was_reported_is_held_no_longer(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    control_plane.emit(*range(5))
    worker = hire()
    worker.run_once()
    assert worker.leases.longest == 30  # of the five that came with the answer
    run_until_idle(worker)
    assert worker.leases.longest == 0


@pytest.mark.proves("T3.6")
def test_a_cancel_that_the_worker_has_not_heard_of_wins_all_the_same(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    source = control_plane.emit(1, 2)
    run_until_idle(hire(watch=at("worker_completing", lambda: control_plane.services.tasks.cancels.cancel(control_plane.admin, source))))
    assert dict(control_plane.query(STATES)) == {"canceled": 1}
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 0


@pytest.mark.proves("T3.4")
def test_a_lost_task_is_dropped_and_its_new_attempt_counts(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)
    ran: list[TaskPayload] = []

    def lose() -> None:
        control_plane.services.tasks.reaper.run_once(now=later())
        control_plane.services.tasks.reaper.run_once(now=later(7200))
        [other] = control_plane.claim(worker="w2")
        assert other.fence.attempt == 2
        worker.leases.run_once()

    def noop(payload: TaskPayload) -> OperatorResult:
        ran.append(payload)
        return OperatorResult()

    worker = hire(watch=at("worker_claimed", lose), noop=noop)
    assert worker.run_once() == 1
    assert ran == []
    assert control_plane.query("SELECT attempt, worker, ended_at IS NULL FROM task_attempt WHERE task_id = %s ORDER BY 1", task) == [(1, "w1", False), (2, "w2", True)]


@pytest.mark.proves("T3.4")
def test_a_stale_report_is_dropped_and_the_worker_continues(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)

    def overtake() -> None:
        control_plane.services.tasks.reaper.run_once(now=later())
        control_plane.services.tasks.reaper.run_once(now=later(7200))
        control_plane.complete(*[succeeded(other) for other in control_plane.claim(worker="w2")])

    worker = hire(watch=at("worker_completing", overtake))
    run_until_idle(worker)
    assert control_plane.query(ATTEMPTS, task) == [("timed_out", "timed_out"), ("succeeded", None)]
    control_plane.emit(5)
    run_until_idle(worker)
    assert dict(control_plane.query(STATES)) == {"completed": 4}


@pytest.mark.proves("T3.4")
def test_a_slow_worker_may_finish_late(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)
    run_until_idle(hire(watch=at("worker_completing", lambda: control_plane.services.tasks.reaper.run_once(now=later()))))
    assert control_plane.query(ATTEMPTS, task) == [("succeeded", None)]


def test_a_stopping_worker_gives_back_what_it_has_not_run(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    control_plane.emit(*range(10))
    worker = hire(prefetch=4)
    worker.run_once()              # the source; four of its ten are in hand now
    worker.stop()
    worker.give_back()
    outcomes = dict(control_plane.query("SELECT outcome::text, count(*)::int FROM task_attempt GROUP BY 1"))
    assert outcomes == {"succeeded": 1, "given_back": 4}
    assert dict(control_plane.query(STATES)) == {"completed": 1, "queued": 10}
    assert control_plane.one("SELECT max(failures) FROM task") == 0
    run_until_idle(hire(name="w2"))
    assert dict(control_plane.query(STATES)) == {"completed": 11}


def test_a_stop_in_the_middle_of_a_batch_finishes_one_and_gives_back_the_rest(control_plane: ControlPlane, hire: Hire):
    control_plane.deploy(EMIT)
    control_plane.emit(*range(5))

    def stops(payload: TaskPayload) -> OperatorResult:
        worker.stop()
        return OperatorResult()

    worker = hire(noop=stops)
    worker.run()
    assert dict(control_plane.query("SELECT outcome::text, count(*)::int FROM task_attempt GROUP BY 1")) == {"succeeded": 2, "given_back": 4}


def test_a_lease_that_passed_before_the_operator_ran_is_given_back(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)
    seconds = [0.0]
    run_until_idle(hire(watch=at("worker_claimed", lambda: seconds.append(31)), clock=lambda: sum(seconds)))
    assert control_plane.query(ATTEMPTS, task) == [("given_back", "given_back"), ("succeeded", None)]


def test_a_heartbeat_renews_every_lease_that_is_held(control_plane: ControlPlane, hire: Hire):
    task = end_task(control_plane)

    def beat() -> None:
        [before] = control_plane.query("SELECT lease_expires_at FROM task WHERE id = %s", task)
        worker.leases.run_once()
        [after] = control_plane.query("SELECT lease_expires_at FROM task WHERE id = %s", task)
        assert after > before
        assert control_plane.one("SELECT last_heartbeat_at IS NOT NULL FROM task_attempt WHERE task_id = %s", task)
        beaten.append(True)

    beaten: list[bool] = []
    worker = hire(watch=at("worker_claimed", beat))
    run_until_idle(worker)
    assert beaten == [True]


@pytest.mark.proves("T2.6")
def test_lost_answers_to_claims_and_reports_lose_and_double_nothing(control_plane: ControlPlane, hire: Hire, api_url: str):
    control_plane.deploy(CHAIN)
    control_plane.emit(*range(0, 100, 3))
    # Every second answer of control never reaches the worker.
    with relaying(api_url, loses=lambda path, number: number % 2 == 1) as url:
        run_until_idle(hire(url=url))
    assert dict(control_plane.query(STATES)) == {"completed": 1 + 34 + 9 + 18}
    assert control_plane.one("SELECT max(attempt) FROM task") == 1
    assert control_plane.one("SELECT count(*) FROM task_attempt") == 62
    assert control_plane.one("SELECT count(*) FROM run_history") == 62
    assert control_plane.one("SELECT count(*) FROM event_ledger") == 61


def test_more_events_than_one_call_may_carry_are_reported_in_several(control_plane: ControlPlane, hire: Hire):
    moments: list[str] = []
    for dag in ("one", "two"):
        control_plane.deploy(CHAIN, name=dag)
        control_plane.run_source(dag, cursors=list(range(6000)))
    worker = hire(watch=moments.append)
    assert worker.run_once() == 2
    assert moments.count("worker_completing") == 2
    assert control_plane.one("SELECT count(*) FROM dataset_event") == 12_000


def test_a_worker_without_the_right_to_work_says_so(hire: Hire):
    with pytest.raises(Unauthenticated):
        hire(token="wrong").run()
