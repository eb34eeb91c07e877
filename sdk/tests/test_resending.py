"""What was refused is sent again once its cause is mended: each record once, and none is lost wherever it is killed."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, StoreResult
from tracelake_sdk.records.builders import RecordBuilder, in_run
from tracelake_sdk.records.emitter import Emitter, flush_folder, resend, set_aside
from tracelake_sdk.records.emitter.delivery import Delivered
from tracelake_sdk.records.emitter.segments import Segment, framed
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.testing import MemoryRepository

pytestmark = pytest.mark.proves("M2.3")

CONTEXT = in_run(MetadataContext(cluster="c", workspace="w", tenant="main"), job="load", run="r", attempt=1)
BUILDER = RecordBuilder(MetadataTarget(source_id="wms", schema="out", table="shipment"), "dock.v1")
SHIPMENT = Kind.model_validate({
    "name": "shipment", "owner": "logistics", "description": "One shipment.", "identity": ["payload.number"],
    "schema": {"type": "object", "properties": {"number": {"type": "integer", "minimum": 0}}, "required": ["number"], "additionalProperties": False},
})
LONG = 60.0


class Killed(BaseException):
    """As a kill: nobody handles it."""


def _shipment(number: int) -> MetadataRecord:
    return BUILDER.record("shipment", {"number": number})


def _refused(repository: MemoryRepository | EmbeddedRepository, spool: Path, *numbers: int, context: MetadataContext = CONTEXT) -> None:
    """Emitted before their kind was registered."""
    with Emitter(repository, spool) as emitter:
        for number in numbers:
            emitter.emit(_shipment(number), context)
        assert emitter.flush(LONG)
        assert emitter.status().refused == len(numbers)


def _numbers(repository: MemoryRepository | EmbeddedRepository) -> list[int]:
    return [stored.record.payload["number"] for stored in repository.tail(CONTEXT, limit=10_000).items]


def _aside(spool: Path) -> list[tuple[int, str]]:
    return [(line.record["payload"]["number"], line.problem["code"]) for line in set_aside(spool)]


def test_what_was_refused_is_taken_once_its_kind_is_registered(tmp_path: Path) -> None:
    with EmbeddedRepository(tmp_path / "records", tenant="main") as repository:
        spool = tmp_path / "spool"
        _refused(repository, spool, 1, 2, -3, 4)
        _refused(repository, spool, 5)
        assert resend(spool, repository).delivered == Delivered(entries=5, refused=5)
        assert _aside(spool) == [(number, "kind_unknown") for number in (1, 2, -3, 4, 5)]
        repository.register(SHIPMENT)
        assert repository.store(_shipment(2), CONTEXT).result == "stored"  # somebody told it meanwhile
        report = resend(spool, repository)
        assert (report.delivered, report.problem) == (Delivered(entries=5, stored=3, same=1, refused=1), None)
        assert sorted(_numbers(repository)) == [1, 2, 4, 5]
        assert _aside(spool) == [(-3, "record_refused")]  # with the reason of today
        assert len(list((spool / "refused").iterdir())) == 1
        assert len(next((spool / "refused").iterdir()).read_bytes().splitlines()) == 1
        assert resend(spool, repository).delivered == Delivered(entries=1, refused=1)
        assert _aside(spool) == [(-3, "record_refused")]
        assert flush_folder(spool, repository).delivered == Delivered()


class Calls:
    """Ends the process, as far as one can, at one of the calls that change something outside of it: before it, or right behind it."""

    def __init__(self, at: int, *, behind: bool) -> None:
        self.left: int = at
        self.behind: bool = behind

    def counts(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **more: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.behind:
                raise Killed
            done = call(*args, **more)
            if self.left == 0:
                raise Killed
            return done

        return counted


def test_a_kill_at_any_point_loses_nothing_and_stores_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = CONTEXT.model_copy(update={"run_id": "s:1"})
    kills = 0
    for at in range(1, 50):
        ended = True
        for behind in (False, True):
            repository, spool = MemoryRepository(), tmp_path / f"{at}{behind}"
            _refused(repository, spool, 1, -2, 3)
            _refused(repository, spool, 4, 5, context=other)
            repository.register(SHIPMENT)
            calls = Calls(at, behind=behind)
            try:
                with monkeypatch.context() as patched:
                    patched.setattr(repository, "bulk_store", calls.counts(repository.bulk_store))
                    for name in ("write", "fsync"):
                        patched.setattr(os, name, calls.counts(getattr(os, name)))
                    for name in ("unlink", "replace"):
                        patched.setattr(Path, name, calls.counts(getattr(Path, name)))
                    resend(spool, repository)
            except Killed:
                kills, ended = kills + 1, False
            assert {number for number, _ in _aside(spool)} | set(_numbers(repository)) == {1, -2, 3, 4, 5}
            assert resend(spool, repository).problem is None
            assert _numbers(repository) == [1, 3, 4, 5]
            assert _aside(spool) == [(-2, "record_refused")]
            assert [path.suffix for path in (spool / "refused").iterdir()] == [".jsonl"]
        if ended:
            break
    assert ended and kills > 10


def test_refused_records_of_a_running_process_are_sent_too_and_it_keeps_setting_aside(tmp_path: Path) -> None:
    repository = MemoryRepository()
    with Emitter(repository, tmp_path) as emitter:
        emitter.emit(_shipment(1), CONTEXT)
        assert emitter.flush(LONG)
        repository.register(SHIPMENT)
        assert resend(tmp_path, repository).delivered == Delivered(entries=1, stored=1)
        assert _aside(tmp_path) == []
        emitter.emit(_shipment(-1), CONTEXT)
        assert emitter.flush(LONG)
        assert _aside(tmp_path) == [(-1, "record_refused")]
        assert resend(tmp_path, repository).delivered == Delivered(entries=1, refused=1)
    assert resend(tmp_path, repository).delivered == Delivered(entries=1, refused=1)
    assert _numbers(repository) == [1]


def test_a_repository_that_takes_nothing_now_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = MemoryRepository()
    _refused(repository, tmp_path, 1, 2)

    def down(records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        raise RepositoryUnavailable("It sleeps.")

    before = set_aside(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(repository, "bulk_store", down)
        report = resend(tmp_path, repository)
    assert report.delivered == Delivered()
    assert report.problem is not None and report.problem["detail"] == "It sleeps."
    assert set_aside(tmp_path) == before


def test_a_record_that_the_repository_still_breaks_over_is_not_in_the_way_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = MemoryRepository()
    _refused(repository, tmp_path, *range(10))
    repository.register(SHIPMENT)
    stores = repository.bulk_store

    def breaks(records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        if any(record.payload["number"] == 3 for record in records):
            raise ValueError("a bug")
        return stores(records, context)

    monkeypatch.setattr(repository, "bulk_store", breaks)
    assert resend(tmp_path, repository).delivered == Delivered(entries=10, stored=9, refused=1)
    assert _aside(tmp_path) == [(3, "internal")]


def test_an_entry_that_is_not_a_record_stays(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / "1.00000001.spool", fsync=False)
    for frame in (framed(b"[]", b"{}"), framed(CONTEXT.model_dump_json().encode(), b"\xff no JSON")):
        segment.append(frame, fsync=False)
    segment.close()
    repository = MemoryRepository()
    assert flush_folder(tmp_path, repository).delivered == Delivered(entries=2, refused=2)
    before = set_aside(tmp_path)
    assert resend(tmp_path, repository).delivered == Delivered(entries=2, refused=2)
    assert set_aside(tmp_path) == before


def test_many_are_sent_in_batches_and_come_in_their_order(tmp_path: Path) -> None:
    repository = MemoryRepository()
    _refused(repository, tmp_path, *range(1200))
    repository.register(SHIPMENT)
    assert resend(tmp_path, repository).delivered.stored == 1200
    assert _numbers(repository) == list(range(1200))
    assert not list((tmp_path / "refused").iterdir())
