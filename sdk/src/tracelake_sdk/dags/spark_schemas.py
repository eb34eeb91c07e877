"""Column lists in Spark's DDL: checks the names of types without Spark."""

import re
from collections.abc import Iterator

from tracelake_sdk.suggestions import nearest

_TYPES = frozenset({
    "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL", "DOUBLE", "DECIMAL", "DEC", "NUMERIC",
    "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "INTERVAL", "STRING", "CHAR", "CHARACTER", "VARCHAR", "BINARY",
    "ARRAY", "MAP", "STRUCT", "VARIANT", "GEOMETRY", "GEOGRAPHY", "VOID",
})  # fmt: skip
_COLUMN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+)\s*:?\s*(.*)", re.DOTALL)
_TYPE = re.compile(r"([A-Za-z_]\w*)\s*(?:<(.*)>)?", re.DOTALL)
_MARKS = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[(<]|[)>]|,", re.DOTALL)
_MOST_CHARACTERS = 10_000
_MOST_DEPTH = 50


def check_types(columns: str) -> None:
    """Raises ValueError for an unknown type name; other mistakes, and very long or deep schemas, are left to Spark."""
    if len(columns) <= _MOST_CHARACTERS:
        _check_columns(columns, depth=0)


def _check_columns(columns: str, *, depth: int) -> None:
    for column in _parts(columns):
        if (found := _COLUMN.match(column)) and found[2]:
            _check_type(found[2], of=found[1], depth=depth)


def _check_type(text: str, *, of: str, depth: int) -> None:
    found = _TYPE.match(text)
    if found is None or depth > _MOST_DEPTH:
        return
    word, inside = found[1], found[2]
    if word.upper() not in _TYPES:
        near = nearest(word, _TYPES)
        raise ValueError(f"the column {of} has the unknown type `{word[:50]}`{f'; did you mean `{near}`?' if near else ''}")
    if inside is None:
        return
    if word.upper() == "STRUCT":
        _check_columns(inside, depth=depth + 1)
    else:  # of an array's items, of a map's keys and values
        for part in _parts(inside):
            _check_type(part.strip(), of=of, depth=depth + 1)


def _parts(text: str) -> Iterator[str]:
    """Split at the commas outside of brackets and quotes."""
    start = depth = 0
    for mark in _MARKS.finditer(text):
        match mark[0]:
            case "(" | "<":
                depth += 1
            case ")" | ">":
                depth -= 1
            case "," if not depth:
                yield text[start : mark.start()]
                start = mark.end()
            case _:
                pass
    yield text[start:]
