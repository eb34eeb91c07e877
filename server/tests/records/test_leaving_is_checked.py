"""What the database itself asks before records leave: their age, that they are sealed, and that their files were read back."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from support.compactions import AGED_NOTE, FADING, OldIds
from support.databases import StateDatabase

from tracelake.control.access import store as access
from tracelake.control.database.transactions import Database, DatabaseRole
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.service import Records, Tenant
from tracelake.control.records.validation import RecordValidation
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.repository.admission import RecordAdmission

CONTEXT = MetadataContext(run_id="r", cluster="c", workspace="w", tenant="main")
TARGET = MetadataTarget(source_id="s", schema="s", table="t")
NOTE_AT = datetime(2020, 5, 17, tzinfo=UTC)
ARCHIVED, DROPPED = AGED_NOTE.name, FADING.name


class Keeper:
    """Records of some age, and the partitions they are in."""

    def __init__(self, state: StateDatabase, database: Database) -> None:
        self.url = state.service_url
        self.superuser = state.superuser_url
        self.database = database
        with database.transaction("new_org", role=DatabaseRole.DEFINE) as tx:
            self.tenant = Tenant(access.add_org(tx, "main"), "main")

    def store(self, kind: str, *, days_ago: float) -> str:
        """The partition that a record of this age is in."""
        records = Records(self.database)
        records._validation = RecordValidation(RecordAdmission(), OldIds(days_ago))  # pyright: ignore[reportPrivateUsage]
        service = TenantRepository(records, self.tenant)
        service.register(AGED_NOTE if kind == ARCHIVED else FADING)
        record = MetadataRecord(target=TARGET, kind=kind, payload={"group": f"{days_ago}"}, produced_at=NOTE_AT, producer_id="t.v1")
        assert service.store(record, CONTEXT).result == "stored"
        return self.ask("SELECT tableoid::regclass::text FROM metadata_record WHERE kind = %s ORDER BY id LIMIT 1", kind)

    def ask(self, statement: str, *values: object) -> object:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            found = connection.execute(statement, values).fetchone()  # pyright: ignore[reportArgumentType]
            return found and found[0]

    def decide(self, *statements: str) -> object:
        """As the deciding role, which alone may; what the last one answers."""
        with psycopg.connect(self.url) as connection:
            connection.execute("SET ROLE tracelake_decide")
            answers = [connection.execute(statement).fetchone() if statement.startswith("SELECT") else connection.execute(statement) for statement in statements]  # pyright: ignore[reportArgumentType]
        return answers[-1]

    def count(self) -> object:
        return self.ask("SELECT count(*) FROM metadata_record")


@pytest.fixture
def keeper(database: StateDatabase, tmp_path: Path) -> Iterator[Keeper]:
    with Database(database.service_url, size=2) as opened:
        yield Keeper(database, opened)


def frozen(part: str, rows: int = 1) -> str:
    return f"INSERT INTO cold_partition (name, delta_version, body, rows, hash, files) VALUES ('{part}', 0, '', {rows}, 'h', '[]')"


def read_back(part: str, rows: int = 1, hash: str = "h") -> str:
    return f"INSERT INTO cold_verification (partition_name, rows, hash) VALUES ('{part}', {rows}, '{hash}')"


def seal(part: str) -> str:
    return f"SELECT seal_record_partition('{part}')"


def drop(part: str) -> str:
    return f"SELECT drop_record_partition('{part}')"


@pytest.mark.proves("M2.6", "G3.5")
@pytest.mark.parametrize(("kind", "days_ago"), [(ARCHIVED, 0), (ARCHIVED, 29), (DROPPED, 0), (DROPPED, 6)])
def test_a_young_partition_is_neither_sealed_nor_dropped(keeper: Keeper, kind: str, days_ago: int):
    part = str(keeper.store(kind, days_ago=days_ago))
    for statements in ((seal(part),), (drop(part),), (frozen(part), read_back(part), drop(part))):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="stays until"):
            keeper.decide(*statements)
    assert keeper.count() == 1
    keeper.store(kind, days_ago=days_ago + 0.01)  # and it still takes records


@pytest.mark.proves("M2.6", "G3.5")
def test_an_archived_partition_is_dropped_only_when_its_files_were_read_back(keeper: Keeper):
    part = str(keeper.store(ARCHIVED, days_ago=40))
    refused = pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState)
    with refused:
        keeper.decide(frozen(part), read_back(part), drop(part))  # not sealed
    assert keeper.decide(seal(part)) == (True,)
    for statements in (
        (),
        (frozen(part),),
        (frozen(part, rows=2), read_back(part, rows=2)),  # as many as were written, and not as many as there are
        (frozen(part), read_back(part, rows=2)),
        (frozen(part), read_back(part, hash="another")),
    ):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="read back"):
            keeper.decide(*statements, drop(part))
    assert keeper.count() == 1
    assert keeper.decide(frozen(part), read_back(part), drop(part)) == (1,)
    assert keeper.count() == 0


@pytest.mark.proves("M2.6")
def test_a_partition_of_a_class_that_drops_needs_no_files(keeper: Keeper):
    part = str(keeper.store(DROPPED, days_ago=30))
    keeper.decide(seal(part))
    assert keeper.decide(drop(part)) == (1,)


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize(
    "part",
    ["metadata_record", "metadata_latest", "metadata_record_full_20200101", "metadata_record_drop_7", "metadata_record_drop_7_20200101; DROP TABLE task", "task", ""],
)
def test_only_partitions_of_records_leave(keeper: Keeper, part: str):
    for call in (seal(part), drop(part)):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            keeper.decide(call)


@pytest.mark.proves("G3.5")
def test_a_table_that_is_only_called_like_a_partition_does_not_leave(keeper: Keeper):
    keeper.store(DROPPED, days_ago=30)
    with psycopg.connect(keeper.superuser, autocommit=True) as connection:
        connection.execute("CREATE TABLE metadata_record_drop_7_20200101 (id integer)")
    for call in (seal("metadata_record_drop_7_20200101"), drop("metadata_record_drop_7_20200101")):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            keeper.decide(call)


@pytest.mark.proves("G3.5")
@pytest.mark.parametrize("arguments", ["'none', now()", "'drop_0', now()", "'drop_123456', now()", "'full; DROP TABLE task', now()", "'full', now() + interval '2 years'", "'full', '1960-01-01'"])
def test_partitions_are_made_for_classes_and_moments_that_records_have(keeper: Keeper, arguments: str):
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        keeper.decide(f"SELECT ensure_record_partition({arguments})")
