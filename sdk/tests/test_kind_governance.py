"""Kinds: what may be registered, which changes are refused by name, and that what was admitted keeps its promise."""

from datetime import UTC, datetime
from random import Random
from typing import Any
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.kind_schemas import changed, instance, random_object
from support.sizes import size

from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import KindConflict, KindIncompatible, KindInvalid
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, StoredRecord
from tracelake_sdk.records.kinds import Compatibility, Kind
from tracelake_sdk.records.kinds.builtin import builtin_kinds
from tracelake_sdk.records.kinds.compatibility import NAMES
from tracelake_sdk.records.kinds.governance import admit, upcast

Schema = dict[str, Any]


def _kind(schema: Schema, version: int = 1, **more: Any) -> Kind:
    return Kind(name="shipment", version=version, schema=schema, owner="logistics", description="One shipment.", **more)


def _closed(required: list[str] | None = None, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": required or [], "additionalProperties": False}


def _field(schema: Schema) -> Schema:
    return _closed(x=schema)


def _stored(payload: dict[str, Any], version: int = 1) -> StoredRecord:
    record = MetadataRecord(
        target=MetadataTarget(source_id="erp", schema="sales", table="shipment"), kind="shipment", payload=payload,
        produced_at=datetime(2026, 3, 1, tzinfo=UTC), producer_id="loader.v1",
    )
    return StoredRecord(id=UUID(int=1), record=record, context=MetadataContext(cluster="c", workspace="w", tenant="main"), stored_at=record.produced_at, kind_version=version)


def _codes(error: TracelakeError) -> set[str]:
    return {finding["code"] for finding in error.extra["findings"]}


TEXT, NUMBER = {"type": "string"}, {"type": "number"}
# A schema, one that admits less, the path of the difference, and what the change from the first to the second is called.
NARROWER: list[tuple[str, str, Schema, Schema]] = [
    ("type", "payload.x", _field(TEXT | {"type": ["string", "null"]}), _field(TEXT)),
    ("type", "payload.x", _field(NUMBER), _field({"type": "integer"})),
    ("type", "payload.x", _field({}), _field(TEXT)),
    ("type", "payload.x.[]", _field({"type": "array"}), _field({"type": "array", "items": TEXT})),
    ("type", "payload.x.[]", _field({"type": "array", "items": {"type": ["integer", "string"]}}), _field({"type": "array", "items": TEXT})),
    ("type", "payload.x.*", _field({"type": "object", "additionalProperties": NUMBER | {"type": ["number", "null"]}}), _field({"type": "object", "additionalProperties": NUMBER})),
    ("value", "payload.x", _field({"enum": ["a", "b"]}), _field({"enum": ["a"]})),
    ("value", "payload.x", _field({"enum": ["a", "b"]}), _field({"const": "a"})),
    ("value", "payload.x", _field({"type": "boolean"}), _field({"const": True})),
    ("value", "payload.x", _field({"type": ["boolean", "null"]}), _field({"type": "boolean"})),
    ("enum", "payload.x", _field(TEXT), _field(TEXT | {"enum": ["a"]})),
    ("enum", "payload.x", _field(TEXT), _field({"const": "a"})),
    ("minimum", "payload.x", _field(NUMBER), _field(NUMBER | {"minimum": 0})),
    ("minimum", "payload.x", _field(NUMBER | {"minimum": 0}), _field(NUMBER | {"minimum": 1})),
    ("minimum", "payload.x", _field(NUMBER | {"minimum": 0}), _field(NUMBER | {"exclusiveMinimum": 0})),
    ("maximum", "payload.x", _field(NUMBER | {"maximum": 10}), _field(NUMBER | {"maximum": 9})),
    ("maximum", "payload.x", _field(NUMBER), _field(NUMBER | {"exclusiveMaximum": 1e6})),
    ("minLength", "payload.x", _field(TEXT), _field(TEXT | {"minLength": 1})),
    ("maxLength", "payload.x", _field(TEXT | {"maxLength": 10}), _field(TEXT | {"maxLength": 9})),
    ("pattern", "payload.x", _field(TEXT), _field(TEXT | {"pattern": "^a"})),
    ("format", "payload.x", _field(TEXT), _field(TEXT | {"format": "date-time"})),
    ("minItems", "payload.x", _field({"type": "array"}), _field({"type": "array", "minItems": 1})),
    ("maxItems", "payload.x", _field({"type": "array"}), _field({"type": "array", "maxItems": 5})),
    ("uniqueItems", "payload.x", _field({"type": "array", "items": TEXT}), _field({"type": "array", "items": TEXT, "uniqueItems": True})),
    ("required", "payload.x", _closed(x=TEXT), _closed(["x"], x=TEXT)),
    ("required", "payload.x.y", _field(_closed(y=TEXT)), _field(_closed(["y"], y=TEXT))),
    ("property", "payload.y", _closed(x=TEXT, y=TEXT), _closed(x=TEXT)),
    ("property", "payload.x.y", _field(_closed(y=TEXT)), _field(_closed())),
    ("constrained", "payload.x", {"type": "object"}, {"type": "object", "properties": {"x": TEXT}}),
    ("additional", "payload.*", {"type": "object"}, {"type": "object", "additionalProperties": False}),
]
# The same where neither is known to be the wider one, so that both directions are refused; named from the first to the second.
INCOMPARABLE: list[tuple[str, str, Schema, Schema]] = [
    ("value", "payload.x", _field({"enum": ["a", 1]}), _field(TEXT)),
    ("value", "payload.x", _field({"const": "long text"}), _field(TEXT | {"maxLength": 3})),
    ("pattern", "payload.x", _field(TEXT | {"pattern": "^[ab]"}), _field(TEXT | {"pattern": "^a"})),
    ("format", "payload.x", _field(TEXT | {"format": "date-time"}), _field(TEXT | {"format": "uuid"})),
]


@pytest.mark.proves("M4.2")
@pytest.mark.parametrize(("name", "path", "wide", "narrow"), NARROWER + INCOMPARABLE)
@pytest.mark.parametrize("mode", [Compatibility.BACKWARD, Compatibility.FULL])
def test_a_schema_that_accepts_less_is_not_backward_compatible(mode: Compatibility, name: str, path: str, wide: Schema, narrow: Schema) -> None:
    with pytest.raises(KindIncompatible) as refused:
        admit(_kind(narrow, 2, mode=mode), [_kind(wide, mode=mode)])
    assert {"code": NAMES[name][0], "path": path} in [{"code": one["code"], "path": one["path"]} for one in refused.value.extra["findings"]]
    assert NAMES[name][0] in refused.value.detail


@pytest.mark.proves("M4.2")
@pytest.mark.parametrize(("name", "path", "wide", "narrow"), NARROWER + INCOMPARABLE)
@pytest.mark.parametrize("mode", [Compatibility.FORWARD, Compatibility.FULL])
def test_a_schema_that_accepts_more_is_not_forward_compatible(mode: Compatibility, name: str, path: str, wide: Schema, narrow: Schema) -> None:
    with pytest.raises(KindIncompatible) as refused:
        admit(_kind(wide, 2, mode=mode), [_kind(narrow, mode=mode)])
    assert {"code": NAMES[name][1], "path": path} in [{"code": one["code"], "path": one["path"]} for one in refused.value.extra["findings"]]


@pytest.mark.parametrize(("name", "path", "wide", "narrow"), NARROWER)
def test_the_other_direction_of_a_breaking_change_is_no_break(name: str, path: str, wide: Schema, narrow: Schema) -> None:
    assert admit(_kind(wide, 2), [_kind(narrow)]).version == 2
    assert admit(_kind(narrow, 2, mode="forward"), [_kind(wide, mode="forward")]).version == 2


def test_there_are_breaking_changes_of_every_name() -> None:
    assert {name for name, *_ in NARROWER} == set(NAMES)
    assert len(NARROWER) * 2 >= 40


OLD = _closed(["a"], a=TEXT, b=TEXT, inner=_closed(y=TEXT), rows={"type": "array", "items": _closed(z=TEXT)}, window_start=TEXT)


@pytest.mark.proves("M4.2")
@pytest.mark.parametrize(("code", "renames", "new"), [
    ("rename_unknown", {"nothing": "c"}, OLD),
    ("rename_unknown", {"inner.nothing": "c"}, OLD),
    ("rename_taken", {"a": "b"}, OLD),
    ("rename_taken", {"a": "c", "b": "c"}, _closed(c=TEXT)),
    ("rename_leads_nowhere", {"a": "c"}, OLD),
    ("rename_leads_nowhere", {"inner.y": "w"}, OLD),
    ("rename_reserved", {"window_start": "start"}, _closed(start=TEXT)),
    ("rename_reserved", {"a": "window_end"}, _closed(window_end=TEXT)),
])
def test_a_rename_that_is_not_plain_is_refused(code: str, renames: dict[str, str], new: Schema) -> None:
    with pytest.raises(KindInvalid) as refused:
        admit(_kind(new, 2, renames=renames), [_kind(OLD)])
    assert code in _codes(refused.value)


def test_a_rename_into_an_object_that_may_hold_more_is_refused() -> None:
    with pytest.raises(KindInvalid) as refused:
        admit(_kind({"type": "object", "properties": {"b": TEXT}}, 2, renames={"a": "b"}), [_kind({"type": "object", "properties": {"a": TEXT}})])
    assert _codes(refused.value) == {"rename_ambiguous"}


@pytest.mark.proves("M4.2")
def test_mode_and_identity_of_a_kind_stay() -> None:
    before = _kind(OLD, identity=["payload.a"])
    for code, more in (("mode_changed", {"mode": "full", "identity": ["payload.a"]}), ("identity_changed", {"identity": ["payload.b"]}), ("identity_changed", {})):
        with pytest.raises(KindIncompatible) as refused:
            admit(_kind(OLD, 2, **more), [before])
        assert _codes(refused.value) == {code}
    renamed = _closed(["id"], id=TEXT, **{name: child for name, child in OLD["properties"].items() if name != "a"})
    assert admit(_kind(renamed, 2, renames={"a": "id"}, identity=["payload.id"]), [before]).version == 2


@pytest.mark.proves("M4.2")
@pytest.mark.parametrize("keyword", [
    "$ref", "$defs", "$id", "$anchor", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "prefixItems", "contains", "minContains", "maxContains",
    "minProperties", "maxProperties", "multipleOf", "contentEncoding", "contentMediaType", "contentSchema", "readOnly", "anything-else",
])
def test_a_keyword_that_cannot_be_judged_is_refused_by_its_name(keyword: str) -> None:
    for schema in (_closed() | {keyword: {}}, _field({keyword: {}}), _field({"type": "array", "items": {keyword: {}}}), {"type": "object", "additionalProperties": {keyword: {}}}):
        with pytest.raises(KindInvalid, match=r"`" + keyword.replace("$", r"\$") + "`") as refused:
            admit(_kind(schema), [])
        assert _codes(refused.value) == {"keyword_unsupported"}


def _nested(depth: int) -> Schema:
    schema: Schema = {}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return _field(schema)


@pytest.mark.parametrize(("code", "schema", "more"), [
    ("dialect_unsupported", _closed() | {"$schema": "http://json-schema.org/draft-07/schema#"}, {}),
    ("payload_not_object", TEXT, {}),
    ("payload_not_object", {}, {}),
    ("payload_not_object", {"type": ["object", "null"]}, {}),
    ("schema_malformed", {"type": "object", "properties": {"x": True}}, {}),
    ("schema_malformed", {"type": "object", "properties": []}, {}),
    ("schema_malformed", _field({"type": "text"}), {}),
    ("schema_malformed", _field(TEXT | {"pattern": "("}), {}),
    ("schema_malformed", _field(TEXT | {"pattern": r"(a)\1"}), {}),
    ("schema_malformed", _field(TEXT | {"pattern": "(?=a)"}), {}),
    ("schema_malformed", _field(NUMBER | {"minimum": "0"}), {}),
    ("schema_not_storable", _field({"const": "\0"}), {}),
    ("schema_not_storable", _field(TEXT), {"examples": [{"x": "\0"}]}),
    ("schema_not_storable", _field(NUMBER), {"examples": [{"x": float("nan")}]}),
    ("schema_too_deep", _nested(500), {}),
    ("schema_too_large", _field({"description": "x" * 70_000}), {}),
    ("format_unsupported", _field(TEXT | {"format": "colour"}), {}),
    ("enum_not_scalar", _field({"enum": [{}]}), {}),
    ("enum_not_scalar", _field({"const": [1]}), {}),
    ("unique_items_not_scalar", _field({"type": "array", "uniqueItems": True, "items": _closed()}), {}),
    ("unique_items_not_scalar", _field({"type": "array", "uniqueItems": True}), {}),
    ("default_invalid", _field(TEXT | {"default": 1}), {}),
    ("example_invalid", _closed(["x"], x=TEXT), {"examples": [{"x": "ok"}, {}]}),
    ("identity_unknown", _field(TEXT), {"identity": ["payload.y"]}),
    ("rename_unknown", _field(TEXT), {"renames": {"y": "x"}}),
    ("built_in_reserved", _field(TEXT), {"built_in": True}),
    ("version_not_next", _field(TEXT), {"version": 2}),
])
def test_a_kind_that_does_not_hold_together_is_refused_by_name(code: str, schema: Schema, more: dict[str, Any]) -> None:
    with pytest.raises(KindInvalid) as refused:
        admit(_kind(schema, **more), [])
    assert _codes(refused.value) == {code}


@pytest.mark.proves("M4.2")
def test_versions_are_counted_and_the_same_again_is_nothing_new() -> None:
    first, second = _kind(_field(TEXT)), _kind(_closed(x=TEXT, y=TEXT), 2)
    assert admit(first, []) == first
    assert admit(second, [first]) == second
    assert admit(_kind(_field(TEXT)), [first, second]) is first
    assert admit(_kind(_closed(x=TEXT, y=TEXT), 2), [first, second]) is second
    with pytest.raises(KindConflict, match="kind evolve` registers version 3"):
        admit(_kind(_field(NUMBER)), [first, second])
    with pytest.raises(KindConflict):
        admit(_kind(_field(TEXT)).model_copy(update={"owner": "somebody else"}), [first])
    with pytest.raises(KindInvalid, match="version_not_next"):
        admit(_kind(_field(TEXT), 4), [first, second])


@pytest.mark.proves("M1.2")
@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: kind.name)
def test_built_in_kinds_are_consistent_and_cannot_be_changed(kind: Kind) -> None:
    assert kind.built_in and kind.examples and kind.owner == "tracelake"
    assert admit(kind.model_copy(update={"built_in": False}), []).name == kind.name
    assert admit(kind.model_copy(update={"built_in": False}), [kind]) is kind
    for version in (1, 2):
        with pytest.raises(KindConflict, match="built in"):
            admit(kind.model_copy(update={"built_in": False, "version": version, "description": "Mine."}), [kind])
    for name, child in kind.json_schema["properties"].items():
        assert child.get("description"), f"{kind.name}.{name} is not described"
    for missing in kind.json_schema["required"]:
        assert not jsonschema_rs.Draft202012Validator(kind.json_schema).is_valid({key: value for key, value in kind.examples[0].items() if key != missing})


@pytest.mark.proves("M1.2")
def test_there_are_the_six_kinds_and_the_platforms_own() -> None:
    assert {kind.name for kind in builtin_kinds()} == {
        "ingestion_volume", "ingestion_runtime", "recon_result", "schema_snapshot", "statistics_snapshot", "catalog_diff",
        "task_run", "gate_result", "promotion_decision", "schedule_adherence",
    }


@pytest.mark.proves("M4.2")
def test_upcasting_applies_renames_and_defaults_step_by_step_and_nothing_else() -> None:
    first = _kind(_closed(["a"], a=TEXT, rows={"type": "array", "items": _closed(z=TEXT)}, odd={"type": "object"}))
    second = _kind(
        _closed(["b"], b=TEXT, rows={"type": "array", "items": _closed(w=TEXT, n=NUMBER | {"default": 1.0})}, odd={"type": "object"}, c=NUMBER | {"default": 5}), 2,
        renames={"a": "b", "rows.[].z": "w"},
    )
    third = _kind(_closed(["a2", "c"], a2=TEXT, rows=second.json_schema["properties"]["rows"], odd={"type": "object"}, c=NUMBER | {"default": 7}, d=TEXT), 3, renames={"b": "a2"})
    versions = [first]
    versions.append(admit(second, versions))
    versions.append(admit(third, versions))
    stored = _stored({"a": "x", "rows": [{"z": "1"}, {}], "odd": {"z": 1, "a": 2}})
    assert upcast(stored, versions, 2).record.payload == {"b": "x", "rows": [{"w": "1", "n": 1.0}, {"n": 1.0}], "odd": {"z": 1, "a": 2}, "c": 5}
    newest = upcast(stored, versions)
    assert newest.record.payload == {"a2": "x", "rows": [{"w": "1", "n": 1.0}, {"n": 1.0}], "odd": {"z": 1, "a": 2}, "c": 5}
    assert (newest.kind_version, newest.record.version, newest.id) == (3, 3, stored.id)
    assert stored.record.payload == {"a": "x", "rows": [{"z": "1"}, {}], "odd": {"z": 1, "a": 2}}


def test_a_record_stored_in_the_requested_version_or_a_newer_one_is_unchanged() -> None:
    versions = [_kind(_field(TEXT)), _kind(_closed(x=TEXT, y=TEXT | {"default": "d"}), 2)]
    newer = _stored({"x": "1"}, version=2)
    assert upcast(newer, versions) is newer
    assert upcast(newer, versions, 1) is newer


def test_names_that_change_places_do_so_at_once() -> None:
    before, after = _kind(_closed(a=TEXT, b=NUMBER)), _kind(_closed(a=NUMBER, b=TEXT), 2, renames={"a": "b", "b": "a"})
    assert upcast(_stored({"a": "x", "b": 1}), [before, admit(after, [before])]).record.payload == {"b": "x", "a": 1}


INSTANCES = size(20, 60)


def _valid(kind: Kind, payload: dict[str, Any]) -> bool:
    return jsonschema_rs.Draft202012Validator(kind.json_schema, validate_formats=True).is_valid(payload)


def _lineage(random: Random, mode: Compatibility) -> list[Kind]:
    """Up to four versions that were admitted, out of random ones."""
    versions = [admit(_kind(random_object(random), mode=mode), [])]
    for _ in range(3):
        schema, renames = changed(versions[-1].json_schema, random)
        try:
            versions.append(admit(_kind(schema, len(versions) + 1, mode=mode, renames=renames), versions))
        except (KindIncompatible, KindInvalid):
            continue
    return versions


def _instances(kind: Kind, random: Random) -> list[dict[str, Any]]:
    """Limits that were drawn one by one may leave hardly anything, or nothing; what does not fit its own schema is no instance of it."""
    made = [instance(kind.json_schema, random) for _ in range(INSTANCES)]
    return [one for one in made if _valid(kind, one)]


@pytest.mark.proves("M4.2")
@pytest.mark.parametrize("mode", list(Compatibility))
@settings(max_examples=size(120, 5000))
@given(seed=st.integers(0, 2**48))
def test_whatever_was_admitted_keeps_its_promise_for_instances_that_were_never_stored(mode: Compatibility, seed: int) -> None:
    random = Random(seed)
    versions = _lineage(random, mode)
    event(f"{len(versions)} versions")
    oldest, newest = versions[0], versions[-1]
    if mode is not Compatibility.FORWARD:
        for told in _instances(oldest, random):
            payload = upcast(_stored(told), versions).record.payload
            assert _valid(newest, payload), (told, payload, [kind.json_schema for kind in versions])
    if mode is not Compatibility.BACKWARD:
        for told in _instances(newest, random):
            assert _valid(oldest, told), (told, [kind.json_schema for kind in versions])


def test_the_random_versions_are_both_admitted_and_refused_and_have_instances() -> None:
    for mode in Compatibility:
        lineages = [_lineage(Random(seed), mode) for seed in range(100)]
        lengths = [len(versions) for versions in lineages]
        assert sum(lengths) > 160 and lengths.count(4) < 90, (mode, sum(lengths))
        found = sum(len(_instances(versions[place], Random(7))) for versions in lineages for place in (0, -1))
        assert found > 0.95 * INSTANCES * 200, found
