"""What a control process runs for its records, with and without a bus, and what its metrics say about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.accounting import ask
from support.controls import ControlPlane, running_control, scraped, served, settings_for, succeeded
from support.databases import StateDatabase
from support.processes import wait_until

from tracelake.control.bus.opening import open_bus
from tracelake.control.emission.checking import check
from tracelake.control.records.repositories import RecordRepositories
from tracelake.control.records_process import RecordsProcess
from tracelake.settings import BusSettings
from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters
from tracelake_sdk.records.bus import EVENTS, STORED, Message
from tracelake_sdk.records.subscribers import to_message

CONTEXT = MetadataContext(cluster="embedded", workspace="main", tenant="main")


@contextmanager
def working(database: StateDatabase, home: Path, **sections) -> Iterator[ControlPlane]:
    """A control whose loops run as they do every day."""
    with running_control(settings_for(database, home, tasks={"housekeeping_seconds": 0.05}, **sections), database) as control_plane:
        yield control_plane


def run_something(control_plane: ControlPlane, number: int) -> None:
    control_plane.deploy()
    for _ in range(number):
        control_plane.run_source()
    control_plane.complete(*[succeeded(task) for task in control_plane.claim()])


def is_emitted(control_plane: ControlPlane) -> bool:
    return check(control_plane.control.database, control_plane.control.record_repositories.repository_of, control_plane.control.record_loops.installation).whole


def metrics_of(control_plane: ControlPlane) -> dict[str, float]:
    with served(control_plane.control) as url:
        lines = scraped(url, control_plane.control.settings.home).splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))}


@pytest.mark.proves("M3.8")
def test_runs_become_records_by_themselves(database: StateDatabase, tmp_path: Path):
    with working(database, tmp_path / "home") as control_plane:
        run_something(control_plane, 3)
        wait_until(lambda: is_emitted(control_plane), "every run is emitted")
        found = control_plane.control.record_repositories.repository_of("main").query(RecordFilters(kinds=["task_run"]), CONTEXT)
        assert len(found) == 3 and {stored.context.workspace for stored in found} == {"main"}
        measured = metrics_of(control_plane)
        assert measured["tracelake_emission_behind"] == 0 and measured["tracelake_emission_refused"] == 0


@pytest.mark.proves("M4.1")
def test_with_a_bus_records_are_emitted_stored_counted_and_published_as_stored(database: StateDatabase, tmp_path: Path):
    with working(database, tmp_path / "home", bus={"url": "postgres:"}) as control_plane:
        bus = open_bus(BusSettings(url="postgres:"), control_plane.control.database)
        assert bus is not None
        bus.publish(EVENTS, [Message({"nobody": "understands"})])  # poisoned
        run_something(control_plane, 3)
        wait_until(lambda: is_emitted(control_plane), "every run is emitted")
        stored = bus.subscribe(STORED, "a test")
        wait_until(lambda: len(stored.read()) == 3, "stored records are published")
        assert {message.body["stored"]["record"]["kind"] for message in stored.read()} == {"task_run"}
        counts = control_plane.control.record_loops.counts
        wait_until(lambda: counts.now() == {("task_run", "success"): 3}, "the counts heard of them")
        wait_until(lambda: control_plane.control.record_loops.set_aside() == {"repository": 1, "metrics": 1}, "the poisoned one is set aside")
        measured = metrics_of(control_plane)
        assert measured['tracelake_records_emitted_total{kind="task_run",outcome="success"}'] == 3
        assert measured['tracelake_bus_set_aside_total{subscriber="repository"}'] == 1


@pytest.mark.proves("M4.1")
def test_an_unavailable_repository_stops_neither_tasks_nor_counts(database: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    away = True
    opened = RecordRepositories.repository_of

    def repository_of(repositories: RecordRepositories, tenant: str):
        if away:
            raise RepositoryUnavailable
        return opened(repositories, tenant)

    monkeypatch.setattr(RecordRepositories, "repository_of", repository_of)
    with working(database, tmp_path / "home", bus={"url": "postgres:"}) as control_plane:
        run_something(control_plane, 2)
        wait_until(lambda: control_plane.control.record_loops.counts.now() == {("task_run", "success"): 2}, "the counts go on without it")
        assert not is_stored(database) and control_plane.control.record_loops.set_aside() == {"repository": 0, "metrics": 0}
        away = False
        wait_until(lambda: is_stored(database), "it is back, and nothing was lost")


def is_stored(database: StateDatabase) -> bool:
    return ask(database, "SELECT count(*) FROM metadata_record WHERE kind = 'task_run'") == 2


@pytest.mark.proves("M4.1")
def test_the_records_service_by_itself_is_a_subscriber_too(database: StateDatabase, tmp_path: Path):
    alone = RecordsProcess(settings_for(database, tmp_path / "home", tasks={"housekeeping_seconds": 0.05}, bus={"url": "postgres:"}))
    alone.start()
    try:
        bus = open_bus(BusSettings(url="postgres:"), alone.database)
        assert bus is not None
        record = MetadataRecord(
            target=MetadataTarget(source_id="shop", schema="public", table="orders"),
            kind="ingestion_runtime",
            payload={"duration_seconds": 1, "retries": 0, "outcome": "success", "window_start": None, "window_end": None, "slice_filter": []},
            produced_at=datetime(2026, 1, 1, tzinfo=UTC),
            producer_id="test.v1",
        )
        bus.publish(EVENTS, [to_message(record, CONTEXT)])
        wait_until(lambda: ask(database, "SELECT count(*) FROM metadata_record WHERE kind = 'ingestion_runtime'") == 1, "it is stored")
    finally:
        alone.stop()


@pytest.mark.parametrize("url", ["redis://somewhere", "kafka:", "kafka"])
def test_an_invalid_bus_address_is_refused_with_its_setting(control_plane: ControlPlane, url: str):
    with pytest.raises(SettingInvalid, match="TRACELAKE__BUS__URL"):
        open_bus(BusSettings(url=url), control_plane.control.database)


def test_old_messages_leave_the_bus(control_plane: ControlPlane):
    bus = open_bus(BusSettings(url="postgres:"), control_plane.control.database)
    assert bus is not None
    bus.publish("a.topic", [Message({"n": 1}), Message({"n": 2})])
    control_plane.query("UPDATE bus_message SET at = now() - interval '8 days' WHERE body ->> 'n' = '1'")
    assert bus.run_once() == 1  # pyright: ignore[reportAttributeAccessIssue]
    assert [message.body["n"] for message in bus.subscribe("a.topic", "late").read()] == [2]
