"""What a DAG's models say by themselves: which events an edge passes, what operators take, and how refusals travel."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from tracelake_sdk.dags import COLUMN, Activation, InputSpec, JobOutput, JobSpec, NamedDataset, PartitionSpec, Runtime, WhereSpec, passes
from tracelake_sdk.dags.operators import (
    OPERATORS,
    Count,
    EmitConfig,
    EmitRequest,
    NoopConfig,
    RangeAggregatorConfig,
    RangeSplitterConfig,
)
from tracelake_sdk.datasets.cursors import CursorType, parse_duration, spell_duration
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, Scope
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors import dags as dag_errors
from tracelake_sdk.errors.dags import DagInvalid


def _where(**keys: Any) -> WhereSpec:
    return WhereSpec.model_validate(keys)


NOON = "2024-01-10T12:00:00Z"
ONE = "2024-01-10T13:00:00Z"


@pytest.mark.parametrize(("where", "scope", "passed"), [
    (_where(partition=["a", "b"]), PartitionScope(key="a"), True),
    (_where(partition=["a", "b"]), PartitionScope(key="c"), False),
    (_where(cursor={"min": 10}), CursorScope(value=9), False),
    (_where(cursor={"min": 10}), CursorScope(value=10), True),
    (_where(cursor={"below": 10}), CursorScope(value=9), True),
    (_where(cursor={"below": 10}), CursorScope(value=10), False),
    (_where(cursor={"min": 10, "below": 20}), RangeScope(start=0, end=10), False),
    (_where(cursor={"min": 10, "below": 20}), RangeScope(start=0, end=11), True),
    (_where(cursor={"min": 10, "below": 20}), RangeScope(start=12, end=13), True),
    (_where(cursor={"min": 10, "below": 20}), RangeScope(start=19, end=99), True),
    (_where(cursor={"min": 10, "below": 20}), RangeScope(start=20, end=99), False),
    (_where(cursor={"min": NOON}), CursorScope(value=NOON), True),  # pyright: ignore[reportArgumentType]
    (_where(cursor={"below": NOON}), CursorScope(value=NOON), False),  # pyright: ignore[reportArgumentType]
    (_where(cursor={"below": NOON}), RangeScope(start=NOON, end=ONE), False),  # pyright: ignore[reportArgumentType]
])
def test_an_edge_passes_what_its_where_names(where: WhereSpec, scope: Scope, passed: bool) -> None:
    assert passes(where, scope) is passed


@pytest.mark.parametrize(("where", "scope"), [
    (None, CursorScope(value=1)),
    (_where(partition=["a"]), FullScope()),
    (_where(partition=["a"]), CursorScope(value=1)),
    (_where(partition=["a"]), RangeScope(start=1, end=2)),
    (_where(cursor={"min": 10}), FullScope()),
    (_where(cursor={"min": 10}), PartitionScope(key="1")),
    (_where(cursor={"min": NOON}), CursorScope(value=1)),
    (_where(cursor={"below": 0}), RangeScope(start=NOON, end=ONE)),  # pyright: ignore[reportArgumentType]
])
def test_a_where_that_cannot_judge_a_scope_passes_it(where: WhereSpec | None, scope: Scope) -> None:
    assert passes(where, scope)


@pytest.mark.parametrize("where", [
    {}, {"partition": []}, {"partition": ["a"], "cursor": {"min": 1}}, {"cursor": {}}, {"cursor": {"min": 2, "below": 2}}, {"cursor": {"min": 1, "below": NOON}},
    {"sql": "a > 1"}, {"cursor": {"min": 1.5}}, {"cursor": {"min": "2024-01-10T12:00:00"}},
])
def test_a_where_is_one_typed_condition(where: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WhereSpec.model_validate(where)


def test_an_input_reads_as_from_on_the_wire() -> None:
    of_job = InputSpec.model_validate({"from": {"job": "a", "output": 1}})
    of_dataset = InputSpec(reads=NamedDataset(dataset="orders"), trigger=False)
    assert of_job.reads == JobOutput(job="a", output=1)
    assert of_job.trigger
    assert of_dataset.model_dump(mode="json") == {"from": {"dataset": "orders"}, "trigger": False, "where": None}


@pytest.mark.proves("T4.1")
@pytest.mark.parametrize("name", ["", "A", "1a", "a-b", "a b", "a" * 129, "ä", "a\n", "_a"])
def test_a_name_is_plain(name: str) -> None:
    with pytest.raises(ValidationError):
        NamedDataset(dataset=name)


def test_a_name_may_be_128_characters_long() -> None:
    assert NamedDataset(dataset="a" * 128).dataset == "a" * 128


def test_a_job_survives_the_wire() -> None:
    job = JobSpec.model_validate({
        "name": "a", "activation": "reactive", "runtime": "dispatcher", "operator": "noop",
        "inputs": [{"from": {"job": "b", "output": 0}, "where": {"cursor": {"min": NOON}}}],
    })
    assert JobSpec.model_validate_json(job.model_dump_json()) == job


@pytest.mark.parametrize(("text", "duration", "spelled"), [
    ("30s", timedelta(seconds=30), "30s"), ("90s", timedelta(seconds=90), "90s"), ("15m", timedelta(minutes=15), "15m"), ("60m", timedelta(hours=1), "1h"),
    ("24h", timedelta(days=1), "1d"), ("14d", timedelta(weeks=2), "2w"), ("1w", timedelta(weeks=1), "1w"),
])
def test_a_duration_has_one_spelling(text: str, duration: timedelta, spelled: str) -> None:
    assert parse_duration(text) == duration
    assert spell_duration(duration) == spelled
    assert parse_duration(spelled) == duration


@pytest.mark.parametrize("text", ["", "1", "m", "0m", "-1m", "1.5h", "1h30m", "1H", " 1h", "1h\n", "999999999w", "1y", "٣m"])
def test_a_duration_is_a_number_and_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is"):
        parse_duration(text)


def test_operators_are_found_by_runtime_and_name() -> None:
    assert sorted(OPERATORS) == [*(("dispatcher", name) for name in ("emit", "noop", "range_aggregator", "range_splitter")), ("spark", "ingest_files"), ("spark", "sql")]
    for (runtime, name), operator in OPERATORS.items():
        assert (operator.runtime, operator.name) == (runtime, name)
        assert operator.writes_files == (operator.runtime is Runtime.SPARK)
        assert (operator.request is not None) == (Activation.SOURCE in operator.activations)


@pytest.mark.proves("T9.1")
def test_what_keeps_state_and_every_source_with_a_cursor_keeps_order() -> None:
    assert {name for (_, name), operator in OPERATORS.items() if operator.keeps_state} == {"range_aggregator", "ingest_files"}
    assert {name for (_, name), operator in OPERATORS.items() if operator.ordered} == {"emit", "range_aggregator", "ingest_files"}


def test_every_config_key_says_what_it_takes() -> None:
    for operator in OPERATORS.values():
        for key, field in operator.config.model_fields.items():
            assert field.description, f"{operator.name}: {key}"


@pytest.mark.parametrize(("given", "full"), [
    ({"column": "country"}, {"column": "country", "cursor": None, "range_size": None, "origin": None}),
    ({"column": "id", "cursor": "integer"}, {"column": "id", "cursor": "integer", "range_size": None, "origin": None}),
    ({"column": "id", "cursor": "integer", "range_size": 1000}, {"column": "id", "cursor": "integer", "range_size": 1000, "origin": 0}),
    ({"column": "id", "cursor": "integer", "range_size": 1000, "origin": -5}, {"column": "id", "cursor": "integer", "range_size": 1000, "origin": -5}),
    ({"column": "at", "cursor": "timestamp", "range_size": "24h"}, {"column": "at", "cursor": "timestamp", "range_size": "1d", "origin": "1970-01-01T00:00:00Z"}),
    ({"column": "at", "cursor": "timestamp", "range_size": "1d", "origin": NOON}, {"column": "at", "cursor": "timestamp", "range_size": "1d", "origin": NOON}),
])
def test_what_an_output_is_cut_by_is_spelled_in_full(given: dict[str, Any], full: dict[str, Any]) -> None:
    spec = PartitionSpec.model_validate(given)
    assert spec.model_dump(mode="json") == full
    assert PartitionSpec.model_validate_json(spec.model_dump_json()) == spec
    assert PartitionSpec.model_validate(spec.model_dump()) == spec


@pytest.mark.parametrize(("given", "key", "sentence"), [
    ({"column": "id", "range_size": 10}, "range_size", "needs a `cursor`"),
    ({"column": "id", "origin": 10}, "origin", "needs a `cursor`"),
    ({"column": "id", "cursor": "integer", "origin": 10}, "origin", "needs a `range_size`"),
    ({"column": "id", "cursor": "integer", "range_size": "1d"}, "range_size", "a size is a whole number"),
    ({"column": "id", "cursor": "integer", "range_size": 0}, "range_size", "a size is a whole number"),
    ({"column": "at", "cursor": "timestamp", "range_size": 5}, "range_size", "a size is a duration"),
    ({"column": "at", "cursor": "timestamp", "range_size": "1d", "origin": 0}, "origin", "not a valid timestamp cursor"),
    ({"column": "id", "cursor": "integer", "range_size": 5, "origin": NOON}, "origin", "not a valid integer cursor"),
    ({"column": "id", "cursor": "text", "range_size": 5, "origin": NOON}, "cursor", "'integer' or 'timestamp'"),
    ({"column": "a b"}, "column", "without blanks"),
    ({"column": ""}, "column", "1 to 255 characters"),
])
def test_what_an_output_is_cut_by_must_fit_together(given: dict[str, Any], key: str, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PartitionSpec.model_validate(given)
    [problem] = caught.value.errors()
    assert problem["loc"] == (key,)
    assert sentence in problem["msg"]


@pytest.mark.parametrize("column", ["a b", "a,b", "a;b", "{a}", "f(a)", "a=b", "a.b", "`a`", "'a'", '"a"', "a\\b", "a\tb", "a\nb", "a\u00a0b", "a\x00b", "", "x" * 256])
def test_odd_columns_are_no_key(column: str) -> None:
    assert COLUMN.fullmatch(column) is None


@pytest.mark.parametrize("column", ["order_id", "Bestellnummer-ü", "日付", "id#", "a:b", "*", "x" * 255])
def test_other_columns_may_be(column: str) -> None:
    assert COLUMN.fullmatch(column)


@pytest.mark.proves("T9.1")
def test_an_aggregators_config_is_spelled_in_full() -> None:
    numbers = RangeAggregatorConfig.model_validate({"cursor": "integer", "range_size": 100})
    times = RangeAggregatorConfig.model_validate({"cursor": "timestamp", "range_size": "60m"})
    assert (numbers.range_size, numbers.origin) == (100, 0)
    assert (times.range_size, times.origin) == (timedelta(hours=1), datetime(1970, 1, 1, tzinfo=UTC))
    assert times.model_dump(mode="json") == {"cursor": "timestamp", "range_size": "1h", "origin": "1970-01-01T00:00:00Z"}
    assert RangeAggregatorConfig.model_validate(times.model_dump()) == times
    assert RangeAggregatorConfig.model_validate(times.model_dump(mode="json")) == times


@pytest.mark.parametrize("config", [
    {"cursor": "integer", "range_size": "1h"}, {"cursor": "integer", "range_size": 0}, {"cursor": "integer", "range_size": True},
    {"cursor": "integer", "range_size": 2**63}, {"cursor": "integer", "range_size": 1.0},
    {"cursor": "timestamp", "range_size": 60}, {"cursor": "timestamp", "range_size": "60"}, {"cursor": "integer"}, {"range_size": 1},
    {"cursor": "integer", "range_size": 1, "origin": NOON}, {"cursor": "timestamp", "range_size": "1h", "origin": 0},
    {"cursor": "timestamp", "range_size": "1h", "origin": "2024-01-10"}, {"cursor": "timestamp", "range_size": "1h", "origin": "0001-01-01T00:00:00+01:00"},
    {"cursor": "integer", "range_size": 1, "origins": 0}, {"cursor": "integer", "range_size": 1, "origin": None},
])
def test_an_aggregators_config_fits_its_cursor(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        RangeAggregatorConfig.model_validate(config)


def test_the_other_configs_take_just_what_they_need() -> None:
    assert EmitConfig.model_validate({"cursor": "timestamp"}).cursor is CursorType.TIMESTAMP
    assert RangeSplitterConfig.model_validate({"cursor": "timestamp", "chunk_size": "15m"}).chunk_size == timedelta(minutes=15)
    for model, config in ((EmitConfig, {}), (EmitConfig, {"cursor": "text"}), (NoopConfig, {"a": 1}), (RangeSplitterConfig, {"cursor": "integer", "chunk_size": 0})):
        with pytest.raises(ValidationError):
            model.model_validate(config)


def test_a_cursor_fits_one_type() -> None:
    noon = datetime(2024, 1, 10, 12, tzinfo=UTC)
    assert CursorType.INTEGER.fits(1) and not CursorType.INTEGER.fits(noon)
    assert CursorType.TIMESTAMP.fits(noon) and not CursorType.TIMESTAMP.fits(1)


def test_an_emit_request_names_cursors_of_one_kind() -> None:
    assert EmitRequest.model_validate({"cursors": [3, 1, 3]}).cursors == [3, 1, 3]
    assert EmitRequest.model_validate({"cursors": [NOON]}).cursors == [datetime(2024, 1, 10, 12, tzinfo=UTC)]
    for cursors in ([], [1, NOON], ["1"], [1.5], [True], list(range(10_001))):
        with pytest.raises(ValidationError):
            EmitRequest.model_validate({"cursors": cursors})


def test_a_count_reads_as_a_phrase() -> None:
    assert [str(count) for count in (Count(0, 0), Count(1, 1), Count(0, 1), Count(2, None))] == ["no", "exactly 1", "0 to 1", "at least 2"]
    assert Count(1, 2).allows(2) and not Count(1, 2).allows(3) and not Count(1, None).allows(0)


REFUSALS = [kind for kind in vars(dag_errors).values() if isinstance(kind, type) and issubclass(kind, DagInvalid)]


@pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.code)
def test_a_refusal_names_place_and_remedy_and_survives_the_wire(kind: type[DagInvalid]) -> None:
    error = kind.at("jobs[1].name", 7, "it is wrong", "Make it right")
    again = TracelakeError.of(error.problem())
    assert type(again) is kind
    assert again.detail == "line 7, jobs[1].name: it is wrong. Make it right."
    assert again.extra == {"place": "jobs[1].name", "line": 7, "remedy": "Make it right."}
    assert kind.status == 422
    assert ";" in (kind.__doc__ or ""), "says what to do"
