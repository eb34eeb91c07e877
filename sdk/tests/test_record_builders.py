"""Builders: every producer spells the same thing in the same way, and what they build fits its kind."""

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from tracelake_sdk.errors.records import RecordConflict
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters, Window
from tracelake_sdk.records.builders import (
    CatalogChange,
    DrillDown,
    RecordBuilder,
    SnapshotColumn,
    Thresholds,
    Variability,
    attempt_run_id,
    dataset_extras,
    dataset_target,
    in_run,
    moment,
    slice_filter,
    window,
)
from tracelake_sdk.testing import MemoryRepository

DAY = datetime(2026, 3, 1, tzinfo=UTC)
CONTEXT = in_run(MetadataContext(cluster="c", workspace="w", tenant="main"), job="shop/orders", run="load-7", attempt=2)
BUILDER = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")


@pytest.mark.proves("M1.3")
def test_a_moment_has_one_spelling_whatever_its_time_zone() -> None:
    there = timezone(timedelta(hours=2))
    assert moment(DAY) == moment(DAY.astimezone(there)) == "2026-03-01T00:00:00Z"
    assert moment(DAY.replace(microsecond=5)) == "2026-03-01T00:00:00.000005Z"
    with pytest.raises(ValueError, match="time zone"):
        moment(datetime(2026, 3, 1))


def test_a_window_ends_after_it_starts_and_may_be_open() -> None:
    assert window(DAY, None) == {"window_start": "2026-03-01T00:00:00Z", "window_end": None}
    with pytest.raises(ValueError, match="ends after"):
        window(DAY, DAY)


@pytest.mark.proves("M1.3")
def test_a_slice_filter_has_one_order() -> None:
    one = slice_filter([("region", "in", ["b", "a", "b"]), ("day", "ge", 3), ("day", "ge", 3)])
    assert one == slice_filter([("day", "ge", 3), ("region", "in", ["a", "b"])])
    assert one == [{"column": "day", "op": "ge", "value": 3}, {"column": "region", "op": "in", "value": ["a", "b"]}]


@pytest.mark.proves("M1.3")
def test_a_run_id_names_one_try() -> None:
    assert attempt_run_id("load-7", 2) == CONTEXT.run_id == "load-7:2"
    assert CONTEXT.job_id == "shop/orders"
    with pytest.raises(ValueError, match="from 1"):
        attempt_run_id("load-7", 0)


@pytest.mark.proves("M1.3")
def test_a_dataset_is_named_by_its_uuid_and_its_extras_carry_generation_and_version() -> None:
    dataset, generation = UUID(int=1), UUID(int=2)
    assert dataset_target(dataset, "gold", name="revenue").key == ("lake", "gold", str(dataset))
    assert dataset_extras(dataset, generation, 3) == {"dataset": {"uuid": str(dataset), "generation": str(generation), "version": 3}}


def _all() -> list[MetadataRecord]:
    columns = [SnapshotColumn("id", "bigint", nullable=False, key=True), SnapshotColumn("amount", "decimal(12,2)", nullable=True, precision=12, scale=2)]
    return [
        BUILDER.ingestion_volume(rows=10, bytes=None, start=DAY, end=DAY + timedelta(days=1), conditions=[("region", "eq", "emea")], watermark_after=7, mode="incremental"),
        BUILDER.ingestion_runtime(duration_seconds=1.5, retries=0, outcome="failed", error_class="OSError", started_at=DAY, sla_seconds=60),
        BUILDER.recon_result(check="rows", metric="row_count", outcome="pass", source_value=10, target_value=10, thresholds=Thresholds(percent=0.1)),
        BUILDER.recon_result(
            check="rows", metric="row_count", outcome="fail", source_value=10, target_value=8, thresholds=Thresholds(absolute=1), variability=Variability(values=7, middle=9.5),
            band=(9.0, 10.0), baseline_run_ids=["load-6:1"], drill_down=DrillDown("day", {"day": 1}, ["year_month", "day"], "day"), on_fail="alert",
        ),
        BUILDER.recon_result(check="sum", metric="checksum", outcome="error", source_value="ab", target_value=None, thresholds=Thresholds()),
        BUILDER.schema_snapshot(columns, catalog="postgresql"),
        BUILDER.statistics_snapshot(rows=10, bytes=100, exact=True, columns=[{"name": "amount", "nulls": 1}]),
        BUILDER.catalog_diff(from_fingerprint=None, to_fingerprint="0" * 64, changes=[CatalogChange("table_added", None, breaking=False)]),
    ]


@pytest.mark.proves("M1.2")
@pytest.mark.proves("M1.3")
def test_what_is_built_fits_its_kind_and_comes_back() -> None:
    repository, records = MemoryRepository(), _all()
    assert [answer.result for answer in repository.bulk_store(records, CONTEXT)] == ["stored"] * len(records)
    assert [answer.result for answer in repository.bulk_store(_all(), CONTEXT)] == ["same"] * len(records)
    latest = repository.latest(BUILDER.target, "ingestion_volume", CONTEXT)
    assert latest is not None
    assert latest.record == records[0]


@pytest.mark.proves("M1.3")
def test_the_window_of_a_payload_is_mirrored_in_extras() -> None:
    record = BUILDER.ingestion_volume(rows=1, bytes=1, start=DAY, end=None, extras={"guardrails": ["precision"]})
    assert record.extras == {"guardrails": ["precision"], "window_start": "2026-03-01T00:00:00Z", "window_end": None}
    repository = MemoryRepository()
    repository.store(record, CONTEXT)
    asked = RecordFilters.model_validate({"where": [{"path": "extras.window_start", "op": "eq", "value": "2026-03-01T00:00:00Z"}]})
    assert len(repository.query(asked, CONTEXT)) == 1
    assert len(repository.query(RecordFilters(window=Window(end=DAY)), CONTEXT)) == 0


@pytest.mark.proves("M1.4")
def test_groups_of_one_check_are_records_of_their_own_and_a_failed_try_and_the_next_are_two() -> None:
    repository = MemoryRepository()
    def told(day: int, target_value: int = 1) -> MetadataRecord:
        return BUILDER.recon_result(
            check="rows", metric="row_count", outcome="pass", source_value=1, target_value=target_value, thresholds=Thresholds(absolute=9), drill_down=DrillDown("day", {"day": day}, ["day"], "day"),
        )
    assert [repository.store(told(day), CONTEXT).result for day in (1, 2, 1)] == ["stored", "stored", "same"]
    with pytest.raises(RecordConflict):
        repository.store(told(1, target_value=5), CONTEXT)
    next_try = in_run(CONTEXT, job=CONTEXT.job_id, run="load-7", attempt=3)
    assert repository.store(told(1, target_value=5), next_try).result == "stored"
