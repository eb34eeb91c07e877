"""Schemas in Delta's form: derived from Parquet files, and compared between a table and what an attempt wrote.

Columns are stored as nullable, even if their writer marks them as required.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

DeltaType = str | dict[str, Any]
# pyarrow has no type annotations.
ArrowSchema: TypeAlias = Any
ArrowField: TypeAlias = Any
ArrowType: TypeAlias = Any

_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # in a footer: Spark types that Parquet stores as a simpler type
_SPARK_CARRIED = re.compile(
    r"byte|short|integer|long|float|double|boolean|string(?: collate .+)?|binary|date|timestamp|decimal\(\d+,\d+\)|(?:var)?char\(\d+\)"
)
_ODD = re.compile(r"[ ,;{}()\n\t=]")
_PLAIN_TYPES = {
    "bool": "boolean", "int8": "byte", "int16": "short", "int32": "integer", "int64": "long", "float": "float", "double": "double",
    "string": "string", "large_string": "string", "string_view": "string", "binary": "binary", "large_binary": "binary", "binary_view": "binary",
    "date32[day]": "date", "date64[ms]": "date",
}
_WHOLE = ("byte", "short", "integer", "long")
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}  # as many before the point hold every value


def delta_schema(arrow_schema: ArrowSchema) -> dict[str, Any]:
    """The schema in Delta's form; call `not_carried` first, because a column that it reports raises ValueError here."""
    return {"type": "struct", "fields": [_field(field) for field in arrow_schema]}


def schema_hash(table_schema: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(table_schema, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def not_carried(arrow_schema: ArrowSchema) -> list[str]:
    """One sentence for each part of these columns that our tables do not support; empty if all are supported."""
    if not len(arrow_schema):
        return ["The output has no column; a table needs at least one."]
    noted = _spark_types(arrow_schema)
    found = list(_odd_names(list(arrow_schema), ""))
    for field in arrow_schema:
        # Intervals, times and variants look like numbers and structs in Parquet; Spark's schema in the footer has the real types.
        found += list(_odd_spark_types(noted.get(field.name), field.name)) or list(_odd_types(field.type, field.name))
    return found


def _field(field: ArrowField) -> dict[str, Any]:
    return {"metadata": {}, "name": field.name, "nullable": True, "type": _delta_type(field.type)}


def _delta_type(type: ArrowType) -> DeltaType:
    from pyarrow import types  # noqa: PLC0415  # control compares schemas without ever loading Arrow

    if (plain := _PLAIN_TYPES.get(str(type))) is not None:
        return plain
    if types.is_fixed_size_binary(type):
        return "binary"
    if (types.is_decimal128(type) or types.is_decimal32(type) or types.is_decimal64(type)) and 0 <= type.scale <= type.precision:
        return f"decimal({type.precision},{type.scale})"
    if types.is_timestamp(type) and type.tz is not None and type.unit == "us":
        return "timestamp"
    if types.is_dictionary(type):
        return _delta_type(type.value_type)
    if types.is_struct(type):
        return {"type": "struct", "fields": [_field(type.field(index)) for index in range(type.num_fields)]}
    if types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        return {"type": "array", "elementType": _delta_type(type.value_type), "containsNull": True}
    if types.is_map(type):
        return {"type": "map", "keyType": _delta_type(type.key_type), "valueType": _delta_type(type.item_type), "valueContainsNull": True}
    raise ValueError(f"the type {type} has no equivalent in Delta")


def _odd_names(fields: list[ArrowField], prefix: str) -> Iterator[str]:
    spellings: dict[str, list[str]] = {}
    for field in fields:
        name = prefix + field.name
        if not field.name:
            yield f"A column{f' of {_shown(prefix[:-1])}' if prefix else ''} has an empty name; give it one."
        elif _ODD.search(field.name):
            yield f"The column {_shown(name)} has a character in its name that Delta tables do not support (space , ; {{ }} ( ) = tab or line end); rename it."
        spellings.setdefault(field.name.lower(), []).append(_shown(name))
        for path, nested in _structs(field.type, name):
            yield from _odd_names(nested, f"{path}.")
    for same in spellings.values():
        if len(same) > 1:
            yield f"The columns {' and '.join(same)} have the same name, or names that differ only in case; rename all but one."


def _structs(type: ArrowType, path: str) -> Iterator[tuple[str, list[ArrowField]]]:
    """The nearest structs below a column, with the path to them."""
    from pyarrow import types  # noqa: PLC0415

    if types.is_struct(type):
        yield path, [type.field(index) for index in range(type.num_fields)]
    elif types.is_map(type):
        yield from _structs(type.key_type, f"{path}.key")
        yield from _structs(type.item_type, f"{path}.value")
    elif types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        yield from _structs(type.value_type, f"{path}.element")


def _odd_types(type: ArrowType, path: str) -> Iterator[str]:
    from pyarrow import types  # noqa: PLC0415

    if types.is_struct(type):
        if type.num_fields == 0:
            yield f"The column {_shown(path)} is a struct without fields; remove it."
        for index in range(type.num_fields):
            yield from _odd_types(type.field(index).type, f"{path}.{type.field(index).name}")
    elif types.is_map(type):
        yield from _odd_types(type.key_type, f"{path}.key")
        yield from _odd_types(type.item_type, f"{path}.value")
    elif types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type):
        yield from _odd_types(type.value_type, f"{path}.element")
    else:
        try:
            _delta_type(type)
        except ValueError:
            yield f"The column {_shown(path)} is {_called(type)}, which Delta tables do not support; {_remedy(type)}."


def _called(type: ArrowType) -> str:
    from pyarrow import types  # noqa: PLC0415

    if types.is_timestamp(type):
        return "a timestamp without a zone" if type.tz is None else f"a timestamp in {type.unit}"
    if types.is_null(type):
        return "of no type (void)"
    return f"of type {type}"


def _remedy(type: ArrowType) -> str:
    from pyarrow import types  # noqa: PLC0415

    if types.is_timestamp(type):
        return "make it a timestamp of an instant, in microseconds" if type.tz is None else "write it in microseconds"
    if types.is_null(type):
        return "cast it to the type that it is meant to have"
    if types.is_unsigned_integer(type):
        return "cast it to a signed integer that holds its values, or to a decimal"
    return "cast it to a number, a text or an instant"


def _spark_types(arrow_schema: ArrowSchema) -> dict[str, Any]:
    """The columns of Spark's own schema, if Spark wrote the file."""
    try:
        note = json.loads((arrow_schema.metadata or {})[_SPARK_SCHEMA])
        return {field["name"]: field["type"] for field in note["fields"]}
    except (KeyError, TypeError, ValueError):
        return {}  # not written by Spark; Parquet's own types are checked anyway


def _odd_spark_types(type: Any, path: str) -> Iterator[str]:
    match type:
        case str() if not _SPARK_CARRIED.fullmatch(type):
            yield f"The column {_shown(path)} is of Spark's type {type}, which Delta tables do not support; cast it to a number, a text or an instant."
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield from _odd_spark_types(field["type"], f"{path}.{field['name']}")
        case {"type": "array", "elementType": element}:
            yield from _odd_spark_types(element, f"{path}.element")
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _odd_spark_types(key, f"{path}.key")
            yield from _odd_spark_types(value, f"{path}.value")
        case {"type": "udt", "sqlType": stored}:
            yield from _odd_spark_types(stored, path)
        case _:
            pass


def _shown(name: str) -> str:
    return f"`{name}`".replace("\n", "\\n").replace("\t", "\\t")


@dataclass(frozen=True)
class SchemaFact:
    """One difference between a table and what was written."""

    kind: Literal["added", "dropped", "widened", "narrowed", "changed", "required", "optional", "respelled"]
    column: str  # `a.b` inside a struct, `a.element`, `a.key`, `a.value`
    sentence: str


@dataclass(frozen=True)
class Carried:
    """Whether a table accepts what was written, and what changes for its readers."""

    table_schema: dict[str, Any] | None  # of the table afterwards: existing columns keep their order, new ones come last; None: refused
    refused: list[str]                   # why it is not possible within one generation, in sentences
    breaking: list[SchemaFact]           # the differences that a SCHEMA policy is about; a renamed column is one dropped and one added
    harmless: list[SchemaFact]


def carries(table: dict[str, Any] | None, written: dict[str, Any]) -> Carried:
    """`table` as it is (None: nothing is written yet) against what an attempt wrote; both in Delta's form."""
    if table is None:
        return Carried(written, [], [], [])
    facts: list[SchemaFact] = []
    after = _merged(table, written, "", facts)
    refused = [fact.sentence for fact in facts if fact.kind in ("widened", "narrowed", "changed", "respelled")]
    harmless = [fact for fact in facts if fact.kind in ("added", "widened", "optional")]
    return Carried(None if refused else after, refused, [fact for fact in facts if fact not in harmless], harmless)


def _merged(table: dict[str, Any], written: dict[str, Any], prefix: str, facts: list[SchemaFact]) -> dict[str, Any]:
    """Two structs as one, reporting each difference."""
    theirs = {field["name"]: field for field in written["fields"]}
    spelled = {name.lower(): name for name in theirs}
    fields: list[dict[str, Any]] = []
    for ours in table["fields"]:
        column = prefix + ours["name"]
        if (field := theirs.pop(ours["name"], None)) is not None:
            fields.append(ours | {"type": _merged_type(ours["type"], field["type"], column, facts)})
            _report_nullable(column, bool(ours["nullable"]), bool(field["nullable"]), facts)
            continue
        fields.append(ours)
        if (other := spelled.get(ours["name"].lower())) is not None:
            theirs.pop(other)
            facts.append(SchemaFact("respelled", column, f"The column {_shown(column)} was written as {_shown(prefix + other)}; keep its spelling."))
        else:
            facts.append(SchemaFact("dropped", column, f"The column {_shown(column)} was removed."))
    for name, field in theirs.items():
        fields.append(field | {"nullable": True})  # existing rows have no value
        facts.append(SchemaFact("added", prefix + name, f"The column {_shown(prefix + name)} is new."))
    return table | {"fields": fields}


def _merged_type(ours: DeltaType, theirs: DeltaType, column: str, facts: list[SchemaFact]) -> DeltaType:
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours["type"] == theirs["type"]:
        match ours["type"]:
            case "struct":
                return _merged(ours, theirs, f"{column}.", facts)
            case "array":
                _report_nullable(f"{column}.element", ours["containsNull"], theirs["containsNull"], facts)
                return ours | {"elementType": _merged_type(ours["elementType"], theirs["elementType"], f"{column}.element", facts)}
            case _:
                _report_nullable(f"{column}.value", ours["valueContainsNull"], theirs["valueContainsNull"], facts)
                return ours | {
                    "keyType": _merged_type(ours["keyType"], theirs["keyType"], f"{column}.key", facts),
                    "valueType": _merged_type(ours["valueType"], theirs["valueType"], f"{column}.value", facts),
                }
    if ours != theirs:
        kind = "widened" if _holds(theirs, ours) else "narrowed" if _holds(ours, theirs) else "changed"
        sentence = f"The column {_shown(column)} is {_spelled(ours)} in the table and {_spelled(theirs)} in what was written; a table keeps its types: cast the column, or deploy the DAG under a new name."
        facts.append(SchemaFact(kind, column, sentence))
    return ours


def _report_nullable(column: str, ours: bool, theirs: bool, facts: list[SchemaFact]) -> None:
    if ours and not theirs:
        facts.append(SchemaFact("required", column, f"The column {_shown(column)} now needs a value."))
    elif theirs and not ours:
        facts.append(SchemaFact("optional", column, f"The column {_shown(column)} no longer needs a value."))


def _holds(wide: DeltaType, narrow: DeltaType) -> bool:
    """Whether the wide type can hold every value of the narrow type, unchanged."""
    if not isinstance(wide, str) or not isinstance(narrow, str):
        return False
    if wide in _WHOLE and narrow in _WHOLE:
        return _WHOLE.index(narrow) < _WHOLE.index(wide)
    if wide == "double":
        return narrow in ("float", "byte", "short", "integer")
    if wide == "float":
        return narrow in ("byte", "short")
    if (room := _digits(wide)) and wide.startswith("decimal"):
        needed = _digits(narrow)
        return needed is not None and needed[0] <= room[0] and needed[1] <= room[1]
    return False


def _digits(type: str) -> tuple[int, int] | None:
    """How many digits before and after the point a type has."""
    if type in _DIGITS:
        return _DIGITS[type], 0
    if found := re.fullmatch(r"decimal\((\d+),(\d+)\)", type):
        return int(found[1]) - int(found[2]), int(found[2])
    return None


def _spelled(type: DeltaType) -> str:
    return type if isinstance(type, str) else str(type["type"])
