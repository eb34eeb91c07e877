"""Old records move from Postgres to files or are dropped; answers stay the same, or name what was dropped."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.compactions import AGED_TALLY_2, FADING, KINDS, NOON, TARGETS, OldIds, Questions, by_arrow, records, tailed
from support.controls import settings_for
from support.databases import StateDatabase
from support.processes import wait_until
from support.s3_servers import S3Server
from support.sizes import seeded, size

from tracelake.control.access import store as access
from tracelake.control.cold.reading import ColdRecords
from tracelake.control.compaction.service import Compactor
from tracelake.control.compaction.spark_program import compact_by_spark
from tracelake.control.database.transactions import Database, DatabaseRole, Watch
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.searches import Visibility
from tracelake.control.records.service import Records, Tenant
from tracelake.control.records.validation import RecordValidation
from tracelake.control.records_process import RecordsProcess
from tracelake.storage.contract import Storage
from tracelake.storage.local import LocalStorage
from tracelake_sdk.errors.records import ColdUnreadable, CompactionFailed
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters
from tracelake_sdk.records.compaction_program import CompactionOrder
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.repository.admission import RecordAdmission
from tracelake_sdk.spark_settings import SparkSettings

SIZE = "SELECT sum(pg_total_relation_size(relid))::bigint FROM pg_partition_tree('metadata_record')"


def nobody(moment: str) -> None:
    """Watches."""


class House:
    """One database with records of two tenants, and the storage beside it."""

    def __init__(self, state: StateDatabase, database: Database, folder: Path) -> None:
        self.state, self.database, self.folder = state, database, folder
        self.random = seeded()
        self.storage: Storage = LocalStorage(folder / "lake", nobody)
        self.tenants: dict[str, Tenant] = {}
        for name in ("main", "other"):
            with database.transaction("new_org", role=DatabaseRole.DEFINE) as tx:
                self.tenants[name] = Tenant(access.add_org(tx, name), name)
            for kind in (*KINDS, FADING):
                self.service(name).register(kind)

    def service(self, name: str = "main", *, days_ago: float = 0, cold: bool = True) -> TenantRepository:
        records = Records(self.database, cold=ColdRecords(self.storage if cold else None))
        records._validation = RecordValidation(RecordAdmission(), OldIds(days_ago) if days_ago else RecordIds())  # pyright: ignore[reportPrivateUsage]
        return TenantRepository(records, self.tenants[name])

    def compactor(self, **options: Any) -> Compactor:
        return Compactor(**{"database": self.database, "storage": self.storage, "scratch": self.folder / "scratch", "compacting": by_arrow, **options})

    def ask(self, query: str, *values: Any) -> Any:
        with psycopg.connect(self.state.superuser_url, autocommit=True) as connection:
            found = connection.execute(query, values).fetchone()  # pyright: ignore[reportArgumentType]
            return found and found[0]

    def rows(self, query: LiteralString) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.state.superuser_url) as connection:
            return connection.execute(query).fetchall()

    def fill(self, number: int, *, days_ago: float, name: str = "main", run_id: str | None = "run-1", **options: Any) -> list[MetadataRecord]:
        made = records(self.random, number, **options)
        results = self.service(name, days_ago=days_ago).bulk_store(made, context(run_id, name))
        assert {result.result for result in results} <= {"stored", "same"}
        return made


def context(run_id: str | None = "run-1", tenant: str = "main") -> MetadataContext:
    return MetadataContext(run_id=run_id, cluster="c1", workspace="w1", tenant=tenant)


@pytest.fixture
def house(database: StateDatabase, tmp_path: Path) -> Iterator[House]:
    with Database(database.service_url, size=8) as opened:
        yield House(database, opened, tmp_path)


def filled(house: House) -> Questions:
    """Records of four ages, of which three are old, and a kind that has changed since."""
    for days_ago, run_id in ((400, "run-1"), (399.5, "run-2"), (90, None), (0, "run-3")):
        house.fill(size(60, 200), days_ago=days_ago, run_id=run_id)
    house.fill(20, days_ago=400, name="other")
    house.service().register(AGED_TALLY_2)
    return Questions(house.random.randrange(2**30), size(20, 80))


@pytest.mark.proves("M2.6")
def test_the_same_questions_have_the_same_answers_after_compaction(house: House) -> None:
    questions = filled(house)
    before = questions.answers(house.service(), context())
    number, large = house.ask("SELECT count(*) FROM metadata_record"), house.ask(SIZE)
    left = house.compactor().compact()
    assert len(left) >= 2 and all(name.startswith("metadata_record_archive_30_") for name in left)
    hot, cold = house.ask("SELECT count(*) FROM metadata_record"), house.ask("SELECT sum(rows)::bigint FROM cold_file")
    assert hot + cold == number and cold > hot > 0
    assert house.ask(SIZE) < large
    assert questions.answers(house.service(), context()) == before
    assert house.compactor().compact() == []


def test_the_cold_table_is_a_delta_table_that_others_read(house: House) -> None:
    house.fill(50, days_ago=400)
    house.fill(5, days_ago=90)
    kept = house.ask("SELECT count(*) FROM metadata_record WHERE retention_class = 'full'")
    house.compactor().compact()
    found = DeltaTable(house.folder / "lake" / "records" / "cold")
    rows = found.to_pyarrow_table().to_pylist()
    assert found.version() == 1 and len(rows) + kept == 55
    assert {len(row["identity"]) for row in rows} == {64}
    known = house.ask("SELECT array_agg(encode(identity, 'hex')) FROM record_identity WHERE retention_class <> 'full'")
    assert {row["identity"] for row in rows} == set(known)


@pytest.mark.proves("M2.6")
def test_a_compacted_record_that_is_sent_again_is_the_same(house: House) -> None:
    made = house.fill(40, days_ago=400)
    first = house.service().bulk_store(made, context())
    house.compactor().compact()
    assert house.service().bulk_store(made, context()) == first
    assert {result.result for result in first} == {"same"}
    assert house.ask("SELECT count(*) FROM metadata_record WHERE retention_class <> 'full'") == 0


@pytest.mark.proves("M2.5")
def test_a_tailer_gets_each_record_once_over_compaction(house: House) -> None:
    house.fill(40, days_ago=400)
    house.fill(40, days_ago=90, run_id="run-2")
    whole = tailed(house.service(), context())
    first = house.service().tail(context(), limit=25)
    house.compactor().compact()
    house.fill(10, days_ago=0, run_id="run-3")
    rest = tailed(house.service(), context(), first.offset)
    seen = [found.model_dump(mode="json") for found in first.items] + rest
    assert seen[: len(whole)] == whole and len(seen) == len({found["id"] for found in seen}) == len(whole) + 10


@pytest.mark.proves("M2.4")
def test_another_tenants_records_are_in_no_cold_answer(house: House) -> None:
    house.fill(30, days_ago=400)
    house.fill(30, days_ago=400, name="other")
    questions = Questions(house.random.randrange(2**30), 10)
    before = {name: questions.answers(house.service(name), context(tenant=name)) for name in ("main", "other")}
    house.compactor().compact()
    assert {name: questions.answers(house.service(name), context(tenant=name)) for name in ("main", "other")} == before
    assert all(found["context"]["tenant"] == "other" for found in tailed(house.service("other"), context(tenant="other")))


@pytest.mark.proves("M2.6")
def test_what_is_dropped_for_good_is_named_in_the_answer(house: House) -> None:
    old = house.fill(20, days_ago=30, kinds=("fading",))
    new = [made.model_copy(update={"produced_at": made.produced_at - timedelta(days=9), "target": TARGETS[0]}) for made in old[:5]]
    house.service().bulk_store(new, context("later"))
    [left] = house.compactor().compact()
    assert left.startswith("metadata_record_drop_7_")
    page = house.service().query(RecordFilters(kinds=["fading"]), context())
    newest = max(made.produced_at for made in old)
    assert [(span.kind, span.before) for span in page.dropped] == [("fading", newest + timedelta(microseconds=1))]
    assert {found.record.produced_at for found in page} == {made.produced_at for made in new}
    assert house.service().history(TARGETS[0], "fading", context()).dropped == page.dropped
    assert house.service().query(RecordFilters(kinds=["note"]), context()).dropped == []
    # Older in themselves and stored later, they are the newest now; other targets have nothing left.
    latest = house.service().latest(TARGETS[0], "fading", context())
    assert latest is not None and latest.record.produced_at == max(made.produced_at for made in new)
    assert house.service().targets(context(), "fading") == [TARGETS[0]]
    assert house.ask("SELECT count(*) FROM record_identity WHERE retention_class = 'drop_7'") == len({found.id for found in page})
    assert {result.result for result in house.service().bulk_store(old, context())} == {"stored"}


@pytest.mark.proves("M2.6")
def test_cold_files_that_cannot_be_read_are_an_error_and_never_a_shorter_answer(house: House) -> None:
    house.fill(30, days_ago=400)
    house.compactor().compact()
    asking: list[Callable[[TenantRepository], object]] = [
        lambda service: service.query(RecordFilters(), context()),
        lambda service: service.history(TARGETS[0], "tally", context()),
        lambda service: service.tail(context()),
    ]
    for ask in asking:
        with pytest.raises(ColdUnreadable):
            ask(house.service(cold=False))
    shutil.rmtree(house.folder / "lake" / "records" / "cold")
    for ask in asking:
        with pytest.raises(ColdUnreadable):
            ask(house.service())
    assert house.service().query(RecordFilters(kinds=["kept"]), context()).items


@pytest.mark.proves("M2.6")
def test_files_that_differ_from_the_rows_drop_nothing(house: House) -> None:
    house.fill(30, days_ago=400)
    number = house.ask("SELECT count(*) FROM metadata_record")

    def forgetful(order: Any, folder: Path) -> list[Path]:
        lines = Path(order.source).read_text().splitlines(keepends=True)
        Path(order.source).write_text("".join(lines[1:]))
        return by_arrow(order, folder)

    with pytest.raises(CompactionFailed):
        house.compactor(compacting=forgetful).compact()
    assert house.ask("SELECT count(*) FROM metadata_record") == number and house.ask("SELECT count(*) FROM cold_partition") == 0


def test_files_of_a_killed_run_are_removed(house: House) -> None:
    house.fill(20, days_ago=400, kinds=("tally",))
    name = house.ask("SELECT relname::text FROM pg_class WHERE relkind = 'r' AND relname LIKE 'metadata_record_archive_%%'")
    folder = house.folder / "lake" / "records" / "cold" / name
    folder.mkdir(parents=True)
    (folder / "left.parquet").write_bytes(b"half")
    assert house.compactor().compact() == [name]
    assert [path.relative_to(house.folder / "lake").as_posix() for path in folder.iterdir()] == [house.ask("SELECT path FROM cold_file")]


def test_without_spark_nothing_is_dropped_and_the_next_run_is_tried(house: House, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    house.fill(5, days_ago=400, kinds=("tally",))
    monkeypatch.setattr("tracelake_sdk.records.compaction_program.find_spec", lambda name: None)
    without = house.compactor(compacting=compact_by_spark(tmp_path / "log", SparkSettings(), tmp_path))
    with pytest.raises(CompactionFailed, match="tracelake-spark"):
        without.compact()
    assert without.run_once() == 0 and house.ask("SELECT ended_at FROM compaction") is None
    assert house.ask("SELECT count(*) FROM metadata_record WHERE retention_class <> 'full'") > 0


def test_a_run_is_due_by_the_stored_end_of_the_last_one(house: House) -> None:
    house.fill(5, days_ago=400, kinds=("tally",))
    assert house.compactor().run_once() == 1
    house.fill(5, days_ago=200, kinds=("tally",))
    assert house.compactor().run_once() == 0
    assert house.compactor(every=timedelta(0)).run_once() == 1


@pytest.mark.proves("M2.6")
def test_the_records_service_by_itself_looks_too(house: House, tmp_path: Path) -> None:
    house.fill(20, days_ago=30, kinds=("fading",))
    alone = RecordsProcess(settings_for(house.state, tmp_path / "home"))
    alone.start()
    try:
        wait_until(lambda: house.ask("SELECT ended_at FROM compaction") is not None, "the first look is over")
    finally:
        alone.stop()
    assert house.ask("SELECT count(*) FROM metadata_record") == 0 and house.ask("SELECT count(*) FROM dropped_span") == 1


def test_young_partitions_stay(house: House) -> None:
    house.fill(5, days_ago=29, kinds=("tally", "fading"))
    left = house.compactor().compact()
    assert left and all("_drop_" in name for name in left)
    house.fill(5, days_ago=39, kinds=("tally",))
    [left] = house.compactor().compact()
    assert left.startswith("metadata_record_archive_30_")


@pytest.mark.proves("M2.4")
def test_who_may_not_read_a_dataset_sees_none_of_its_cold_records(house: House) -> None:
    open_, shut = uuid4(), uuid4()
    targets = [MetadataTarget(source_id="lake", schema="gold", table=str(id)) for id in (open_, shut)]
    made = [
        MetadataRecord(target=target, kind="note", payload={"n": number}, produced_at=NOON + timedelta(hours=number), producer_id="tests.v1", extras=extras)
        for number in range(6)
        for target, extras in ((targets[0], {}), (targets[1], {}), (TARGETS[0], {"dataset": {"uuid": str(shut)}}))
    ]
    house.service(days_ago=400).bulk_store(made, context(None))
    tenant = house.tenants["main"]

    def seen(records: Records) -> list[Any]:
        def visibility_of(tx: object) -> Visibility:
            return Visibility([open_])

        return [
            [found.id for found in records.query(tenant, RecordFilters(), visibility_of=visibility_of)],
            [records.latest(tenant, target, "note", visibility_of=visibility_of) for target in (*targets, TARGETS[0])],
            [found.id for target in (*targets, TARGETS[0]) for found in records.history(tenant, target, "note", visibility_of=visibility_of)],
            [found.id for found in records.tail(tenant, visibility_of=visibility_of).items],
            records.targets(tenant, visibility_of=visibility_of),
        ]

    before = seen(house.service().records)
    house.compactor().compact()
    assert seen(house.service().records) == before
    assert len(before[0]) == 6 and before[4] == [targets[0]]


@pytest.mark.proves("M2.6")
def test_a_reader_gets_each_record_once_while_records_leave(house: House) -> None:
    for days_ago in range(40, 40 + 3 * size(8, 40), 3):
        house.fill(8, days_ago=days_ago, run_id=f"run-{days_ago}", kinds=("tally",))
    wanted = [found.id for found in house.service().query(RecordFilters(limit=10_000), context())]
    done, wrong = threading.Event(), list[object]()

    def ask() -> None:
        service = house.service()
        while not done.is_set():
            found = [found.id for found in service.query(RecordFilters(limit=10_000), context())]
            logged = {found.id for found in service.tail(context(), limit=10_000).items}
            if found != wanted or logged != set(wanted):
                wrong.append((len(found), len(logged)))

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        with ThreadPoolExecutor(2) as both:  # two processes may be at it
            left = [name for names in both.map(lambda compactor: compactor.compact(), [house.compactor(), house.compactor()]) for name in names]
    finally:
        done.set()
        for thread in asking:
            thread.join()
    assert wrong == [] and len(left) == len(set(left)) >= size(8, 40)
    assert [found.id for found in house.service().query(RecordFilters(limit=10_000), context())] == wanted
    assert len(wanted) == house.ask("SELECT sum(rows)::bigint FROM cold_file")
    assert DeltaTable(house.folder / "lake" / "records" / "cold").to_pyarrow_table().num_rows == len(wanted)


@pytest.mark.proves("M2.6")
def test_a_compaction_whose_files_a_faster_one_removes_while_it_puts_them_ends_well(house: House) -> None:
    house.fill(8, days_ago=40, kinds=("tally",))
    wanted = [found.id for found in house.service().query(RecordFilters(limit=10_000), context())]
    faster = list[str]()

    def be_faster(moment: str) -> None:
        if moment == "put:temporary_written" and not faster:
            faster.append("began")
            faster.extend(house.compactor().compact())

    slower = house.compactor(storage=LocalStorage(house.folder / "lake", be_faster))
    assert slower.compact() == [] and len(faster) == 2
    assert [found.id for found in house.service().query(RecordFilters(limit=10_000), context())] == wanted
    assert len(wanted) == house.ask("SELECT sum(rows)::bigint FROM cold_file")


class Died(BaseException):
    """Somebody was killed."""


def dies_at(name: str) -> Watch:
    def watch(moment: str) -> None:
        if moment == name:
            raise Died

    return watch


def in_other_bytes(order: CompactionOrder, folder: Path) -> list[Path]:
    """The same rows in other bytes, as Spark writes them in each run."""
    files = by_arrow(order, folder)
    for file in files:
        pq.write_table(pq.read_table(file), file, compression="none")
    return files


def assert_no_file_without_a_name(house: House) -> None:
    there = {file.path for file in house.storage.list("records/cold") if file.path.endswith(".parquet")}
    assert there == {path for (path,) in house.rows("SELECT path FROM cold_file")} != set()


@pytest.mark.proves("M2.6")
def test_files_of_a_run_that_died_are_deleted_though_the_next_one_dies_behind_the_drop(house: House) -> None:
    house.fill(5, days_ago=400, kinds=("tally",))
    with pytest.raises(Died):
        house.compactor(compacting=in_other_bytes, watch=dies_at("compact:files_put")).compact()
    with Database(house.state.service_url, size=2, watch=dies_at("drop_partition:after_commit")) as doomed, pytest.raises(Died):
        house.compactor(database=doomed).compact()
    assert house.compactor().compact() == []
    assert_no_file_without_a_name(house)


@pytest.mark.proves("M2.6")
def test_files_of_a_compaction_that_came_second_are_deleted(house: House) -> None:
    house.fill(5, days_ago=400, kinds=("tally",))

    def slow(order: CompactionOrder, folder: Path) -> list[Path]:
        assert len(house.compactor().compact()) == 1  # another process, from the beginning to the end
        return in_other_bytes(order, folder)

    assert house.compactor(compacting=slow).compact() == []
    assert_no_file_without_a_name(house)


@pytest.mark.xdist_group("s3")
@pytest.mark.proves("M2.6")
def test_cold_records_lie_on_an_object_store_too(house: House, s3_server: S3Server) -> None:
    house.fill(40, days_ago=400)
    questions = Questions(house.random.randrange(2**30), 5)
    before = questions.answers(house.service(), context())
    house.storage = s3_server.open(s3_server.fresh_url())
    house.compactor().compact()
    assert house.ask("SELECT count(*) FROM metadata_record WHERE retention_class <> 'full'") == 0
    assert questions.answers(house.service(), context()) == before


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.proves("M2.6")
def test_spark_makes_of_old_records_what_answers_are_read_from_on_an_object_store(house: House, s3_server: S3Server, tmp_path: Path) -> None:
    house.fill(60, days_ago=400)
    house.fill(20, days_ago=400, name="other")
    questions = Questions(house.random.randrange(2**30), 10)
    before = questions.answers(house.service(), context())
    house.storage = s3_server.open(s3_server.fresh_url())
    settings = SparkSettings(cores=1, memory="600m", conf={"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert len(house.compactor(compacting=compact_by_spark(tmp_path / "spark.log", settings, tmp_path)).compact()) == 1
    assert house.ask("SELECT count(*) FROM metadata_record WHERE retention_class <> 'full'") == 0
    assert questions.answers(house.service(), context()) == before
    assert not [*house.folder.glob("scratch/*")]
