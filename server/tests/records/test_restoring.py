"""A dump restored into another cluster, whose transactions count from further back: every reader by offset goes on, and misses nothing."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from support.controls import running_control, settings_for
from support.databases import StateDatabase, fresh_database
from support.lakes import Lake
from support.registries import deploy_sample, fill

from tracelake.control.bus.postgres import PostgresBus
from tracelake.control.bus.relay import Relay
from tracelake.control.database.migrations import TRACE, shipped
from tracelake.control.database.transactions import Database
from tracelake.control.emission.checking import check
from tracelake.control.emission.facts import Installation
from tracelake.control.emission.service import Emission
from tracelake.control.emission.storing import into_repositories
from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records.repository import TenantRepository
from tracelake.control.records.service import Records, Tenant
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres, prepare_databases
from tracelake_sdk.errors.records import OffsetOfAnotherEpoch, OffsetUnknown
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.bus import STORED, Message
from tracelake_sdk.records.kinds import Kind

pytestmark = [pytest.mark.xdist_group("restoring"), pytest.mark.proves("M2.5")]
ORG = UUID("00000000-0000-7000-8000-0000000000aa")
INSTALLATION = Installation("embedded", "main")
CONTEXT = MetadataContext(cluster="c", workspace="w", tenant="main")
NOTE = Kind(name="note", owner="tests", description="Something was noted.", schema={"type": "object"})
_AHEAD = 20_000  # transactions: more than a fresh cluster needs for its own start
_BURN = f"DO $$ BEGIN FOR i IN 1..{_AHEAD} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"


class Elsewhere:
    """Another cluster, as fresh as it can be."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres: EmbeddedPostgres = postgres
        self._number: int = 0

    def restore(self, source: StateDatabase, folder: Path) -> StateDatabase:
        """With the programs that everybody restores with."""
        self._number += 1
        name = f"restored_{self._number}"
        with psycopg.connect(self._postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} OWNER tracelake_owner TEMPLATE template0")  # pyright: ignore[reportArgumentType]
        dump, bin = folder / f"{name}.dump", self._postgres.binaries.folder
        target = self._postgres.url(name)
        for command in ([bin / "pg_dump", "-Fc", "-f", dump, source.superuser_url], [bin / "pg_restore", "--exit-on-error", "-d", target, dump]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        made = StateDatabase(
            name, self._postgres.url(name, "tracelake_service"), self._postgres.url(name, "tracelake_owner"), target,
            self._postgres.url(DATA_DATABASE, "tracelake_service"),
        )  # fmt: skip
        with psycopg.connect(target) as connection, psycopg.connect(source.superuser_url) as origin:
            [here], [there] = (one.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,) for one in (connection, origin))
            assert here < there, "the cluster is not behind: this test shows nothing"
        return made


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("elsewhere"), find_binaries(), durable=False) as running:
        prepare_databases(running.url(), running.passwords)
        yield Elsewhere(running)


@pytest.fixture
def source(postgres: EmbeddedPostgres) -> Iterator[StateDatabase]:
    with fresh_database(postgres) as fresh:
        with psycopg.connect(fresh.superuser_url, autocommit=True) as connection:
            connection.execute(_BURN)  # pyright: ignore[reportArgumentType]
            connection.execute("INSERT INTO org (id, name) VALUES (%s, 'main')", [ORG])
        yield fresh


def note(number: int) -> MetadataRecord:
    target = MetadataTarget(source_id="erp", schema="sales", table="orders")
    return MetadataRecord(target=target, kind="note", payload={"n": number}, produced_at=datetime(2026, 1, 1, tzinfo=UTC), producer_id="tests.v1")


def records_of(state: Database) -> TenantRepository:
    return TenantRepository(Records(state), Tenant(ORG, "main"))


def numbers(service: TenantRepository, offset: str | None = None) -> tuple[list[int], str]:
    page = service.tail(CONTEXT, offset)
    return [stored.record.payload["n"] for stored in page.items], page.offset


def test_a_tail_continues_after_a_restore_and_misses_nothing(source: StateDatabase, elsewhere: Elsewhere, tmp_path: Path):
    with Database(source.service_url, size=2) as state:
        service = records_of(state)
        service.register(NOTE)
        service.bulk_store([note(1), note(2)], CONTEXT)
        half = service.tail(CONTEXT, limit=1).offset
        _, whole = numbers(service)
        restored = elsewhere.restore(source, tmp_path)
        service.store(note(3), CONTEXT)
        lost, beyond = numbers(service, whole)
        assert lost == [3]
    with Database(restored.service_url, size=2) as state:
        service = records_of(state)
        service.store(note(4), CONTEXT)
        assert numbers(service)[0] == [1, 2, 4]
        assert numbers(service, half)[0] == [2, 4]
        found, end = numbers(service, whole)
        assert found == [4]
        assert numbers(service, beyond)[0] == [4]  # who had read what the dump does not hold goes on too
        without_cluster = ".".join(whole.split(".")[:2])  # as offsets were given before there were epochs
        assert numbers(service, without_cluster)[0] == [4]
        service.store(note(5), CONTEXT)
        assert numbers(service, end)[0] == [5]
    with Database(source.service_url, size=2) as state:  # the copy's offset means nothing where the copy was made
        with pytest.raises(OffsetOfAnotherEpoch):
            records_of(state).tail(CONTEXT, end)
        with pytest.raises(OffsetUnknown):
            records_of(state).tail(CONTEXT, ".".join(end.split(".")[:2]))


def test_subscribers_of_the_bus_continue_after_a_restore(source: StateDatabase, elsewhere: Elsewhere, tmp_path: Path):
    with Database(source.service_url, size=2) as state:
        bus = PostgresBus(state)
        bus.publish("t", [Message({"n": 1}), Message({"n": 2})])
        reader = bus.subscribe("t", "reader")
        reader.commit(reader.read(1))
        reader.close()
    restored = elsewhere.restore(source, tmp_path)
    with Database(restored.service_url, size=2) as state:
        bus = PostgresBus(state)
        bus.publish("t", [Message({"n": 3})])
        reader = bus.subscribe("t", "reader")
        found = reader.read()
        assert [one.body["n"] for one in found] == [2, 3]
        reader.commit(found)
        assert reader.read() == []
        bus.publish("t", [Message({"n": 4})])
        assert [one.body["n"] for one in reader.read()] == [4]


@contextmanager
def lake_on(state: StateDatabase, home: Path) -> Iterator[Lake]:
    with running_control(settings_for(state, home, tasks={"housekeeping_seconds": 60}), state) as control_plane:
        control_plane.control.movers.stop()
        yield Lake(control_plane.control, state)


def test_runs_and_decisions_are_emitted_after_a_restore(database: StateDatabase, elsewhere: Elsewhere, tmp_path: Path):
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute(_BURN)  # pyright: ignore[reportArgumentType]
    with lake_on(database, tmp_path / "home") as lake:
        deploy_sample(lake)
        fill(lake, 1)
        emission, _ = emission_of(lake)
        emission.run_once()
        fill(lake, 2)  # the dump has facts on both sides of the offset
    restored = elsewhere.restore(database, tmp_path)
    with lake_on(restored, tmp_path / "home") as lake:
        fill(lake, 3)
        emission, repositories = emission_of(lake)
        while emission.run_once():
            pass
        checked = check(lake.control.database, repositories.repository_of, INSTALLATION)
        assert checked.whole and checked.facts > 0, checked


def emission_of(lake: Lake) -> tuple[Emission, RecordRepositories]:
    repositories = RecordRepositories(Records(lake.control.database))
    return Emission(lake.control.database, into_repositories(repositories.repository_of), INSTALLATION), repositories


def test_a_relay_whose_repository_was_replaced_begins_again(source: StateDatabase):
    """Its offset is one of another log; a repeated record has the same id."""
    with Database(source.service_url, size=4) as state:
        service = records_of(state)
        service.register(NOTE)
        service.store(note(1), CONTEXT)
        bus = PostgresBus(state)
        with psycopg.connect(source.superuser_url, autocommit=True) as connection:
            connection.execute("INSERT INTO relay_offset (name, behind) VALUES (%s, %s)", [f"{STORED} main", f"{1 << 48}.7.{uuid4().hex[:12]}"])
        relay = Relay(state, bus, lambda tenant: service, lambda tenant: CONTEXT)
        assert relay.run_once() == 1
        assert relay.run_once() == 0


def test_a_dump_from_before_there_were_epochs_begins_one_when_it_is_upgraded(postgres: EmbeddedPostgres):
    """Its places lie ahead of the cluster that it came to: the migration sees it."""
    with fresh_database(postgres, STATE_DATABASE) as fresh, psycopg.connect(fresh.superuser_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE emission DISABLE TRIGGER follows_facts")
        connection.execute("UPDATE emission SET xid = '281474976000000'")
        [migration] = [one.sql for one in shipped((TRACE,)) if one.name == "0012_pre_places_of_epochs"]
        connection.execute(migration)  # pyright: ignore[reportArgumentType]
        assert connection.execute("SELECT max(number) FROM log_epoch").fetchone() == (1,)
        connection.execute(migration)  # pyright: ignore[reportArgumentType]
        assert connection.execute("SELECT max(number) FROM log_epoch").fetchone() == (1,)

