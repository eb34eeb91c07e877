"""Crash points by name: control or worker dies by SIGKILL right before or right after it commits, and nothing is lost or doubled.

Each test says what the database held at the moment of death, so that a point that moved is noticed, then lets fresh processes
finish, and accounts for everything.
"""

from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
from support.accounting import account_for, ask, rows_of, wait_until_quiet
from support.controls import running_control, served, settings_for
from support.databases import StateDatabase
from support.processes import AT_ONCE, Processes, assert_killed, running_processes, wait_until
from support.receivers import Receiver, running_receiver
from support.sizes import full, seeded, size, some
from support.small_lines import end_leases
from support.workloads import ManySources

from tracelake.control.outbox.service import Drainer
from tracelake.embedded.processes import Child
from tracelake_sdk.client import Client
from tracelake_sdk.errors import OutcomeUnknown
from tracelake_sdk.tasks import TaskState

BEFORE, AFTER = "before_commit", "after_commit"
# At which moment of that name it dies. The second is the first at which ordered jobs are in play.
TIMES = [1, 2, 3, 4, 5] if full() else [2]
LONG_LEASE = {"TRACELAKE__TASKS__LEASE_SECONDS": "30"}

in_turn = pytest.mark.parametrize("time", TIMES)
on_both_sides = pytest.mark.parametrize("side", [BEFORE, AFTER])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


@pytest.fixture
def processes(database: StateDatabase, tmp_path: Path, receiver: Receiver) -> Iterator[Processes]:
    settings = {"TRACELAKE__WEBHOOK__URL": receiver.url, "TRACELAKE__WEBHOOK__ALLOW_PRIVATE_ADDRESSES": "true"}
    with running_processes(database, tmp_path, settings) as running:
        yield running


def workload(time: int, **parts: int) -> ManySources:
    """Large enough that each moment comes `time` times, and a bit of work is left."""
    return ManySources(sources=time + 1, cursors=5 + seeded().randrange(size(1, 8)), **parts)


def happened(side: str, time: int) -> int:
    """How many times the thing itself is done when the process dies at its moment for the `time`th time."""
    return time if side == AFTER else time - 1


def finish(processes: Processes, receiver: Receiver, expected: Counter[tuple[str, str]]) -> int:
    """Everything ends as expected, and every notification was sent; returns the number of attempts."""
    # An errand in a dead drainer's hands comes back after a minute; it passes here.
    rows_of(processes.database, "UPDATE outbox SET due_at = now() WHERE sent_at IS NULL")
    wait_until_quiet(processes.database)
    account = account_for(processes.database, notified=True)
    assert account.tasks == expected
    bodies: dict[str, set[bytes]] = defaultdict(set)
    for delivery in receiver.deliveries:
        bodies[delivery.key].add(delivery.body)
    assert all(len(different) == 1 for different in bodies.values())
    assert len(bodies) == sum(expected.values())
    assert set(bodies) == {str(id) for (id,) in rows_of(processes.database, "SELECT id FROM outbox")}
    return account.attempts


@contextmanager
def control_with_idle_loops(processes: Processes, receiver: Receiver) -> Generator[Client]:
    """One that reaps nothing and sends nothing: that is left to the process that is to die. It lives in the test itself, where it starts at once."""
    settings = settings_for(
        processes.database,
        processes.home,
        api={"port": int(processes.api_url.rpartition(":")[2])},
        tasks={"lease_seconds": 1, "housekeeping_seconds": 60},
        webhook={"url": receiver.url, "allow_private_addresses": True},
    )
    with running_control(settings, processes.database) as control_plane, served(control_plane.control), processes.client() as client:
        yield client


@pytest.mark.proves("T2.4")
@pytest.mark.proves("T2.8")
@pytest.mark.proves("T9.3")
@on_both_sides
@in_turn
def test_a_request_in_doubt_is_repeated_and_has_one_effect(processes: Processes, receiver: Receiver, side: str, time: int):
    work = workload(time)
    control = processes.control(kill_at=f"accept:{side}*{time}")
    with processes.client() as client:
        work.deploy(client)
        for source in range(1, time):
            work.request(client, source)
        with pytest.raises(OutcomeUnknown):
            work.request(client, time)
        assert_killed(control)
        assert ask(processes.database, "SELECT count(*) FROM task") == happened(side, time)

        processes.control()
        made = work.request_all(client)
        assert work.request_all(client) == made
        assert len(set(made)) == work.sources
    processes.worker()
    finish(processes, receiver, work.expected())


# How often a thing was done: each claim and each completing transaction left its mark.
CLAIMS = "SELECT count(DISTINCT claim_sha256) FROM task_attempt"
COMPLETIONS = "SELECT count(DISTINCT xid) FROM run_history"


@pytest.mark.proves("T2.6")
@pytest.mark.proves("T2.8")
@pytest.mark.proves("T3.4")
@pytest.mark.proves("G1.6")
@pytest.mark.parametrize("name", ["claim", "complete"])
@on_both_sides
@in_turn
def test_a_worker_outlives_control_and_repeats_what_is_in_doubt(processes: Processes, receiver: Receiver, name: str, side: str, time: int):
    work = workload(time)
    control = processes.control(LONG_LEASE, kill_at=f"{name}:{side}*{time}")
    with processes.client() as client:
        work.deploy(client)
        work.request_all(client)
    worker = processes.worker()
    assert_killed(control)
    seen = ask(processes.database, CLAIMS if name == "claim" else COMPLETIONS)
    assert seen == happened(side, time)

    processes.control(LONG_LEASE)
    attempts = finish(processes, receiver, work.expected())
    # The same claim returns the same tasks and the same report the recorded result: no attempt was lost to the crash.
    assert attempts == sum(work.expected().values())
    assert worker.exit_code is None


@pytest.mark.proves("T3.5")
@pytest.mark.proves("G1.6")
@on_both_sides
@in_turn
def test_a_lease_that_ran_out_is_reaped_once(processes: Processes, receiver: Receiver, side: str, time: int):
    work = workload(time)
    _lose_a_worker(processes, receiver, work, time)
    assert_killed(processes.control(kill_at=f"reap:{side}", ready=False))
    marked = ask(processes.database, "SELECT count(*) FROM task_attempt WHERE timed_out_at IS NOT NULL")
    assert (marked > 0) == (side == AFTER)

    processes.control()
    processes.worker()
    attempts = finish(processes, receiver, work.expected())
    assert attempts > sum(work.expected().values())


@pytest.mark.proves("T3.4")
@pytest.mark.proves("T3.5")
@on_both_sides
def test_the_last_permitted_attempt_is_given_up_once(processes: Processes, receiver: Receiver, side: str):
    work = workload(1, max_attempts=1)
    _lose_a_worker(processes, receiver, work, 1)
    assert_killed(processes.control(kill_at=f"reap:{side}", ready=False))
    marked = ask(processes.database, "SELECT count(*) FROM task_attempt WHERE timed_out_at IS NOT NULL")
    assert marked == (work.sources if side == AFTER else 0)

    processes.control()
    finish(processes, receiver, work.expected(ran=0, failed=work.sources))


def _lose_a_worker(processes: Processes, receiver: Receiver, work: ManySources, time: int) -> None:
    """A worker dies with the tasks that it has just claimed, and the leases expire while no control runs."""
    with control_with_idle_loops(processes, receiver) as client:
        work.deploy(client)
        work.request_all(client)
        assert_killed(processes.worker(kill_at=f"worker_claimed*{time}"))
    expired = "SELECT count(*) > 0 AND max(lease_expires_at) < now() FROM task WHERE state = 'running'"
    wait_until(lambda: ask(processes.database, expired), "the dead worker's leases have run out")


@pytest.mark.proves("T3.6")
@on_both_sides
@in_turn
def test_a_queued_task_is_canceled_once(processes: Processes, receiver: Receiver, side: str, time: int):
    work = workload(time)
    control = processes.control(kill_at=f"cancel:{side}*{time}")
    with processes.client() as client:
        work.deploy(client)
        tasks = work.request_all(client)[:time]
    _cancel_until_it_dies(processes, control, tasks)
    assert ask(processes.database, "SELECT count(*) FROM task WHERE state = 'canceled'") == happened(side, time)

    processes.control()
    with processes.client() as client:
        assert {client.tasks.cancel(task).state for task in tasks} == {TaskState.CANCELED}
    processes.worker()
    finish(processes, receiver, work.expected(ran=work.sources - time, canceled=time))


@pytest.mark.proves("T3.6")
@on_both_sides
@in_turn
def test_a_running_task_is_canceled_once(processes: Processes, receiver: Receiver, side: str, time: int):
    work = workload(time)
    control = processes.control({"TRACELAKE__TASKS__LEASE_SECONDS": "600"}, kill_at=f"cancel:{side}*{time}")
    with processes.client() as client:
        work.deploy(client)
        tasks = work.request_all(client)[:time]
    assert_killed(processes.worker(kill_at="worker_claimed"))
    _cancel_until_it_dies(processes, control, tasks)
    assert ask(processes.database, "SELECT count(*) FROM task WHERE cancel_asked_at IS NOT NULL") == happened(side, time)

    processes.control()
    with processes.client() as client:
        assert {client.tasks.cancel(task).state for task in tasks} == {TaskState.RUNNING}
    assert end_leases(processes) >= time
    processes.worker()
    finish(processes, receiver, work.expected(ran=work.sources - time, canceled=time))


def _cancel_until_it_dies(processes: Processes, control: Child, tasks: list[UUID]) -> None:
    with processes.client() as client:
        for task in tasks[:-1]:
            client.tasks.cancel(task)
        with pytest.raises(OutcomeUnknown):
            client.tasks.cancel(tasks[-1])
    assert_killed(control)


@pytest.mark.proves("T1.6")
@pytest.mark.parametrize("moment", some([f"outbox_take:{BEFORE}", f"outbox_take:{AFTER}", "outbox_send:before", "outbox_send:after", f"outbox_mark:{BEFORE}", f"outbox_mark:{AFTER}"], f"outbox_take:{AFTER}", "outbox_send:after"))
@in_turn
def test_an_errand_is_performed_again_under_its_first_key(processes: Processes, receiver: Receiver, moment: str, time: int):
    work = ManySources(sources=time, cursors=8)  # 19 errands a source, several batches
    errands = sum(work.expected().values())
    with control_with_idle_loops(processes, receiver) as client:
        work.deploy(client)
        work.request_all(client)
        worker = processes.worker()
        wait_until(lambda: ask(processes.database, "SELECT count(*) FROM outbox") == errands, "every task is final")
        worker.stop(AT_ONCE)
    assert receiver.deliveries == []

    assert_killed(processes.control(kill_at=f"{moment}*{time}", ready=False))
    taken, sent = rows_of(processes.database, "SELECT count(*) FILTER (WHERE tries > 0), count(*) FILTER (WHERE sent_at IS NOT NULL) FROM outbox")[0]
    before = moment.partition(":")[2].startswith("before")
    done = time - 1 if before else time
    match moment.partition(":")[0]:
        case "outbox_take":
            assert taken == min(errands, Drainer.batch * done)
            assert sent == len(receiver.deliveries) == Drainer.batch * (time - 1)
        case "outbox_send":
            assert len(receiver.deliveries) == done
            assert sent == time - 1
        case _:
            assert len(receiver.deliveries) == time
            assert sent == done
    processes.control()
    finish(processes, receiver, work.expected())
    repeated = len(receiver.deliveries) - errands
    assert repeated == (1 if moment in ("outbox_send:after", "outbox_mark:before_commit") else 0)


@pytest.mark.proves("T3.4")
@pytest.mark.proves("T3.5")
@pytest.mark.proves("G1.6")
@pytest.mark.parametrize("moment", some(["worker_claimed", "worker_ran", "worker_completing", "worker_completed"], "worker_claimed", "worker_completing"))
@in_turn
def test_what_a_dead_worker_held_is_done_by_another(processes: Processes, receiver: Receiver, moment: str, time: int):
    work = workload(time)
    processes.control()
    with processes.client() as client:
        work.deploy(client)
        work.request_all(client)
    assert_killed(processes.worker(kill_at=f"{moment}*{time}"))
    open_attempts, completed = rows_of(
        processes.database, "SELECT count(*) FILTER (WHERE ended_at IS NULL), count(*) FILTER (WHERE outcome = 'succeeded') FROM task_attempt"
    )[0]
    # A report is sent together with the claim of the next tasks: what that brought dies with the worker too.
    assert open_attempts > 0
    assert (completed > 0) == (moment == "worker_completed" or time > 1)

    processes.worker()
    attempts = finish(processes, receiver, work.expected())
    assert attempts > sum(work.expected().values())
