"""Delta's types in DuckDB's spelling, for tables without files and for columns that are newer than some file."""

from collections.abc import Mapping
from typing import Any, cast

_TYPES = {
    "boolean": "BOOLEAN", "byte": "TINYINT", "short": "SMALLINT", "integer": "INTEGER", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "string": "VARCHAR", "binary": "BLOB", "date": "DATE", "timestamp": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip


def engine_type(type: str | Mapping[str, Any]) -> str:
    """Raises ValueError for a type that our tables do not support."""
    if isinstance(type, str):
        if type.startswith("decimal("):
            return type.upper()
        if type.startswith(("varchar(", "char(", "string collate")):
            return "VARCHAR"
        if (plain := _TYPES.get(type)) is not None:
            return plain
        raise ValueError(f"the engine has no type {type}")
    match type.get("type"):
        case "struct":
            parts = [f"{quoted(field['name'])} {engine_type(field['type'])}" for field in fields_of(type)]
            return f"STRUCT({', '.join(parts)})"
        case "array":
            return f"{engine_type(type['elementType'])}[]"
        case "map":
            return f"MAP({engine_type(type['keyType'])}, {engine_type(type['valueType'])})"
        case other:
            raise ValueError(f"the engine has no type {other}")


def fields_of(table_schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", table_schema["fields"])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
