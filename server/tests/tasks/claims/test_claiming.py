"""Claims lose nothing: late commits, killed claimers, retries, held snapshots. Each with exactly one control process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import psycopg
import pytest
from support.controls import EMIT, ControlPlane, failed, fresh_claim_id, succeeded

from tracelake.control.database.transactions import Database
from tracelake.control.tasks.claims.claiming import Claims
from tracelake.control.tasks.claims.long_polls import WaitingRoom
from tracelake.control.tasks.claims.rows import QueuedTask
from tracelake.control.tasks.claims.watermarks import Watermarks, next_low
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.errors import Forbidden, NotFound
from tracelake_sdk.tasks import ClaimRequest, TaskPayload, TaskState
from tracelake_sdk.tasks.events import EventDraft

LONG = timedelta(days=1)


class Clock:
    """Time that only a test moves: the claim without the hint runs when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(control_plane: ControlPlane) -> Clock:
    clock = Clock()
    claims = control_plane.services.tasks.claims
    object.__setattr__(control_plane.services.tasks, "claims", replace(claims, watermarks=Watermarks(clock)))
    return clock


def ids(tasks) -> list:
    return [task.fence.task_id for task in tasks]


@pytest.mark.proves("T3.2")
def test_a_claim_returns_attempt_lease_and_payload(control_plane: ControlPlane):
    control_plane.deploy(EMIT)
    task_id = control_plane.run_source(cursors=[5])
    before = control_plane.fetch(task_id)
    assert (before.attempt, before.state, before.slot, before.status) == (None, None, None, TaskState.QUEUED)
    [task] = control_plane.claim()
    payload = TaskPayload.model_validate_json(task.payload.model_dump_json())
    assert payload == task.payload
    assert (payload.attempt, payload.status, payload.job.key, payload.trigger.payload["cursors"]) == (1, TaskState.RUNNING, "sample/start", [5])
    assert task.lease_expires_at == control_plane.one("SELECT lease_expires_at FROM task")
    assert "lease_token" not in task.payload.model_dump_json()
    [(token, claim)] = control_plane.query("SELECT token_sha256, claim_sha256 FROM task_attempt")
    assert task.fence.lease_token.encode() not in bytes(token) + bytes(claim)


@pytest.mark.proves("T3.2")
def test_fetching_changes_nothing(control_plane: ControlPlane):
    control_plane.deploy()
    task_id = control_plane.run_source()
    before = control_plane.query("SELECT * FROM task")
    control_plane.fetch(task_id)
    assert control_plane.query("SELECT * FROM task") == before


@pytest.mark.proves("T3.2")
def test_a_worker_fetches_only_tasks_of_its_pools(control_plane: ControlPlane):
    control_plane.deploy()
    task = control_plane.run_source()
    bound = replace(control_plane.worker, pools=frozenset({"default"}))
    assert control_plane.services.tasks.claims.fetch(bound, task) is not None
    with pytest.raises(NotFound):
        control_plane.services.tasks.claims.fetch(replace(control_plane.worker, pools=frozenset({"gpu"})), task)


def test_a_transaction_that_drew_an_earlier_number_and_commits_late_is_found(control_plane: ControlPlane, clock: Clock):
    control_plane.deploy()
    with psycopg.connect(control_plane.database.superuser_url) as late:
        earlier = control_plane.run_source()
        late.execute("UPDATE task SET seq = nextval('task_seq') WHERE id = %s", [earlier])  # its row is not visible to others yet
        others = [control_plane.run_source() for n in range(2, 6)]
        # While it is in flight the row is still seen with its old number, and locked: it is passed by and remembered.
        assert ids(control_plane.claim()) == others
        late.commit()
    assert ids(control_plane.claim()) == [earlier]


def test_a_row_inserted_with_an_earlier_number_is_found_by_the_look_without_the_hint(control_plane: ControlPlane, clock: Clock):
    control_plane.deploy()
    template = control_plane.run_source()
    [first] = control_plane.claim()
    control_plane.complete(succeeded(first))
    with psycopg.connect(control_plane.database.superuser_url) as late:
        late.execute(
            "INSERT INTO task (id, org_id, dag_id, generation_id, pool_id, trigger_kind, trigger_id, request, seq)"
            " SELECT gen_random_uuid(), org_id, dag_id, generation_id, pool_id, trigger_kind, gen_random_uuid(), request, nextval('task_seq')"
            " FROM task WHERE id = %s",
            [template],
        )
        others = [control_plane.run_source() for n in range(1, 4)]
        assert ids(control_plane.claim()) == others  # the watermark is now past the number that the open transaction drew
        late.commit()
    assert control_plane.claim() == []  # by the hint alone it would be lost for good
    clock.now += 5
    assert len(control_plane.claim()) == 1


def test_a_row_that_a_killed_claimer_held_is_not_overtaken(control_plane: ControlPlane, clock: Clock):
    control_plane.deploy()
    tasks = [control_plane.run_source() for n in range(4)]
    claimer = psycopg.connect(control_plane.database.superuser_url)
    claimer.execute("SELECT 1 FROM task WHERE id = %s FOR UPDATE", [tasks[1]])
    pid = claimer.info.backend_pid
    assert ids(control_plane.claim()) == [tasks[0], tasks[2], tasks[3]]
    assert control_plane.claim() == []
    assert control_plane.one("SELECT pg_terminate_backend(%s, 10000)", pid)
    claimer.close()
    assert ids(control_plane.claim()) == [tasks[1]]


def test_a_retry_that_becomes_due_is_claimed(control_plane: ControlPlane, clock: Clock):
    control_plane.deploy()
    first = control_plane.run_source()
    [task] = control_plane.claim()
    [control_plane.run_source() for n in range(1, 5)]
    control_plane.claim()
    control_plane.complete(failed(task))
    control_plane.services.tasks.reaper.run_once(now=datetime.now(UTC) + LONG)
    assert ids(control_plane.claim()) == [first]


def test_the_watermark_stops_at_the_first_held_row():
    def seen(*pairs: tuple[int, bool]) -> int | None:
        return next_low([QueuedTask(UUID(int=seq), seq) for seq, _ in pairs], {UUID(int=seq) for seq, mine in pairs if mine})

    assert seen() is None
    assert seen((3, True), (4, True)) == 5
    assert seen((3, True), (4, False), (5, True)) == 4
    assert seen((3, False)) == 3


@pytest.mark.parametrize("with_watermark", [True, False])
def test_a_claim_reads_at_most_twice_its_batch_however_many_dead_rows_lie_before_it(control_plane: ControlPlane, clock: Clock, with_watermark: bool):
    control_plane.deploy()
    template = control_plane.run_source()
    with psycopg.connect(control_plane.database.superuser_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO task (id, org_id, dag_id, generation_id, pool_id, trigger_kind, trigger_id, request, seq)"
            " SELECT gen_random_uuid(), org_id, dag_id, generation_id, pool_id, trigger_kind, gen_random_uuid(), request, nextval('task_seq')"
            " FROM task, generate_series(1, 100000) WHERE id = %s",
            [template],
        )
        last = [control_plane.run_source() for n in range(50)]
        # An older snapshot is held while all but the last become dead: neither vacuum nor the index may forget them.
        with psycopg.connect(control_plane.database.superuser_url) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute("SELECT count(*) FROM task").fetchone()
            [(low,)] = connection.execute("SELECT min(seq) FROM task WHERE id = ANY(%s)", [last]).fetchall()
            connection.execute("UPDATE task SET state = 'completed', seq = NULL, finished_at = now() WHERE seq < %s", [low])
            with Database(control_plane.database.service_url, size=1) as only_one:
                claims = replace(control_plane.services.tasks.claims, database=only_one, waiting=WaitingRoom(), watermarks=Watermarks(clock))
                object.__setattr__(control_plane.services.tasks, "claims", claims)
                assert len(control_plane.claim(room=10)) == 10  # the look without the hint: it reads them all, and learns
                clock.now += 0 if with_watermark else 5
                before = index_entries_read(connection, claims)
                assert len(control_plane.claim(room=10)) == 10
                read = index_entries_read(connection, claims) - before
    if with_watermark:
        assert read <= 2 * 10
    else:
        assert read > 100_000  # seen to fail: this is what a claim costs without it


def index_entries_read(connection: psycopg.Connection, claims: Claims) -> int:
    """The entries of the queue's own index that were read so far; this connection and the claims' only one are made to tell their part now."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    with claims.database.transaction("test") as tx:
        tx.values("SELECT pg_stat_force_next_flush()")
    row = connection.execute("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'task_queue'").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.proves("T3.2")
def test_a_long_poll_wakes_up_for_an_event_in_its_own_process(control_plane: ControlPlane):
    control_plane.deploy()
    with ThreadPoolExecutor(1) as pool:
        claim = pool.submit(control_plane.claim, wait_s=60)
        while control_plane.control.waiting.number_waiting == 0:
            threading.Event().wait(0.005)
        task = control_plane.run_source()
        assert ids(claim.result(timeout=30)) == [task]


def test_a_wake_up_that_one_worker_cannot_use_up_is_passed_on(control_plane: ControlPlane):
    control_plane.deploy()
    control_plane.run_source()
    [source] = control_plane.claim()
    with ThreadPoolExecutor(4) as pool:
        claims = [pool.submit(control_plane.claim, 1, wait_s=60) for _ in range(4)]
        while control_plane.control.waiting.number_waiting < 4:
            threading.Event().wait(0.005)
        control_plane.complete(succeeded(source, events=[EventDraft(output=0, scope=CursorScope(value=v)) for v in range(4)]))
        taken = [task for claim in claims for task in ids(claim.result(timeout=30))]
    assert len(set(taken)) == 4


@pytest.mark.proves("T3.1")
def test_a_worker_bound_to_other_pools_gets_nothing(control_plane: ControlPlane):
    request = ClaimRequest(worker="w", claim_id=fresh_claim_id(), runtime="dispatcher", room={"default": 1})
    with pytest.raises(Forbidden):
        control_plane.services.tasks.claims.claim(replace(control_plane.worker, pools=frozenset({"other"})), request)
    with pytest.raises(NotFound):
        control_plane.services.tasks.claims.claim(control_plane.worker, request.model_copy(update={"room": {"nothing": 1}}))
