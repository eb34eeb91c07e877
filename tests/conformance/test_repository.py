"""One suite for every repository: what it stores, what it refuses, and what it answers."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.record_model import NOTE, TALLY_1, TALLY_2
from support.repositories import Fresh, Opened, tailed
from support.sizes import size

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import (
    ClockAhead,
    KindConflict,
    KindIncompatible,
    KindUnknown,
    OffsetUnknown,
    RecordConflict,
    RecordRefused,
    TenantMismatch,
)
from tracelake_sdk.json_values import MOST_DEPTH
from tracelake_sdk.records import Aggregation, MetadataRecord, MetadataTarget, Metric, Quality, RecordFilters, Window
from tracelake_sdk.records.repository.contract import MetadataRepository

NOON = datetime(2020, 5, 17, 12, tzinfo=UTC)
ORDERS = MetadataTarget(source_id="erp", schema="sales", table="orders")
HOUR = timedelta(hours=1)


def tally(produced_at: datetime = NOON, *, target: MetadataTarget = ORDERS, producer_id: str = "loader.v1", version: int | None = None, **payload: Any) -> MetadataRecord:
    return MetadataRecord(
        target=target, kind="tally", payload={"rows": 1, **payload}, produced_at=produced_at, producer_id=producer_id, version=version, quality=Quality.MEASURED
    )


def note(produced_at: datetime = NOON, **payload: Any) -> MetadataRecord:
    return MetadataRecord(target=ORDERS, kind="note", payload=payload, produced_at=produced_at, producer_id="loader.v1")


@pytest.fixture
def opened(fresh: Fresh) -> Opened:
    found = fresh()
    for kind in (TALLY_1, NOTE):
        found.repository.register(kind)
    return found


def latest_rows(opened: Opened, repository: MetadataRepository | None = None) -> Any:
    found = (repository or opened.repository).latest(ORDERS, "tally", opened.context())
    return found and found.record.payload["rows"]


# Storing
@pytest.mark.proves("M1.1")
def test_a_record_comes_back_with_everything_that_was_stored(opened: Opened) -> None:
    emitted = tally(rows=3, window_start="2020-05-17T00:00:00+00:00", window_end="2020-05-18T00:00:00+00:00")
    emitted = emitted.model_copy(update={"extras": {**emitted.extras, "guardrail": {"action": "none"}}, "target": ORDERS.model_copy(update={"extras": {"team": "shop"}})})
    context = opened.context("run-7", namespace="n", extras={"trace": "t"})
    result = opened.repository.store(emitted, context)
    found = opened.repository.latest(ORDERS, "tally", opened.context("another run"))
    assert found is not None and (found.id, found.context, found.kind_version) == (result.id, context, 1)
    assert found.record == emitted
    assert found.record.target.extras == {"team": "shop"}
    assert found.record.extras["window_start"] == emitted.payload["window_start"]
    assert found.stored_at.tzinfo is not None


@pytest.mark.proves("M1.1")
def test_what_is_nested_as_deep_as_it_may_be_comes_back_and_what_is_deeper_is_refused(opened: Opened) -> None:
    deepest: Any = 1
    for _ in range(MOST_DEPTH - 1):
        deepest = [deepest]
    emitted = MetadataRecord.model_validate(tally().model_dump() | {"extras": {"deepest": deepest}})
    assert [result.result for result in opened.repository.bulk_store([emitted, note(said="x")], opened.context())] == ["stored", "stored"]
    [found] = opened.second().query(RecordFilters(kinds=["tally"]), opened.context())
    assert found.record == emitted
    with pytest.raises(ValidationError, match="nested deeper than"):
        MetadataRecord.model_validate(tally().model_dump() | {"extras": {"deeper": [deepest]}})


@pytest.mark.proves("M2.1")
def test_a_window_that_reaches_beyond_the_years_is_open_on_that_side(opened: Opened) -> None:
    windows = [("0001-01-01T00:00:00+23:00", "2020-01-01T00:00:00Z"), ("2020-01-01T00:00:00Z", "9999-12-31T23:59:59-05:00")]
    emitted = [note(window_start=start, window_end=end) for start, end in windows]
    assert [result.result for result in opened.repository.bulk_store([*emitted, note(said="x")], opened.context())] == ["stored"] * 3
    asked = [Window(end=datetime(1, 1, 2, tzinfo=UTC)), Window(start=datetime(9999, 12, 31, tzinfo=UTC))]
    found = [[stored.record for stored in opened.repository.query(RecordFilters(window=window), opened.context())] for window in asked]
    assert found == [[emitted[0]], [emitted[1]]]
    with pytest.raises(ValidationError, match="before the year 1"):
        MetadataRecord.model_validate(note().model_dump() | {"produced_at": "0001-01-01T00:00:00+23:00"})


@pytest.mark.proves("M2.1")
def test_a_sum_that_overflows_is_null_and_affects_no_other_group(opened: Opened) -> None:
    for group, values in (("huge", [10**400, 0.5]), ("infinite", [1.7e308, 1.7e308]), ("plain", [1, 2.5])):
        for number, value in enumerate(values):
            emitted = tally(HOUR * number + NOON).model_copy(update={"extras": {"group": group, "value": value}})
            opened.repository.store(emitted, opened.context(f"{group}-{number}"))
    groups = opened.repository.aggregate(RecordFilters(kinds=["tally"]), Aggregation(metric=Metric.SUM, path="extras.value", group_by=["extras.group"]), opened.context())
    assert [(one.group["extras.group"], one.value, one.records) for one in groups] == [("huge", None, 2), ("infinite", None, 2), ("plain", 3.5, 2)]


@pytest.mark.proves("M1.4")
def test_the_same_again_is_nothing_new_also_at_another_time(opened: Opened) -> None:
    first = opened.repository.store(tally(rows=1), opened.context())
    again = opened.repository.store(tally(NOON + HOUR, rows=1), opened.context())
    assert (first.result, again.result, again.id) == ("stored", "same", first.id)
    found = opened.repository.query(RecordFilters(), opened.context())
    assert [stored.record.produced_at for stored in found] == [NOON]


@pytest.mark.proves("M1.4")
def test_a_conflicting_record_is_reported_and_not_stored(opened: Opened) -> None:
    first = opened.repository.store(tally(rows=1), opened.context())
    with pytest.raises(RecordConflict) as conflict:
        opened.repository.store(tally(NOON + HOUR, rows=2), opened.context())
    assert conflict.value.extra["stored_id"] == str(first.id)
    [in_bulk] = opened.repository.bulk_store([tally(rows=2)], opened.context())
    assert (in_bulk.result, in_bulk.id) == ("conflict", first.id)
    assert in_bulk.problem is not None and in_bulk.problem["code"] == "record_conflict"
    assert [stored.record.payload["rows"] for stored in opened.repository.query(RecordFilters(), opened.context())] == [1]


@pytest.mark.proves("M1.4")
def test_a_failed_try_and_the_next_one_are_two_records(opened: Opened) -> None:
    opened.repository.store(tally(rows=None), opened.context("run-1-1"))
    opened.repository.store(tally(NOON + HOUR, rows=10), opened.context("run-1-2"))
    assert [stored.context.run_id for stored in opened.repository.history(ORDERS, "tally", opened.context())] == ["run-1-2", "run-1-1"]


@pytest.mark.proves("M1.4")
def test_groups_of_one_check_are_identified_by_the_paths_of_the_kind(opened: Opened) -> None:
    emitted = [tally(rows=rows, check="count", group=group) for rows, group in enumerate(["a", "b", None])]
    assert [result.result for result in opened.repository.bulk_store(emitted, opened.context())] == ["stored"] * 3
    with pytest.raises(RecordConflict):
        opened.repository.store(tally(rows=9, check="count", group="b"), opened.context())


@pytest.mark.proves("M1.4")
def test_without_a_run_snapshots_of_one_target_accumulate(opened: Opened) -> None:
    context = opened.context(None)
    results = [opened.repository.store(record, context).result for record in (note(n=1), note(n=1), note(n=2), note(NOON + HOUR, n=1))]
    assert results == ["stored", "same", "stored", "stored"]


@pytest.mark.proves("M1.2")
def test_one_bad_record_harms_no_other_of_its_bulk(opened: Opened) -> None:
    unknown = tally().model_copy(update={"kind": "nobody_registered_it"})
    emitted = [tally(check="a"), unknown, tally(check="b"), tally(check="b"), tally(rows=2, check="a"), tally(unheard_of=1), tally(version=9), tally(check="c")]
    results = opened.repository.bulk_store(emitted, opened.context())
    assert [result.result for result in results] == ["stored", "refused", "stored", "same", "conflict", "refused", "refused", "stored"]
    assert [result.problem["code"] for result in results if result.result == "refused" and result.problem] == ["kind_unknown", "record_refused", "kind_unknown"]
    assert results[3].id == results[2].id and results[4].id == results[0].id
    assert len(opened.repository.query(RecordFilters(), opened.context())) == 3
    assert opened.repository.bulk_store([], opened.context()) == []


@pytest.mark.proves("M1.2")
def test_an_unknown_kind_and_a_bad_payload_are_refused(opened: Opened) -> None:
    for name in ("nobody", "", ".", "..", "a/b", "tally/../note", "tally?", "é"):
        with pytest.raises(KindUnknown):
            opened.repository.kind(name)
    with pytest.raises(KindUnknown):
        opened.repository.store(tally().model_copy(update={"kind": "nobody_registered_it"}), opened.context())
    with pytest.raises(RecordRefused):
        opened.repository.store(tally(rows={"no": "number"}), opened.context())
    with pytest.raises(RecordRefused):
        opened.repository.store(note(text="x" * 1024 * 1024), opened.context())
    assert latest_rows(opened) is None


def test_a_bulk_of_many_is_stored_once_and_in_order(opened: Opened, implementation: str) -> None:
    number = 300 if implementation.endswith("S3") else size(1_200, 5_000)
    emitted = [tally(NOON + timedelta(microseconds=place), rows=place, check=f"check-{place}") for place in range(number)]
    results = opened.repository.bulk_store(emitted, opened.context())
    assert {result.result for result in results} == {"stored"}
    assert {result.result for result in opened.second().bulk_store(emitted, opened.context())} == {"same"}
    assert [stored.id for stored in tailed(opened.repository, opened.context(), number)] == [result.id for result in results]
    [total] = opened.repository.aggregate(RecordFilters(), Aggregation(metric="sum", path="payload.rows"), opened.context())
    assert (total.value, total.records) == (number * (number - 1) // 2, number)


# The newest
@pytest.mark.proves("M2.1")
def test_a_late_backfill_does_not_become_the_latest(opened: Opened) -> None:
    opened.repository.store(tally(rows=2), opened.context("run-2"))
    opened.repository.store(tally(NOON - 30 * HOUR, rows=1), opened.context("run-1"))
    assert latest_rows(opened) == 2
    assert [stored.record.payload["rows"] for stored in opened.repository.history(ORDERS, "tally", opened.context())] == [2, 1]


@pytest.mark.proves("M2.1")
def test_a_clock_ahead_is_refused_and_one_that_is_hardly_ahead_is_not(opened: Opened) -> None:
    now = datetime.now(UTC)
    with pytest.raises(ClockAhead):
        opened.repository.store(tally(now + timedelta(minutes=20), rows=9), opened.context("ahead"))
    [in_bulk] = opened.repository.bulk_store([tally(now + timedelta(minutes=20), rows=9)], opened.context("ahead"))
    assert in_bulk.problem is not None and in_bulk.problem["code"] == "clock_ahead"
    opened.repository.store(tally(now + timedelta(minutes=2), rows=1), opened.context("hardly"))
    assert latest_rows(opened) == 1


@pytest.mark.proves("M3.8")
def test_no_clock_refuses_what_the_system_says_of_itself(opened: Opened) -> None:
    """It has happened, by the clock of the system's own database."""
    ahead = tally(datetime.now(UTC) + timedelta(hours=1), rows=3)
    opened.repository.store(ahead.model_copy(update={"producer_id": "tracelake.gate.v1"}), opened.context("ahead"))
    assert latest_rows(opened) == 3


@pytest.mark.proves("M2.1")
def test_of_one_instant_the_greater_id_is_the_latest(opened: Opened) -> None:
    ids = [opened.repository.store(tally(rows=rows, check=f"c{rows}"), opened.context()).id for rows in range(5)]
    found = opened.repository.latest(ORDERS, "tally", opened.context())
    assert found is not None and found.id == max(id for id in ids if id is not None)
    history = [stored.id for stored in opened.repository.history(ORDERS, "tally", opened.context())]
    assert history == sorted((id for id in ids if id is not None), reverse=True)


@pytest.mark.proves("M2.1")
def test_kinds_do_not_shadow_each_other(opened: Opened) -> None:
    opened.repository.store(tally(rows=1), opened.context())
    opened.repository.store(note(NOON + HOUR, text="newer"), opened.context())
    assert latest_rows(opened) == 1
    found = opened.repository.latest(ORDERS, "note", opened.context())
    assert found is not None and found.record.payload == {"text": "newer"}
    assert opened.repository.latest(ORDERS, "recon_result", opened.context()) is None
    with pytest.raises(KindUnknown):
        opened.repository.latest(ORDERS, "../tally", opened.context())
    with pytest.raises(KindUnknown):
        opened.repository.history(ORDERS, "nobody_registered_it", opened.context())


def test_a_window_is_half_open_and_means_overlap(opened: Opened) -> None:
    days = [NOON + day * 24 * HOUR for day in range(4)]
    for start, end in pairwise(days):
        opened.repository.store(tally(NOON + 900 * HOUR, rows=start.day, window_start=start.isoformat(), window_end=end.isoformat()), opened.context())
    opened.repository.store(tally(days[1], rows=-1), opened.context("no window"))

    def found(start: datetime | None, end: datetime | None) -> set[int]:
        return {stored.record.payload["rows"] for stored in opened.repository.history(ORDERS, "tally", opened.context(), window=Window(start=start, end=end))}

    assert found(days[1], days[2]) == {18, -1}
    assert found(days[1] + timedelta(microseconds=1), days[2]) == {18}
    assert found(days[2], None) == {19}
    assert found(None, days[1]) == {17}
    assert found(None, days[1] + timedelta(microseconds=1)) == {17, 18, -1}


# Kinds
@pytest.mark.proves("M4.2")
def test_kinds_are_registered_versioned_and_checked_before(opened: Opened) -> None:
    repository = opened.repository
    assert repository.register(TALLY_1) == TALLY_1
    assert repository.register(TALLY_2, check_only=True).version == 2
    assert repository.kind("tally").version == 1
    assert repository.register(TALLY_2).version == 2
    assert (repository.kind("tally").version, repository.kind("tally", 1), repository.kind("tally", 2)) == (2, TALLY_1, TALLY_2)
    names = [kind.name for kind in repository.kinds()]
    assert names == sorted(names) and {"tally", "note", "recon_result", "task_run"} <= set(names)
    assert next(kind for kind in repository.kinds() if kind.name == "tally") == TALLY_2
    with pytest.raises(KindUnknown):
        repository.kind("tally", 3)
    with pytest.raises(KindConflict):
        repository.register(TALLY_2.model_copy(update={"description": "Something else."}))
    with pytest.raises(KindIncompatible):
        repository.register(TALLY_2.model_copy(update={"version": 3, "renames": {}, "json_schema": {**TALLY_2.json_schema, "required": ["rows", "check"]}}))
    with pytest.raises(KindConflict):
        repository.register(NOTE.model_copy(update={"name": "recon_result"}))


@pytest.mark.proves("M4.2")
def test_reads_use_the_newest_version_by_default(opened: Opened) -> None:
    repository, context = opened.repository, opened.context()
    repository.store(tally(rows=1, label="old"), opened.context("run-1"))
    opened.second().register(TALLY_2)
    repository.store(tally(NOON + HOUR, rows=2, title="new", unit="bytes"), opened.context("run-2"))
    repository.store(tally(NOON + 2 * HOUR, rows=3, label="older", version=1), opened.context("run-3"))
    newest = [(stored.record.payload, stored.kind_version) for stored in repository.query(RecordFilters(), context)]
    assert newest == [
        ({"rows": 3, "title": "older", "unit": "rows"}, 2), ({"rows": 2, "title": "new", "unit": "bytes"}, 2), ({"rows": 1, "title": "old", "unit": "rows"}, 2)
    ]  # fmt: skip
    as_told = [(stored.record.payload, stored.kind_version) for stored in repository.query(RecordFilters(kind_version=1), context)]
    assert as_told == [({"rows": 3, "label": "older"}, 1), ({"rows": 2, "title": "new", "unit": "bytes"}, 2), ({"rows": 1, "label": "old"}, 1)]
    assert [stored.record.payload for stored in tailed(repository, context, len(newest))] == [payload for payload, _ in reversed(newest)]
    found = repository.latest(ORDERS, "tally", context)
    assert found is not None and found.record.payload["title"] == "older"
    filters = RecordFilters.model_validate({"where": [{"path": "payload.title", "op": "in", "value": ["old", "older"]}]})
    assert len(repository.query(filters, context)) == 2
    assert repository.store(tally(rows=1, label="old", version=1), opened.context("run-1")).result == "same"


# Who asks
def test_another_tenants_context_is_refused_everywhere(opened: Opened) -> None:
    opened.repository.store(tally(), opened.context())
    stranger, repository = opened.context(tenant="somebody_else"), opened.repository
    asked: list[Callable[[], object]] = [
        lambda: repository.store(tally(rows=2), stranger), lambda: repository.bulk_store([tally(rows=2)], stranger),
        lambda: repository.latest(ORDERS, "tally", stranger), lambda: repository.history(ORDERS, "tally", stranger),
        lambda: repository.query(RecordFilters(), stranger), lambda: repository.aggregate(RecordFilters(), Aggregation(), stranger),
        lambda: repository.targets(stranger), lambda: repository.tail(stranger),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(TenantMismatch):
            ask()


@pytest.mark.parametrize("token", ["nonsense", "-1", "../../x", "99999999999999999999", "é", ""])
def test_a_page_or_an_offset_of_nowhere_is_refused(opened: Opened, token: str) -> None:
    opened.repository.store(tally(), opened.context())
    with pytest.raises(OffsetUnknown):
        opened.repository.query(RecordFilters(page=token), opened.context())
    with pytest.raises(OffsetUnknown):
        opened.repository.tail(opened.context(), token)


def test_an_empty_repository_answers(opened: Opened) -> None:
    repository, context = opened.repository, opened.context()
    assert repository.latest(ORDERS, "tally", context) is None
    assert (len(repository.query(RecordFilters(), context)), repository.targets(context)) == (0, [])
    [nothing] = repository.aggregate(RecordFilters(), Aggregation(), context)
    assert (nothing.value, nothing.records) == (0, 0)
    empty = repository.tail(context)
    repository.store(tally(), context)
    assert len(tailed(repository, context, 1, offset=empty.offset)) == 1


# Several at once
@pytest.mark.proves("M2.2")
def test_what_one_stored_the_next_question_to_another_sees(opened: Opened) -> None:
    one, other = opened.repository, opened.second()
    for number in range(5):
        one.store(tally(NOON + number * HOUR, rows=number), opened.context(f"run-{number}"))
        assert latest_rows(opened, other) == number
        other.store(tally(NOON + number * HOUR + HOUR / 2, rows=number + 100), opened.context(f"other-{number}"))
        assert latest_rows(opened, one) == number + 100
        assert len(one.query(RecordFilters(), opened.context())) == len(other.query(RecordFilters(), opened.context())) == 2 * number + 2
    assert other.store(tally(NOON, rows=0), opened.context("run-0")).result == "same"


@pytest.mark.proves("M1.4", "M2.5")
def test_of_writers_that_race_exactly_one_stores_and_a_tailer_gets_each_once(opened: Opened) -> None:
    writers, rounds = 4, size(15, 150)
    together = threading.Barrier(writers)
    outcomes: list[list[str]] = [[] for _ in range(writers)]

    def write(number: int) -> None:
        repository = opened.second()
        for turn in range(rounds):
            together.wait(60)
            try:  # half of them tell the same, the others something else
                outcomes[number].append(repository.store(tally(rows=number % 2, check=f"c{turn}"), opened.context()).result)
            except RecordConflict:
                outcomes[number].append("conflict")
            repository.bulk_store([tally(NOON + turn * HOUR, check=f"own-{number}-{turn}")], opened.context())

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    reader, offset, seen = opened.second(), None, []
    while any(thread.is_alive() for thread in threads):
        page = reader.tail(opened.context(), offset, limit=7)
        seen += [stored.id for stored in page.items]
        offset = page.offset
    for results in zip(*outcomes, strict=True):
        assert sorted(results) == ["conflict", "conflict", "same", "stored"]
    stored = [stored.id for stored in opened.repository.query(RecordFilters(limit=10_000), opened.context())]
    assert len(stored) == rounds * (writers + 1)
    seen += [stored.id for stored in tailed(reader, opened.context(), len(stored) - len(seen), offset=offset, limit=7)]
    assert sorted(seen) == sorted(stored)


# What is emitted comes back
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20) | st.sampled_from([1.0, -0.0, 1e16, 1e-7, 5e-324, 2**63, "\u2028\u2029\\\"", "🐢"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.proves("M2.1")
def test_a_payload_comes_back_unchanged(opened: Opened, implementation: str) -> None:
    examples = size(15, 150) if implementation.endswith("S3") else size(60, 1000)
    numbers = iter(range(10**9))

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8), json_values, max_size=4))
    def comes_back(payload: dict[str, Any]) -> None:
        try:
            emitted = note(NOON + timedelta(seconds=next(numbers)), emitted=payload)
        except ValueError:
            return  # not JSON that can be carried
        result = opened.repository.store(emitted, opened.context(None))
        found = opened.repository.latest(ORDERS, "note", opened.context())
        assert found is not None and found.id == result.id
        assert json.dumps(found.record.payload, sort_keys=True) == json.dumps(emitted.payload, sort_keys=True)
        assert found.record.payload == emitted.payload

    comes_back()


def test_errors_are_the_products_own(opened: Opened) -> None:
    """Whatever is wrong, the caller catches one class."""
    for ask in (lambda: opened.repository.kind("nobody"), lambda: opened.repository.tail(opened.context(), "x")):
        with pytest.raises(TracelakeError):
            ask()
