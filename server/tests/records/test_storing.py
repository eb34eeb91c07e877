"""Records in Postgres: identity under concurrency, the newest of each, partitions, and facts that the database itself keeps."""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from support.databases import StateDatabase
from support.sizes import seeded, size

from tracelake.control.database.transactions import Database
from tracelake.control.records.copy_lines import retention_class, subjects_of
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.service import Records, Tenant
from tracelake.control.records.store import sql
from tracelake_sdk.records import Aggregation, MetadataContext, MetadataRecord, MetadataTarget, PathFilter, Quality, RecordFilters, StoreResult
from tracelake_sdk.records.kinds import Kind, Retention
from tracelake_sdk.testing import MemoryRepository

NOTE = Kind(name="note", owner="tests", description="Something was noted.", schema={"type": "object"})
DROPPED = NOTE.model_copy(update={"name": "dropped", "retention": Retention(keep="rolling", days=7, then="drop")})
NOON = datetime(2020, 5, 17, 12, tzinfo=UTC)
TARGET = MetadataTarget(source_id="erp", schema="sales", table="orders")


def note(number: int = 1, *, kind: str = "note", target: MetadataTarget = TARGET, at: datetime = NOON, **payload: Any) -> MetadataRecord:
    """What tells it apart from others of its run is its window."""
    window = {"window_start": (NOON + timedelta(days=number)).isoformat()}
    return MetadataRecord(target=target, kind=kind, payload={"n": number, **window, **payload}, produced_at=at, producer_id="tests.v1")


def context(run_id: str | None = "run", tenant: str = "main") -> MetadataContext:
    return MetadataContext(run_id=run_id, cluster="c", workspace="w", tenant=tenant)


@pytest.fixture
def opened(database: StateDatabase) -> Iterator[Database]:
    with Database(database.service_url, size=16) as state:
        yield state


@pytest.fixture
def service(database: StateDatabase, opened: Database) -> TenantRepository:
    org = uuid4()
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("INSERT INTO org (id, name) VALUES (%s, 'main')", [org])
    made = TenantRepository(Records(opened), Tenant(org, "main"))
    made.register(NOTE)
    made.register(DROPPED)
    return made


def rows(database: StateDatabase, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        return connection.execute(query, values).fetchall()  # pyright: ignore[reportArgumentType]


def results(stored: list[StoreResult]) -> list[str]:
    return [result.result for result in stored]


@pytest.mark.proves("M1.4")
def test_of_many_that_store_the_same_identity_at_once_exactly_one_is_stored(service: TenantRepository):
    """Half of them say the one thing, half of them the other."""
    threads, barrier = 8, threading.Barrier(8)

    def tell(number: int) -> list[StoreResult]:
        barrier.wait()
        return service.bulk_store([note(day, said=number % 2) for day in range(20)], context())

    with ThreadPoolExecutor(threads) as pool:
        answers = list(pool.map(tell, range(threads)))
    for day in range(20):
        mine = [answer[day] for answer in answers]
        assert len({result.id for result in mine}) == 1
        assert results(mine).count("stored") == 1
        assert results(mine).count("same") == threads // 2 - 1
        assert results(mine).count("conflict") == threads // 2
    assert len(service.query(RecordFilters(), context())) == 20


@pytest.mark.parametrize("same", [True, False])
def test_bulks_in_any_order_never_wait_for_each_other_in_a_circle(service: TenantRepository, same: bool):
    """Two that send at once, the one from the front and the other from the back, would meet in the middle: over the same records, or the same targets."""
    together = threading.Barrier(2)

    def send(sent: list[MetadataRecord], run_id: str) -> list[StoreResult]:
        together.wait(60)
        return service.bulk_store(sent, context(run_id))

    for number in range(size(10, 100)):
        at = NOON + timedelta(days=number)
        sent = [note(n, target=MetadataTarget(source_id="s", schema="s", table=f"t{n}"), at=at) for n in range(500)]
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(send, [sent, sent[::-1]], [f"run {number}", f"run {number}" if same else f"other {number}"]))
        assert sum(results(answer).count("stored") for answer in answers) == len(sent) * (1 if same else 2)


def test_the_same_record_twice_in_a_bulk_is_stored_once(service: TenantRepository):
    first, other = note(1), note(1, said="otherwise")
    answer = service.bulk_store([first, first, other], context())
    assert results(answer) == ["stored", "same", "conflict"]
    assert {result.id for result in answer} == {answer[0].id}
    assert results(service.bulk_store([other, first], context())) == ["conflict", "same"]


@pytest.mark.parametrize("alone_first", [True, False])
def test_a_single_record_is_stored_like_one_of_a_batch(service: TenantRepository, database: StateDatabase, alone_first: bool):
    hostile = "tab\t line\n return\r back\\slash \\N \\t \U0001f600 \"quote\""
    dataset = str(uuid4())
    target = MetadataTarget(source_id="lake", schema=hostile, table=dataset, extras={hostile: [hostile, None, 1.5]})

    def record_of(number: int) -> MetadataRecord:
        """Two that differ in what tells them apart and in nothing else."""
        return note(1, target=target, said=hostile, slice_filter=number).model_copy(update={"quality": Quality.MEASURED, "extras": {"dataset": {"uuid": dataset}}})

    stored_in = MetadataContext(job_id=hostile, run_id=hostile, namespace=hostile, cluster="c", workspace="w", tenant="main", extras={hostile: hostile})
    if alone_first:
        service.store(record_of(1), stored_in)
    assert results(service.bulk_store([record_of(2), note(3)], stored_in)) == ["stored", "stored"]
    if not alone_first:
        service.store(record_of(1), stored_in)
    kept = rows(
        database,
        "SELECT retention_class, org_id, kind, kind_version, target_key, source_id, schema_name, table_name, producer_id, produced_at, quality, window_start,"
        " window_end, dataset_ids, job_id, run_id, namespace, cluster, workspace, context::text, replace(record::text, '\"slice_filter\":2', '\"slice_filter\":1')"
        " FROM metadata_record WHERE source_id = 'lake'",
    )
    assert len(kept) == 2 and kept[0] == kept[1]
    assert kept[0][6] == hostile and kept[0][15] == hostile
    assert rows(database, "SELECT target::text, dataset_ids FROM metadata_latest WHERE target->>'source_id' = 'lake'") == [(target.model_dump_json(), [UUID(dataset)])]
    assert service.latest(target, "note", stored_in) is not None
    assert [service.store(record_of(number), stored_in).result for number in (1, 2)] == ["same", "same"]


def test_one_by_one_and_in_bulks_at_once_each_identity_is_stored_once(service: TenantRepository):
    """Over the same records and so the same targets, from both ends: nobody waits in a circle."""
    days, barrier = list(range(20)), threading.Barrier(4)

    def tell(number: int) -> list[StoreResult]:
        order = days[:: 1 if number % 2 else -1]
        barrier.wait()
        if number < 2:
            found = [service.store(note(day), context()) for day in order]
        else:
            found = [result for start in range(0, 20, 5) for result in service.bulk_store([note(day) for day in order[start : start + 5]], context())]
        return [found[order.index(day)] for day in days]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(tell, range(4)))
    for day in days:
        mine = [answer[day] for answer in answers]
        assert sorted(results(mine)) == ["same", "same", "same", "stored"]
        assert len({result.id for result in mine}) == 1
    assert len(service.query(RecordFilters(), context())) == 20


@pytest.mark.proves("M2.1")
def test_the_newest_stays_the_newest_whatever_comes_late_or_at_once(service: TenantRepository, database: StateDatabase):
    choice = seeded()
    moments = [NOON + timedelta(minutes=choice.randrange(30)) for _ in range(200)]
    records = [note(number, at=at) for number, at in enumerate(moments)]
    parts = [records[first : first + 20] for first in range(0, 200, 20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda numbered: service.bulk_store(numbered[1], context(f"run {numbered[0]}")), enumerate(parts)))
    newest = service.latest(TARGET, "note", context())
    [first, *_] = service.history(TARGET, "note", context(), limit=3)
    assert newest == first
    assert newest is not None
    assert newest.record.produced_at == max(moments)
    [[kept]] = rows(database, "SELECT record_id FROM metadata_latest")
    assert kept == newest.id


def test_each_retention_class_has_partitions_of_its_own(service: TenantRepository, database: StateDatabase):
    service.bulk_store([note(1), note(2, kind="dropped")], context())
    found = dict(rows(database, "SELECT kind, tableoid::regclass::text FROM metadata_record"))
    assert found["note"].startswith("metadata_record_full_20")
    assert found["dropped"].startswith("metadata_record_drop_7_20")
    assert [retention_class(kind) for kind in (NOTE, DROPPED)] == ["full", "drop_7"]


def test_two_processes_that_need_the_same_new_partition_both_store(service: TenantRepository, database: StateDatabase):
    with Database(database.service_url, size=4) as one, Database(database.service_url, size=4) as two, ThreadPoolExecutor(2) as pool:
        services = [TenantRepository(Records(state), service.tenant) for state in (one, two)]
        answers = list(pool.map(lambda numbered: numbered[1].store(note(numbered[0], kind="dropped"), context()), enumerate(services)))
    assert results(answers) == ["stored", "stored"]


@pytest.mark.proves("G1.3")
@pytest.mark.parametrize("change", ["UPDATE {table} SET kind = kind", "DELETE FROM {table}", "TRUNCATE {table}"])
@pytest.mark.parametrize("as_replica", [False, True])
def test_a_record_is_not_changed_in_its_partition_either(service: TenantRepository, database: StateDatabase, change: str, as_replica: bool):
    service.store(note(1), context())
    [[partition]] = rows(database, "SELECT tableoid::regclass::text FROM metadata_record")
    with psycopg.connect(database.superuser_url if as_replica else database.owner_url) as connection:
        if as_replica:
            connection.execute("SET session_replication_role = replica")
        for table in (partition, "metadata_record_full", "metadata_record"):
            with pytest.raises(psycopg.errors.RestrictViolation, match="append-only"), connection.transaction():
                connection.execute(change.format(table=table))  # pyright: ignore[reportArgumentType]


def test_the_service_makes_partitions_and_nothing_else(service: TenantRepository, opened: Database):
    with pytest.raises(psycopg.errors.InvalidParameterValue), opened.transaction("test") as tx:
        tx.value("SELECT ensure_record_partition('full; DROP TABLE org', now())")
    for statement in ("CALL attach_record_partition('metadata_record', 'org', 'DEFAULT')", "CREATE TABLE public.mine (id integer)"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), opened.transaction("test") as tx:
            tx.run(statement)  # pyright: ignore[reportArgumentType]


@pytest.mark.proves("M2.5")
def test_a_writer_that_commits_late_is_not_skipped(service: TenantRepository, database: StateDatabase):
    service.store(note(1), context())
    with psycopg.connect(database.owner_url) as late:
        late.execute("CREATE TABLE wrote (id integer)")  # a transaction with a number of its own, still open
        service.store(note(2), context())
        page = service.tail(context())
        assert [stored.record.payload["n"] for stored in page.items] == [1]
        late.commit()
    rest = service.tail(context(), page.offset)
    assert [stored.record.payload["n"] for stored in rest.items] == [2]
    assert service.tail(context(), rest.offset).items == []
    assert service.tail(context(), rest.offset).offset == rest.offset


def test_a_kind_that_another_process_registers_is_known_at_once(service: TenantRepository, database: StateDatabase):
    with Database(database.service_url, size=2) as state:
        elsewhere = TenantRepository(Records(state), service.tenant)
        assert elsewhere.kind("note").version == 1
        service.register(NOTE.model_copy(update={"version": 2, "description": "Something was noted again."}))
        assert elsewhere.kind("note").version == 2
        elsewhere.store(note(1), context())
    stored = service.latest(TARGET, "note", context())
    assert stored is not None
    assert stored.kind_version == 2


def test_two_that_register_the_next_version_at_once_agree_or_one_is_refused(service: TenantRepository):
    def register(description: str) -> str:
        try:
            return service.register(NOTE.model_copy(update={"version": 2, "description": description})).description
        except Exception as error:
            return type(error).__name__

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(register, ["same", "same", "same"])) == ["same"] * 3
        assert sorted(pool.map(register, ["other", "same"])) == ["KindConflict", "same"]


VALUES = [0, 1, 1.0, -1, 2**53, 2**53 + 1, 0.1, 1e16, 10**400, -(10**400), True, False, None, "1", "a", "ab", "é", "\U0001f600", "", "true", "\\", '"', [1], {"x": 1}]


@pytest.mark.proves("M2.1")
def test_filters_mean_in_the_database_what_they_mean_in_memory(service: TenantRepository):
    """Every comparison with every value; the database may pass over nothing that the meaning chooses."""
    memory = MemoryRepository("main")
    memory.register(NOTE)
    records = [note(n, at=NOON + timedelta(seconds=n), value=value, deep={"0": [value]}) for n, value in enumerate(VALUES)] + [note(99, at=NOON)]
    for repository in (memory, service):
        assert set(results(repository.bulk_store(records, context()))) == {"stored"}
    asked = 0
    for path in ("payload.value", "payload.deep.0.0", "payload.deep.0.-1", "payload.nowhere", "context.run_id", "target.table"):
        for op in ("eq", "ne", "lt", "le", "gt", "ge", "in", "exists"):
            for value in [*VALUES, VALUES[:15], ["a", "run"], "orders", "run"]:
                try:
                    filters = RecordFilters(where=[PathFilter.model_validate({"path": path, "op": op, "value": value})])
                except ValueError:
                    continue
                asked += 1
                found, meant = ([stored.record for stored in repository.query(filters, context())] for repository in (service, memory))
                assert found == meant, (path, op, value)
    assert asked > 500


def test_pages_of_a_query_hold_each_record_once(service: TenantRepository):
    service.bulk_store([note(n, at=NOON + timedelta(minutes=n // 3)) for n in range(50)], context())
    filters, found = RecordFilters(limit=7, where=[PathFilter.model_validate({"path": "payload.n", "op": "ge", "value": 5})]), list[int]()
    while True:
        page = service.query(filters, context())
        found += [stored.record.payload["n"] for stored in page]
        if page.next is None:
            break
        filters = filters.model_copy(update={"page": page.next})
    assert sorted(found) == list(range(5, 50))
    assert service.aggregate(filters, Aggregation(), context())[0].value == 45


def test_names_as_long_as_they_may_be_are_found_again(service: TenantRepository):
    target = MetadataTarget(source_id="\U0001f600" * 500, schema="\t\n\\N" * 125, table="%_'\"" * 125)
    service.store(note(1, target=target, text="\t\r\n\\N\\."), context("\U0001f600" * 500))
    stored = service.latest(target, "note", context())
    assert stored is not None
    assert stored.record.target.key == target.key
    assert stored.record.payload["text"] == "\t\r\n\\N\\."
    assert service.query(RecordFilters(run_id="\U0001f600" * 500), context()).items == [stored]
    assert [found.key for found in service.targets(context())] == [target.key]


def test_what_a_record_is_about_is_found_in_every_spelling():
    id, other = UUID("018f0000-0000-7000-8000-000000000001"), UUID("018f0000-0000-7000-8000-000000000002")

    def about(source: str, table: str, extras: dict[str, Any]) -> list[UUID]:
        return subjects_of(MetadataRecord(target=MetadataTarget(source_id=source, schema="s", table=table), kind="note", payload={}, produced_at=NOON, producer_id="t.v1", extras=extras))

    assert about("lake", str(id), {}) == [id]
    assert about("lake", str(id).upper(), {}) == [id]
    assert about("lake", id.hex, {}) == [id]
    assert about("lake", "orders", {}) == []
    assert about("erp", str(id), {}) == []
    assert about("erp", "orders", {"dataset": {"uuid": f"{{{other}}}"}}) == [other]
    assert about("lake", str(id), {"dataset": {"uuid": str(other)}}) == [id, other]
    assert about("jobs", "start", {"dag": {"uuid": str(other)}}) == [other]
    assert about("lake", str(id), {"dag": {"uuid": str(other)}, "dataset": {"uuid": "nonsense"}}) == [id, other]
    assert about("erp", "orders", {"dataset": "orders"}) == []


def test_a_process_that_starts_again_stores_into_what_is_there(service: TenantRepository, database: StateDatabase, tmp_path: Path):
    service.store(note(1), context())
    with Database(database.service_url, size=2) as state:
        again = TenantRepository(Records(state), service.tenant)
        assert again.store(note(1), context()).result == "same"
        assert again.store(note(2), context()).result == "stored"


def test_records_are_found_by_their_target_whatever_was_there_when_the_question_was_planned(service: TenantRepository, database: StateDatabase):
    """A plan is made once for a connection, and a partition that is empty then fills."""
    service.bulk_store([note(1), note(2, kind="dropped")], context())
    values = {
        "org": "gen_random_uuid()", "kind": "'note'", "target_key": "gen_random_uuid()", "sees_all": "true", "seen": "NULL", "before": "'infinity'",
        "before_id": "gen_random_uuid()", "limit": "1",
    }  # fmt: skip
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute("SET enable_seqscan = off")
        partitions = connection.execute("SELECT count(*) FROM pg_partition_tree('metadata_record') WHERE isleaf").fetchall()[0][0]
        for analyzed in (False, True):
            for name in ("latest", "of_target"):
                numbers: dict[str, int] = {}
                query = re.sub(r"%\((\w+)\)s", lambda match: f"${numbers.setdefault(match[1], len(numbers) + 1)}", sql[name])  # noqa: B023
                connection.execute(f"PREPARE {name}_{analyzed} AS {query}")  # pyright: ignore[reportArgumentType]
                asked = f"EXPLAIN (COSTS OFF) EXECUTE {name}_{analyzed}({', '.join(values[value] for value in numbers)})"
                plan = [line for (line,) in connection.execute(asked).fetchall()]  # pyright: ignore[reportArgumentType]
                looks = [line.strip() for line in plan if "Index Cond" in line and "metadata_kind" not in line]
                wanted = "id = newest.record_id" if name == "latest" else "ROW(target_key, kind)"
                assert len([look for look in looks if wanted in look]) == partitions >= 2, plan
                assert not [line for line in plan if "Filter" in line and ("target_key" in line or "record_id" in line)], plan
            connection.execute("VACUUM ANALYZE metadata_record")
