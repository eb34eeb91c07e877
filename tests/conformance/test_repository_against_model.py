"""For any records and queries in any order, every repository gives the same answers as a plain list."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.record_model import NOTE, TALLY_1, TALLY_2, RecordModel, same_record
from support.repositories import Fresh, Opened, tailed
from support.sizes import seeded, size

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RecordConflict
from tracelake_sdk.records import (
    Aggregation,
    MetadataContext,
    MetadataRecord,
    MetadataTarget,
    PathFilter,
    Quality,
    RecordFilters,
    StoreResult,
    Window,
)

DAY = datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC)
MOMENTS = [DAY + timedelta(hours=hours, microseconds=hours % 2) for hours in (-30, -2, -1, 0, 1, 2, 30)]
# What file names, glob patterns, quoting and case-blind disks would take for one another.
TARGETS = [
    ("erp", "sales", "orders"), ("erp", "sales", "Orders"), ("ERP", "sales", "orders"), ("a.b", "c", "d"), ("a", "b.c", "d"), ("a", "b", "c.d"),
    ("../..", "etc", "passwd"), ("/", "..", "."), ("x" * 500, "x" * 499, "x" * 498), ("x" * 500, "x" * 499, "x" * 497), ("żółw 🐢", "é", "e\u0301"),
    ("a\nb", "*?[x]", "%s'\";--"), ("%2e%2e", "a\\b", " "),
]  # fmt: skip

targets = st.sampled_from([*TARGETS[:2] * 6, *TARGETS]).map(lambda key: MetadataTarget(source_id=key[0], schema=key[1], table=key[2]))
moments = st.sampled_from(MOMENTS)
spelt = moments.map(lambda moment: moment.isoformat())
ROWS = [0, 1, 1.0, 2, 0.5, -3, "7", "é", True, None]
rows = st.sampled_from(ROWS)
measured = st.fixed_dictionaries(
    {"rows": rows},
    optional={
        "check": st.sampled_from(["count", "sum"]), "group": st.sampled_from([None, "a", "b"]), "window_start": spelt, "window_end": spelt,
        "slice_filter": st.sampled_from([[], [["day", "=", 1]]]), "nested": st.sampled_from([{"deep": [1, {"x": 1e16}]}, {"deep": []}, {"a.b": 1}]),
    },
)  # fmt: skip
# What both versions of the kind have, what one of them has, and now and then what none has.
tallies = st.builds(
    lambda payload, more: payload | more,
    measured, st.sampled_from([*[{}] * 6, {"label": "l"}, {"label": "m"}, {"title": "t"}, {"unit": "rows"}, {"title": "t", "unit": "bytes"}, {"unknown": 1}]),
)  # fmt: skip
notes = st.dictionaries(st.sampled_from(["rows", "text", "nested"]), rows | st.lists(rows, max_size=2), max_size=3)
extras = st.sampled_from([{}, {"source": "x"}, {"dataset": {"version": 3}, "rows": 1}])


@st.composite
def records(draw: st.DrawFn) -> MetadataRecord:
    kind = draw(st.sampled_from([*["tally"] * 7, *["note"] * 3, "nobody_registered_it"]))
    return MetadataRecord(
        target=draw(targets), kind=kind, payload=draw(notes if kind == "note" else tallies), produced_at=draw(moments),
        producer_id=draw(st.sampled_from(["loader.v1", "loader.v2"])), version=draw(st.sampled_from([*[None] * 8, 1, 2] if kind == "tally" else [None])),
        quality=draw(st.sampled_from([None, *Quality])), extras=dict(draw(extras)),
    )  # fmt: skip


contexts = st.fixed_dictionaries({
    "run_id": st.sampled_from([None, "run-1", "run-1-2", "../run", "🐢" * 200]), "job_id": st.sampled_from([None, "job"]),
    "cluster": st.sampled_from(["c1", "c2"]), "namespace": st.sampled_from([None, "n1"]),
})  # fmt: skip
steps = st.one_of(
    st.tuples(st.just("store"), records(), contexts),
    st.tuples(st.just("store"), records(), contexts),
    st.tuples(st.just("bulk"), st.lists(records(), min_size=4, max_size=12), contexts),
    st.tuples(st.just("again"), st.integers(0, 50), moments),
    st.tuples(st.just("evolve"), st.none(), st.none()),
)
sides = st.none() | moments
windows = st.tuples(sides, sides).filter(lambda sides: sides[0] is None or sides[1] is None or sides[0] < sides[1]).map(
    lambda sides: Window(start=sides[0], end=sides[1])
)
paths = st.sampled_from([
    *["payload.rows"] * 4, "payload.title", "payload.label", "payload.unit", "payload.nested.deep.1.x", "payload.nested.deep.0", "extras.dataset.version",
    "extras.window_start", "context.cluster", "context.run_id", "target.table", "payload.group", "payload.nowhere",
])  # fmt: skip
conditions = st.one_of(
    st.builds(lambda path, value: PathFilter(path=path, op="exists", value=value), paths, st.booleans()),
    st.builds(lambda path, op, value: PathFilter(path=path, op=op, value=value), paths, st.sampled_from(["eq", "ne"]), rows | st.sampled_from(["c1", "l", "rows", 3])),
    st.builds(lambda path, value: PathFilter(path=path, op="in", value=value), paths, st.lists(rows, max_size=3)),
    st.builds(
        lambda path, op, value: PathFilter(path=path, op=op, value=value), paths, st.sampled_from(["lt", "le", "gt", "ge"]), st.sampled_from([0, 1, 1.0, 2.5, "c1", "é", "7"])
    ),
)


@st.composite
def filters(draw: st.DrawFn) -> RecordFilters:
    maybe: dict[str, Any] = {
        "kinds": st.lists(st.sampled_from(["tally", "note", "recon_result"]), max_size=2), "producer_id": st.sampled_from(["loader.v1", "nobody.v1"]),
        "job_id": st.just("job"), "run_id": st.sampled_from(["run-1", "../run"]), "namespace": st.just("n1"), "cluster": st.just("c2"),
        "workspace": st.sampled_from(["w1", "w2"]), "quality": st.sampled_from(list(Quality)), "window": windows, "produced": windows,
        "where": st.lists(conditions, min_size=1, max_size=2), "kind_version": st.sampled_from([1, 2]),
    }  # fmt: skip
    chosen = draw(st.lists(st.sampled_from([*sorted(maybe), "window", "produced", "where", "where"]), max_size=2))
    narrowed = {name: draw(maybe[name]) for name in chosen}
    if draw(st.integers(0, 3)) == 0:
        target = draw(targets)
        parts = {"source_id": target.source_id, "schema": target.schema_name, "table": target.table}
        narrowed |= {name: parts[name] for name in draw(st.lists(st.sampled_from(sorted(parts)), unique=True))}
    return RecordFilters(**narrowed, limit=draw(st.sampled_from([1, 2, 3, 10_000])))


groups = st.lists(st.sampled_from(["kind", "target", "producer_id", "day", "payload.group", "extras.dataset.version", "context.run_id"]), max_size=2, unique=True)
aggregations = st.one_of(
    st.builds(lambda group: Aggregation(group_by=group), groups),
    st.builds(
        lambda metric, path, group: Aggregation(metric=metric, path=path, group_by=group),
        st.sampled_from(["sum", "avg", "min", "max"]), st.sampled_from(["payload.rows", "extras.rows", "payload.nowhere"]), groups,
    ),
)  # fmt: skip

EXAMPLES = {"memory": (50, 1000), "embedded": (60, 1000), "embedded on S3": (10, 100), "postgres": (15, 400), "remote": (10, 200)}


@pytest.mark.proves("M1.1", "M1.4", "M2.1", "M2.5", "M4.2")
def test_it_answers_like_a_list_that_is_looked_through(fresh: Fresh, implementation: str) -> None:
    most = {"deadline": None, "max_examples": size(*EXAMPLES[implementation]), "suppress_health_check": list(HealthCheck)}

    @settings(**most)
    @given(st.lists(steps, max_size=12), st.lists(filters(), min_size=4, max_size=8), aggregations, st.integers(1, 5))
    def answers(emitted: list[tuple[str, Any, Any]], asked: list[RecordFilters], aggregation: Aggregation, page: int) -> None:
        opened = fresh()
        for kind in (TALLY_1, NOTE):
            opened.repository.register(kind)
        model = RecordModel()
        seen: list[Any] = []
        offset = None
        for number, step in enumerate(emitted):
            _take(opened, model, step)
            if number % 3 == 0:
                found = opened.repository.tail(opened.context(), offset, limit=page)
                seen += [stored.id for stored in found.items]
                offset = found.offset
        _reads_agree(opened, model, asked, aggregation)
        _tail_agrees(opened, model, seen, offset, page)

    answers()


def _many(number: int) -> list[tuple[MetadataRecord, dict[str, Any]]]:
    """Records in which every filter finds something and leaves something out."""
    random = seeded()
    emitted: list[tuple[MetadataRecord, dict[str, Any]]] = []
    for place in range(number):
        start, end = sorted(random.sample(MOMENTS, 2))
        window = random.choice([{}, {"window_start": start.isoformat()}, {"window_end": end.isoformat()}, {"window_start": start.isoformat(), "window_end": end.isoformat()}])
        more = random.choice([{}, {}, {"label": "l"}, {"nested": {"deep": [random.choice([0, 1, "7"]), {"x": 1e16}]}}, {"group": random.choice([None, "a"])}])
        source_id, schema, table = random.choice(TARGETS)
        record = MetadataRecord(
            target=MetadataTarget(source_id=source_id, schema=schema, table=table), kind=random.choice(["tally", "tally", "note"]),
            payload={"rows": random.choice(ROWS), "check": f"c{place}", **window, **more}, produced_at=random.choice(MOMENTS),
            producer_id=random.choice(["loader.v1", "loader.v2"]), quality=random.choice([None, *Quality]), extras=random.choice([{}, {"dataset": {"version": 3}}, {"rows": 2}]),
        )  # fmt: skip
        context = {"run_id": random.choice([None, "run-1", "../run"]), "job_id": random.choice([None, "job"]), "cluster": random.choice(["c1", "c2"])}
        emitted.append((record, context | {"namespace": random.choice([None, "n1"]), "workspace": random.choice(["w1", "w2"])}))
    return emitted


def _every_filter() -> list[dict[str, Any]]:
    spans = [{"start": start, "end": end} for start in (None, *MOMENTS) for end in (None, *MOMENTS) if start is None or end is None or start < end]
    asked: list[dict[str, Any]] = [{"window": span} for span in spans] + [{"produced": span} for span in spans]
    asked += [{"source_id": a, "schema": b, "table": c} for a, b, c in TARGETS] + [{"source_id": "erp"}, {"schema": "sales"}, {"table": "orders"}, {"table": "d"}]
    asked += [{"kinds": kinds} for kinds in (["tally"], ["note"], ["tally", "note"], ["recon_result"])] + [{"quality": quality} for quality in Quality]
    named = {"run_id": ["run-1", "../run", "x"], "job_id": ["job"], "namespace": ["n1"], "cluster": ["c2"], "workspace": ["w2"], "producer_id": ["loader.v2", "x.v1"]}
    asked += [{name: value} for name, values in named.items() for value in values]
    paths = ["payload.rows", "payload.title", "payload.label", "payload.unit", "payload.nested.deep.0", "payload.group", "extras.rows", "context.run_id", "target.table"]
    for path in paths:
        asked += [{"where": [{"path": path, "op": "exists", "value": value}]} for value in (True, False)]
        asked += [{"where": [{"path": path, "op": op, "value": value}]} for op in ("eq", "ne") for value in (0, 1, 1.0, "7", True, None, "é", "l", "rows", "a", "run-1", "d")]
        asked += [{"where": [{"path": path, "op": op, "value": value}]} for op in ("lt", "le", "gt", "ge") for value in (0, 1, 0.5, "7", "a", "é")]
        asked += [{"where": [{"path": path, "op": "in", "value": value}]} for value in ([], [1, "7"], [None, True], ["rows", "l", 2])]
    versions = [filters | {"kind_version": 1} for filters in asked if "payload" in str(filters)]
    return asked + versions


@pytest.mark.proves("M2.1", "M4.2")
def test_every_filter_alone_chooses_what_the_list_would(fresh: Fresh, implementation: str) -> None:
    opened, model = fresh(), RecordModel()
    for kind in (TALLY_1, NOTE):
        opened.repository.register(kind)
    for record, emitted in _many(size(60, 150)):
        _take(opened, model, ("store", record, emitted))
    _take(opened, model, ("evolve", None, None))
    strides = {"memory": 2, "embedded": 2, "postgres": 4, "remote": 8, "embedded on S3": 14}
    asked = _every_filter()[:: size(strides[implementation], 1)]
    answers = 0
    for narrowed in asked:
        filters = RecordFilters.model_validate({**narrowed, "limit": 10_000})
        expected = model.query(filters)
        found = opened.repository.query(filters, opened.context())
        assert [stored.id for stored in found] == [known.id for known in expected], narrowed
        for stored, known in zip(found, expected, strict=True):
            same_record(stored, known, model, filters.kind_version)
        answers += 0 < len(expected) < len(model.emitted)
    assert answers > len(asked) // 6


def _take(opened: Opened, model: RecordModel, step: tuple[str, Any, Any]) -> None:
    match step:
        case "store", MetadataRecord() as record, emitted:
            context = opened.context(**emitted)
            _check(model, record, context, _stored(opened, record, context))
        case "bulk", list() as records, emitted:
            context = opened.context(**emitted)
            for record, result in zip(records, opened.repository.bulk_store(records, context), strict=True):
                _check(model, record, context, result)
        case "again", int() as number, datetime() as moment:
            if model.emitted:  # a record that is known, emitted at another time
                known = model.emitted[number % len(model.emitted)]
                record = known.record.model_copy(update={"produced_at": moment})
                _check(model, record, known.context, _stored(opened, record, known.context))
        case _:
            opened.second().register(TALLY_2)
            model.newest["tally"] = 2


def _stored(opened: Opened, record: MetadataRecord, context: MetadataContext) -> StoreResult:
    try:
        return opened.repository.store(record, context)
    except RecordConflict as conflict:
        return StoreResult(result="conflict", id=conflict.extra["stored_id"], problem=conflict.problem())
    except TracelakeError as error:
        return StoreResult(result="refused", problem=error.problem())


def _check(model: RecordModel, record: MetadataRecord, context: MetadataContext, result: StoreResult) -> None:
    expected, in_its_way = model.expected(record, context)
    assert result.result == expected, result.problem
    match expected:
        case "stored":
            assert result.id is not None and result.problem is None
            model.accept(result.id, record, context)
        case "refused":
            assert result.id is None and result.problem is not None and result.problem["code"] in ("kind_unknown", "record_refused")
        case _:
            assert result.id == in_its_way
            assert (result.problem is None) == (expected == "same")


def _reads_agree(opened: Opened, model: RecordModel, asked: list[RecordFilters], aggregation: Aggregation) -> None:
    repository, context = opened.repository, opened.context()
    assert [target.key for target in repository.targets(context)] == sorted({known.record.target.key for known in model.emitted})
    for kind in ("tally", "note"):
        keys = sorted({known.record.target.key for known in model.emitted if known.record.kind == kind})
        assert [target.key for target in repository.targets(context, kind)] == keys
        for source_id, schema, table in keys:
            found, known = repository.latest(MetadataTarget(source_id=source_id, schema=schema, table=table), kind, context), model.latest((source_id, schema, table), kind)
            assert found is not None and known is not None
            same_record(found, known, model)
    for wanted in asked:
        expected = model.query(wanted)
        items, question = [], wanted
        while True:
            page = repository.query(question, context)
            assert len(page) <= wanted.limit
            items += page.items
            if page.next is None:
                break
            assert len(page) == wanted.limit
            question = wanted.model_copy(update={"page": page.next})
        assert [stored.id for stored in items] == [known.id for known in expected]
        for stored, known in zip(items, expected, strict=True):
            same_record(stored, known, model, wanted.kind_version)
        values = [(found.group, found.value, found.records) for found in repository.aggregate(wanted, aggregation, context)]
        assert values == model.aggregate(wanted, aggregation)


def _tail_agrees(opened: Opened, model: RecordModel, seen: list[Any], offset: str | None, page: int) -> None:
    """Another process reads on where the first one stood; each record once, in the order in which they were accepted."""
    repository = opened.second()
    seen += [stored.id for stored in tailed(repository, opened.context(), len(model.emitted) - len(seen), offset=offset, limit=page)]
    assert seen == [known.id for known in model.emitted]
    notes = [stored.id for stored in repository.tail(opened.context(), kinds=["note"]).items]
    assert notes == [known.id for known in model.emitted if known.record.kind == "note"]
