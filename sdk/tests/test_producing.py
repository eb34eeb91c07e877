"""Producers and readers: one that fails harms no other, and a view has nothing to write with."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from tracelake_sdk.datasets import PinnedVersion
from tracelake_sdk.errors import NotFound
from tracelake_sdk.records import Comparison, MetadataContext, MetadataRecord, MetadataRequest, MetadataTarget, PathFilter
from tracelake_sdk.records.builders import RecordBuilder, Thresholds, in_run
from tracelake_sdk.records.emitter import Emitter
from tracelake_sdk.records.producers import MetadataProducerRunner
from tracelake_sdk.records.view import BaselineValue, DatasetAt, RecordView
from tracelake_sdk.tasks.runs import RunDetail
from tracelake_sdk.testing import MemoryRepository

TARGET = MetadataTarget(source_id="erp", schema="sales", table="orders")
CONTEXT = MetadataContext(cluster="c", workspace="w", tenant="main", run_id="r:1")
START = datetime(2026, 3, 1, tzinfo=UTC)


class Counting:
    """Tells volumes, and fails behind one of them."""

    def __init__(self, name: str, fails_at: int | None = None, speaks_for: str | None = None) -> None:
        self.producer_id = f"{name}.v1"
        self._fails_at = fails_at
        self._builder = RecordBuilder(TARGET, f"{speaks_for or name}.v1")

    def produce(self, request: MetadataRequest) -> Iterable[MetadataRecord]:
        assert request.target == TARGET
        for number in range(3):
            if number == self._fails_at:
                raise ZeroDivisionError("row of Ms. Smith")
            yield self._builder.ingestion_volume(rows=number, bytes=None, conditions=[("n", "eq", number)])


class Nameless:
    @property
    def producer_id(self) -> str:
        raise RuntimeError

    def produce(self, request: MetadataRequest) -> Iterable[MetadataRecord]:
        return []


@pytest.mark.proves("M3.1")
def test_an_error_in_one_producer_is_its_result_and_the_others_run(tmp_path: Path) -> None:
    repository = MemoryRepository()
    producers = [Counting("one"), Counting("two", fails_at=1), Nameless(), Counting("three", speaks_for="one"), Counting("four")]
    with Emitter(repository, tmp_path) as emitter:
        results = MetadataProducerRunner(producers, emitter.emit).run(MetadataRequest(target=TARGET, context=CONTEXT))
        assert emitter.flush(60)
    assert [(result.producer_id, result.records, result.succeeded) for result in results] == [
        ("one.v1", 3, True), ("two.v1", 1, False), ("Nameless", 0, False), ("three.v1", 0, False), ("four.v1", 3, True),
    ]
    assert isinstance(results[1].error, ZeroDivisionError)
    assert results[1].problem is not None
    assert "Smith" not in str(results[1].problem)
    assert results[3].problem is not None
    assert results[3].problem["code"] == "invalid"
    assert len(repository.history(TARGET, "ingestion_volume", CONTEXT)) == 7


def test_a_refusal_of_the_repository_is_the_producers_result_too() -> None:
    repository = MemoryRepository()
    strange = CONTEXT.model_copy(update={"tenant": "another"})
    (result,) = MetadataProducerRunner([Counting("one")], repository.store).run(MetadataRequest(target=TARGET, context=strange))
    assert result.problem is not None
    assert result.problem["code"] == "tenant_mismatch"


def _measured(repository: MemoryRepository, run: str, value: float, *, outcome: str = "pass", days: int = 0, extras: dict[str, object] | None = None) -> None:
    builder = RecordBuilder(TARGET, "recon.v1", now=lambda: START + timedelta(days=days))
    record = builder.recon_result(
        check="rows", metric="row_count", outcome=outcome, source_value=value, target_value=value, thresholds=Thresholds(absolute=1), start=START + timedelta(days=days),  # pyright: ignore[reportArgumentType]
        end=START + timedelta(days=days + 1), extras=extras, baseline_run_ids=["load-0:1"],
    )
    repository.store(record, in_run(CONTEXT, job=None, run=run, attempt=1))


PASSED = [PathFilter(path="payload.outcome", op=Comparison.EQ, value="pass"), PathFilter(path="payload.check", op=Comparison.EQ, value="rows")]


@pytest.mark.proves("M2.7")
def test_a_baseline_is_of_the_last_successful_runs_without_the_point_under_test_and_incidents() -> None:
    repository = MemoryRepository()
    for day in range(12):
        _measured(repository, f"load-{day}", 100 + day, days=day, outcome="fail" if day == 9 else "pass", extras={"incident": "outage"} if day == 8 else None)
    view = RecordView(repository, CONTEXT)
    found = view.baseline(TARGET, "recon_result", "payload.source_value", last=3, where=PASSED, excluding_runs=["load-11:1"])
    assert found == [BaselineValue(f"load-{day}:1", START + timedelta(days=day), 100 + day) for day in (10, 7, 6)]
    before = view.baseline(TARGET, "recon_result", "payload.source_value", last=2, where=PASSED, before=START + timedelta(days=5))
    assert [value.run_id for value in before] == ["load-4:1", "load-3:1"]
    assert view.baseline(TARGET, "recon_result", "payload.check", where=PASSED) == []


@pytest.mark.proves("M2.7")
def test_a_view_reads_newest_history_and_window() -> None:
    repository = MemoryRepository()
    for day in range(5):
        _measured(repository, f"load-{day}", day, days=day)
    view = RecordView(repository, CONTEXT)
    newest = view.newest(TARGET, "recon_result")
    assert newest is not None
    assert newest.record.payload["source_value"] == 4
    assert [stored.record.payload["source_value"] for stored in view.history(TARGET, "recon_result", 2)] == [4, 3]
    assert [stored.record.payload["source_value"] for stored in view.window(TARGET, "recon_result", START + timedelta(days=1), START + timedelta(days=3))] == [2, 1]


def _detail(run_id: str) -> RunDetail:
    if run_id.startswith("load-0"):
        raise NotFound
    return RunDetail.model_validate({
        "run_id": run_id, "task_id": UUID(int=1), "attempt": 1, "dag": "shop", "job": "orders", "dataset_id": UUID(int=2), "layer": "gold", "status": "SUCCESS",
        "start_time": START, "end_time": START, "error_message": None, "triggered_by": "event", "generation": UUID(int=3), "version": 7, "hidden_inputs": 1,
        "inputs": [PinnedVersion(index=0, dataset_uuid=UUID(int=4), name="orders", version=3)],
    })


@pytest.mark.proves("M2.7")
def test_lineage_leads_from_a_result_to_the_runs_and_versions_behind_it() -> None:
    repository = MemoryRepository()
    _measured(repository, "load-1", 1)
    view = RecordView(repository, CONTEXT, run_detail=_detail)
    newest = view.newest(TARGET, "recon_result")
    assert newest is not None
    behind = view.lineage(newest)
    assert [run.run_id for run in behind.runs] == ["load-1:1"]
    assert (behind.read, behind.made) == ((DatasetAt(UUID(int=4), 3),), (DatasetAt(UUID(int=2), 7),))
    assert (behind.unknown_runs, behind.hidden_inputs) == (("load-0:1",), 1)
    assert RecordView(repository, CONTEXT).lineage(newest).unknown_runs == ("load-1:1", "load-0:1")


@pytest.mark.proves("M2.7")
def test_a_view_has_no_method_that_writes() -> None:
    public = {name for name in dir(RecordView) if not name.startswith("_")}
    assert public == {"newest", "history", "window", "baseline", "lineage"}
    kept = vars(RecordView(MemoryRepository(), CONTEXT)).values()
    assert not any(hasattr(value, word) for value in kept for word in ("store", "bulk_store", "register"))
