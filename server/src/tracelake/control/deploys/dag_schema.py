"""The JSON Schema of DAG files, for editors: generated from the shape that deploys check; `where` and cursors are written here."""

from collections.abc import Mapping
from typing import Any

from tracelake.control.deploys.dag_shape import (
    DAG,
    Choice,
    ColumnName,
    Config,
    CursorPart,
    Flag,
    From,
    Keys,
    ListOf,
    Name,
    NamedEntries,
    OutputShape,
    PartitionBy,
    Shape,
    Text,
    Where,
    Whole,
)
from tracelake_sdk.dags import COLUMN, NAME
from tracelake_sdk.dags.operators import OPERATORS, OperatorSpec

Schema = dict[str, Any]

_CURSOR: Schema = {"type": ["integer", "string"]}
_WHERE: Schema = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"partition": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}},
            "required": ["partition"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"cursor": {"type": "object", "properties": {"min": _CURSOR, "below": _CURSOR}, "minProperties": 1, "additionalProperties": False}},
            "required": ["cursor"],
            "additionalProperties": False,
        },
    ],
}
# What an editor shows beside a key; docs/reference/dag-file.md has the details.
_DESCRIPTIONS = {
    "defaults": "Values for every job and output that does not set its own.",
    "publish": "The name by which people and other DAGs find an output.",
    "activation": "`source`: a request starts each run. `reactive`: the events of its inputs do.",
    "runtime": "Where the operator runs: `spark` for rows, `dispatcher` for events and ranges.",
    "operator": "What the job runs.",
    "config": "The operator's own keys.",
    "inputs": "What a reactive job reads; the events of an input with `trigger` make tasks.",
    "outputs": "The datasets that the job produces.",
    "execution_strategy": "`PerUpdate`: the output's scope is the event's. `PerPartition`: the partitions of the output that the event touches.",
    "update_strategy": "`append`: adds rows with a new unique key. `replace`: rewrites its scope.",
    "unique_key": "The columns that make a row the same row; needed by `append`.",
    "null_keys": "`block`: the gate refuses rows with a null in the unique key. `distinct`: such rows are appended every time.",
    "scaling": "Which pool runs the tasks, and how many at once.",
    "max_attempts": "How often a task is tried before it fails.",
    "timeout_seconds": "How long one attempt may take.",
    "trigger": "`false`: the input is read, but its events make no task.",
    "where": "Which events pass: those of named partitions, or those of a range of the cursor.",
    "layer": "`bronze`, `silver` or `gold`.",
    "partition_by": "How the table is split into scopes; without it the whole table is one scope.",
    "domain": "The domain that the dataset belongs to.",
    "owner": "Who is responsible for the dataset.",
}


def dag_file_schema() -> Schema:
    """Of a whole file: its keys, their values, and the config of each operator."""
    named: Schema = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "urn:tracelake:dag-file", "title": "A Tracelake DAG file"}
    schema: Schema = named | _of(DAG)
    schema["properties"]["jobs"]["items"]["allOf"] = [_config_of(spec) for spec in OPERATORS.values()]
    return schema


def _of(shape: Shape) -> Schema:
    match shape:
        case Keys():
            return _of_keys(shape.needed, shape.optional)
        case ListOf():
            return {"type": "array", "items": _of(shape.item), "minItems": shape.least, "maxItems": shape.most}
        case NamedEntries():
            return {"type": "object", "propertyNames": {"pattern": f"^{NAME.pattern}$"}, "additionalProperties": _of(shape.entry)}
        case From():
            return {"oneOf": [_of(shape.of_job), _of(shape.of_dataset)]}
        case OutputShape() | PartitionBy():
            return _of(shape.keys)
        case Where():
            return _WHERE
        case _:
            return _of_value(shape)


def _of_value(shape: Shape) -> Schema:
    match shape:
        case Text():
            return {"type": "string", "maxLength": shape.longest} | ({} if shape.may_be_empty else {"minLength": 1})
        case Name():
            return {"type": "string", "pattern": f"^{NAME.pattern}$"}
        case ColumnName():
            return {"type": "string", "pattern": f"^{COLUMN.pattern}$"}
        case Choice():
            return {"type": "string", "enum": [str(word) for word in shape.words]}
        case Whole():
            return {"type": "integer", "minimum": shape.least, "maximum": shape.most}
        case Flag():
            return {"type": "boolean"}
        case Config():
            return {"type": "object"}
        case CursorPart():
            return _CURSOR
        case _:
            raise TypeError(f"the shape {type(shape).__name__} has no JSON Schema; add it here")


def _of_keys(needed: Mapping[str, Shape], optional: Mapping[str, Shape]) -> Schema:
    properties = {key: _described(key, _of(shape)) for key, shape in {**needed, **optional}.items()}
    return {"type": "object", "properties": properties, "required": sorted(needed), "additionalProperties": False}


def _described(key: str, schema: Schema) -> Schema:
    return schema | ({"description": _DESCRIPTIONS[key]} if key in _DESCRIPTIONS else {})


def _config_of(spec: OperatorSpec) -> Schema:
    """A job with this operator has this config."""
    chosen = {"properties": {"runtime": {"const": spec.runtime.value}, "operator": {"const": spec.name}}, "required": ["runtime", "operator"]}
    config = _inlined(spec.config.model_json_schema(by_alias=True))
    needed = ["config"] if config.get("required") else []
    return {"if": chosen, "then": {"properties": {"config": config}, "required": needed}}


def _inlined(schema: Schema) -> Schema:
    """Without `$defs`, which would have to be at the top of the schema."""
    definitions: dict[str, Schema] = schema.pop("$defs", {})

    def inline(value: Any) -> Any:
        match value:
            case {"$ref": str(name), **rest}:
                return inline(definitions[name.rpartition("/")[2]]) | rest
            case dict():
                return {key: inline(below) for key, below in value.items()}
            case list():
                return [inline(item) for item in value]
            case _:
                return value

    return inline(schema)
