"""Aggregator and splitter through worker processes that are killed again and again: the events show the identity."""

from itertools import pairwise
from uuid import UUID

import pytest
from support.controls import ControlPlane
from support.sizes import seeded, size

from .processes import Workers, until
from .test_dispatcher_worker import CHAIN, STATES

SEVENS = CHAIN.replace("range_size: 10", "range_size: 7").replace("chunk_size: 5", "chunk_size: 1")
EMITTED = """
SELECT (event.scope->>'start')::int, (event.scope->>'end')::int
FROM dataset_event event JOIN dataset ON dataset.id = event.dataset_id JOIN job_key ON job_key.id = dataset.job_key_id
WHERE job_key.name = %s ORDER BY 1
"""
MOMENTS = ("worker_claimed", "worker_ran", "worker_completing", "worker_completed")


def state_of(control_plane: ControlPlane, task: UUID) -> str:
    return control_plane.one("SELECT state::text FROM task WHERE id = %s", task)


def all_completed(control_plane: ControlPlane) -> bool:
    return set(dict(control_plane.query(STATES))) == {"completed"}


def emit(control_plane: ControlPlane, *cursors: int) -> None:
    """Emits them and waits: two requests at once may be emitted in either order."""
    task = control_plane.emit(*cursors)
    until(lambda: state_of(control_plane, task) == "completed")


@pytest.mark.proves("T9.1")
@pytest.mark.proves("T9.2")
def test_the_splitter_after_the_aggregator_is_the_identity_under_kills(workers: Workers):
    control_plane, chance = workers.control_plane, seeded()
    control_plane.deploy(SEVENS, max_attempts=100)
    steady = workers.start(TRACELAKE__WORKER__PREFETCH="3")
    last, cursors = -50, set[int]()
    for number in range(size(4, 40)):
        mortal = workers.start(TRACELAKE__CHAOS__KILL_AT=f"{MOMENTS[number % 4]}*{chance.randint(1, 3)}", TRACELAKE__WORKER__PREFETCH="3")
        # Steps, jumps over several ranges, and cursors that were emitted before.
        fresh = [last := last + chance.choice((1, 2, 3, 7, 20)) for _ in range(8)]
        cursors.update(fresh)
        emit(control_plane, *fresh)
        emit(control_plane, *chance.sample(sorted(cursors), 4))
        until(lambda mortal=mortal: mortal.poll() is not None or all_completed(control_plane))
        mortal.kill()
        mortal.wait(20)
    until(lambda: all_completed(control_plane), 120)
    assert steady.poll() is None

    [(first, told_until)] = control_plane.query("SELECT (value->>'first')::int, (value->>'told_until')::int FROM operator_state")
    assert first <= min(cursors) < first + 7
    assert told_until <= max(cursors) < told_until + 7
    ranges, chunks = control_plane.query(EMITTED, "join"), control_plane.query(EMITTED, "cut")
    assert (ranges[0][0], ranges[-1][1]) == (first, told_until)
    assert all(end - start == 7 for start, end in ranges)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    assert chunks == [(value, value + 1) for value in range(first, told_until)]
    # Every event has its one subscriber's line, and that line its one task.
    assert control_plane.one("SELECT count(*) FROM event_ledger WHERE outcome = 'task'") == control_plane.one("SELECT count(*) FROM dataset_event")
    assert control_plane.one("SELECT count(*) FROM task WHERE trigger_kind = 'event'") == control_plane.one("SELECT count(*) FROM dataset_event")
    assert control_plane.one("SELECT count(*) FROM task_attempt WHERE ended_at IS NULL") == 0


@pytest.mark.proves("T9.1")
def test_a_cursor_out_of_order_stops_its_line_until_somebody_resumes_it(workers: Workers):
    control_plane = workers.control_plane
    control_plane.deploy(SEVENS, max_attempts=50)
    for _ in range(2):
        workers.start()
    emit(control_plane, 10, 30)
    until(lambda: all_completed(control_plane))
    emit(control_plane, 20)
    until(lambda: "failed" in dict(control_plane.query(STATES)))
    emit(control_plane, 36)
    assert control_plane.query("SELECT error_class FROM task_attempt WHERE outcome = 'failed'") == [("out_of_order",)]
    assert control_plane.query("SELECT waits::text FROM task WHERE state = 'queued'") == [("paused",)]
    control_plane.services.tasks.pauses.resume(control_plane.admin, "sample", "join")
    until(lambda: set(dict(control_plane.query(STATES))) == {"completed", "failed"})
    assert control_plane.query(EMITTED, "join") == [(7, 14), (14, 21), (21, 28), (28, 35)]
