"""Lists as Postgres array literals, with a few C calls per element.

A batch is bound as a handful of arrays, and the driver's general encoding costs more than the database's
work on it. Every query casts its arrays (`::uuid[]`), so the literal alone is enough.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.adapt import Dumper


def _text(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_SPELLED: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "NULL",
    UUID: str,
    int: str,
    bool: lambda value: "t" if value else "f",
    float: repr,
    str: _text,
    bytes: lambda value: '"\\\\x' + value.hex() + '"',
    datetime: lambda value: '"' + value.isoformat() + '"',
    timedelta: lambda value: f'"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"',
}


class ArrayLiteral(Dumper):
    """Flat lists of the types above; a text that holds a zero byte is refused, as Postgres would."""

    def dump(self, obj: list[Any]) -> bytes:
        return ("{" + ",".join([_SPELLED[type(value)](value) for value in obj]) + "}").encode()


def install(connection: Connection[Any]) -> None:
    connection.adapters.register_dumper(list, ArrayLiteral)
