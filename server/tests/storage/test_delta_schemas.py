"""Schemas in Delta's form: what tables carry, what they cannot, and what a change of schema does to readers."""

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelake.storage.delta_schemas import carries, delta_schema, not_carried, schema_hash

UTC_MICROS = pa.timestamp("us", "UTC")


def schema(**columns: Any) -> dict[str, Any]:
    return delta_schema(pa.schema(list(columns.items())))


def test_every_kind_of_column_has_its_name_in_delta():
    arrow = pa.schema([
        ("a", pa.int8()), ("b", pa.int16()), ("c", pa.int32()), ("d", pa.int64()), ("e", pa.float32()), ("f", pa.float64()), ("g", pa.bool_()),
        ("h", pa.string()), ("i", pa.large_string()), ("j", pa.binary()), ("k", pa.binary(4)), ("l", pa.date32()), ("m", UTC_MICROS), ("n", pa.decimal128(38, 18)),
        ("o", pa.dictionary(pa.int8(), pa.string())),
    ])
    assert not_carried(arrow) == []
    assert [field["type"] for field in delta_schema(arrow)["fields"]] == [
        "byte", "short", "integer", "long", "float", "double", "boolean", "string", "string", "binary", "binary", "date", "timestamp", "decimal(38,18)", "string",
    ]


def test_nested_columns_are_nullable_all_the_way_down():
    arrow = pa.schema([pa.field("a", pa.struct([pa.field("b", pa.list_(pa.field("x", pa.map_(pa.string(), pa.int8()), nullable=False)), nullable=False)]), nullable=False)])
    assert delta_schema(arrow) == {"type": "struct", "fields": [{"metadata": {}, "name": "a", "nullable": True, "type": {"type": "struct", "fields": [
        {"metadata": {}, "name": "b", "nullable": True, "type": {"type": "array", "containsNull": True, "elementType": {
            "type": "map", "keyType": "string", "valueType": "byte", "valueContainsNull": True,
        }}},
    ]}}]}


@pytest.mark.proves("G3.3")
@pytest.mark.parametrize(("type", "words"), [
    (pa.timestamp("us"), "without a zone"), (pa.timestamp("ns", "UTC"), "in ns"), (pa.null(), "void"), (pa.duration("us"), "duration"), (pa.month_day_nano_interval(), "interval"),
    (pa.uint8(), "signed integer"), (pa.uint64(), "signed integer"), (pa.time32("ms"), "time32"), (pa.time64("us"), "time64"), (pa.float16(), "halffloat"),
    (pa.decimal256(50, 2), "decimal256"), (pa.decimal128(5, -2), "decimal128"), (pa.struct([]), "without fields"), (pa.uuid(), "uuid"),
])
@pytest.mark.parametrize("nest", [
    lambda it: it, pa.list_, lambda it: pa.struct([("x", it)]), lambda it: pa.map_(pa.string(), it), lambda it: pa.list_(pa.struct([("x", pa.list_(it))])),
], ids=["plain", "in_a_list", "in_a_struct", "in_a_map", "deep"])
def test_an_unsupported_column_is_reported_in_one_sentence(type: Any, words: str, nest: Any):
    said = not_carried(pa.schema([("ok", pa.int8()), ("bad", nest(type))]))
    assert len(said) == 1
    assert words in said[0]
    assert "`bad" in said[0]
    assert said[0].endswith(".")


@pytest.mark.proves("G3.3")
@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "{a", "a}", "(a", "a)", "a\nb", "a\tb", "a=b", ""])
@pytest.mark.parametrize("nest", [lambda field: field, lambda field: pa.field("outer", pa.struct([field])), lambda field: pa.field("outer", pa.list_(pa.struct([field])))])
def test_odd_names_of_columns_are_refused(name: str, nest: Any):
    said = not_carried(pa.schema([nest(pa.field(name, pa.int8()))]))
    assert len(said) == 1
    assert "name" in said[0]


@pytest.mark.parametrize("name", ["a.b", "Größe", "日本", "a-b", "a`b", "a'b", "SELECT", "_x", "1"])
def test_names_that_are_only_unusual_are_carried(name: str):
    assert not_carried(pa.schema([(name, pa.int8())])) == []


@pytest.mark.proves("G3.3")
def test_names_that_differ_only_in_case_are_one_name():
    assert "`a` and `A`" in not_carried(pa.schema([("a", pa.int8()), ("b", pa.int8()), ("A", pa.int8())]))[0]
    assert "`s.a` and `s.A`" in not_carried(pa.schema([("s", pa.struct([("a", pa.int8()), ("A", pa.int8())]))]))[0]
    assert "`a` and `a`" in not_carried(pa.schema([("a", pa.int8()), ("a", pa.int8())]))[0]


def test_a_table_without_columns_is_refused():
    assert not_carried(pa.schema([])) == ["The output has no column; a table needs at least one."]


@pytest.mark.proves("G3.3")
@pytest.mark.parametrize("type", ["interval day to second", "interval year to month", "timestamp_ntz", "void", "variant", "time(6)", {"type": "array", "elementType": "variant", "containsNull": True},
                                  {"type": "struct", "fields": [{"name": "x", "type": "interval day", "nullable": True, "metadata": {}}]}, {"type": "map", "keyType": "string", "valueType": "void"}])
def test_what_spark_hides_in_plain_numbers_is_seen_by_its_note(type: Any):
    note = {"type": "struct", "fields": [{"name": "i", "type": type, "nullable": True, "metadata": {}}, {"name": "n", "type": "long", "nullable": True, "metadata": {}}]}
    arrow = pa.schema([("i", pa.int64()), ("n", pa.int64())], metadata={"org.apache.spark.sql.parquet.row.metadata": json.dumps(note)})
    said = not_carried(arrow)
    assert len(said) == 1
    assert "Spark's type" in said[0]


@pytest.mark.parametrize("note", [b"", b"not json", b"[]", b"{}", b'{"fields": 1}', b'{"fields": [{}]}', b'{"fields": [1]}'])
def test_a_note_that_is_not_sparks_changes_nothing(note: bytes):
    assert not_carried(pa.schema([("i", pa.int64())], metadata={"org.apache.spark.sql.parquet.row.metadata": note})) == []


def test_the_hash_is_of_the_meaning_and_not_of_the_spelling():
    one = schema(a=pa.int8(), b=pa.string())
    assert schema_hash(json.loads(json.dumps(one, indent=3, sort_keys=True))) == schema_hash(one)
    assert schema_hash(schema(b=pa.string(), a=pa.int8())) != schema_hash(one)


def test_the_first_files_give_a_table_its_schema():
    written = schema(a=pa.int8())
    assert carries(None, written).table_schema == written


def test_what_is_new_comes_last_also_inside():
    table = schema(a=pa.int8(), s=pa.struct([("x", pa.int8())]), l=pa.list_(pa.struct([("x", pa.int8())])), m=pa.map_(pa.string(), pa.struct([("x", pa.int8())])))
    inside = pa.struct([("new", pa.string()), ("x", pa.int8())])
    carried = carries(table, schema(new=pa.string(), m=pa.map_(pa.string(), inside), l=pa.list_(inside), s=inside, a=pa.int8()))
    after = pa.struct([("x", pa.int8()), ("new", pa.string())])
    assert carried.table_schema == schema(a=pa.int8(), s=after, l=pa.list_(after), m=pa.map_(pa.string(), after), new=pa.string())
    assert carried.refused == []
    assert carried.breaking == []
    assert {(fact.kind, fact.column) for fact in carried.harmless} == {("added", "new"), ("added", "s.new"), ("added", "l.element.new"), ("added", "m.value.new")}


def test_a_dropped_column_stays_in_the_table_and_breaks():
    table = schema(a=pa.int8(), s=pa.struct([("x", pa.int8()), ("y", pa.int8())]))
    carried = carries(table, schema(s=pa.struct([("x", pa.int8())])))
    assert carried.table_schema == table
    assert [(fact.kind, fact.column) for fact in carried.breaking] == [("dropped", "a"), ("dropped", "s.y")]


def test_renaming_is_dropping_and_adding():
    carried = carries(schema(a=pa.int8()), schema(b=pa.int8()))
    assert [fact.kind for fact in carried.breaking] == ["dropped"]
    assert [fact.kind for fact in carried.harmless] == ["added"]
    assert carried.table_schema == schema(a=pa.int8(), b=pa.int8())


def test_another_spelling_of_a_name_is_refused():
    carried = carries(schema(Name=pa.int8()), schema(name=pa.int8()))
    assert carried.table_schema is None
    assert [fact.kind for fact in carried.breaking] == ["respelled"]


@pytest.mark.parametrize(("before", "after", "kind"), [
    (pa.int32(), pa.int64(), "widened"), (pa.int64(), pa.int32(), "narrowed"), (pa.float32(), pa.float64(), "widened"), (pa.int32(), pa.float64(), "widened"),
    (pa.int64(), pa.float64(), "changed"), (pa.decimal128(10, 2), pa.decimal128(12, 2), "widened"), (pa.decimal128(10, 2), pa.decimal128(10, 4), "changed"),
    (pa.decimal128(12, 4), pa.decimal128(10, 2), "narrowed"), (pa.int64(), pa.decimal128(19, 0), "widened"), (pa.int64(), pa.decimal128(18, 0), "changed"),
    (pa.string(), pa.int64(), "changed"), (pa.date32(), UTC_MICROS, "changed"), (pa.list_(pa.int8()), pa.int8(), "changed"), (pa.struct([("x", pa.int8())]), pa.list_(pa.int8()), "changed"),
])
@pytest.mark.parametrize("nest", [lambda it: it, pa.list_, lambda it: pa.struct([("x", it)]), lambda it: pa.map_(pa.string(), it)])
def test_a_table_keeps_its_types(before: Any, after: Any, kind: str, nest: Any):
    carried = carries(schema(a=nest(before)), schema(a=nest(after)))
    assert carried.table_schema is None
    assert len(carried.refused) == 1
    facts = carried.harmless if kind == "widened" else carried.breaking
    assert [fact.kind for fact in facts] == [kind]


def test_a_value_that_became_required_breaks_and_the_reverse_does_not():
    optional, required = schema(a=pa.int8()), schema(a=pa.int8())
    required["fields"][0]["nullable"] = False
    assert [fact.kind for fact in carries(optional, required).breaking] == ["required"]
    assert carries(optional, required).table_schema == optional
    assert [fact.kind for fact in carries(required, optional).harmless] == ["optional"]


_types = st.recursive(
    st.sampled_from([pa.int8(), pa.int64(), pa.string(), pa.date32(), pa.decimal128(9, 2)]),
    lambda inner: st.one_of(inner.map(pa.list_), inner.map(lambda it: pa.map_(pa.string(), it)),
                            st.dictionaries(st.sampled_from("xyz"), inner, min_size=1, max_size=3).map(lambda fields: pa.struct(list(fields.items())))),
    max_leaves=4,
)
_schemas = st.dictionaries(st.sampled_from("abcde"), _types, min_size=1, max_size=4).map(lambda fields: delta_schema(pa.schema(list(fields.items()))))


@given(_schemas, _schemas)
def test_what_a_table_took_in_it_takes_in_again_without_a_change(table: dict[str, Any], written: dict[str, Any]):
    once = carries(table, written)
    if once.table_schema is not None:
        again = carries(once.table_schema, written)
        assert again.table_schema == once.table_schema
        assert not any(fact.kind == "added" for fact in again.harmless)
        kept = [field["name"] for field in once.table_schema["fields"]]
        assert kept[: len(table["fields"])] == [field["name"] for field in table["fields"]]
    else:
        assert once.refused


def test_comparing_schemas_needs_no_arrow():
    code = "import sys, tracelake.storage.delta_schemas as d; d.carries(None, {'type': 'struct', 'fields': []}); sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, stdin=subprocess.DEVNULL).returncode == 0
