"""Readers of other people as processes, and rows that can be compared between them."""

import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from support.reader_environments import delta_connector_jars, duckdb_python

_PROGRAMS = Path(__file__).parent / "programs"

Rows = list[str]  # each row as canonical JSON, sorted: a table has no order


class Reader:
    """One engine, started when it is first asked; it may be asked many things."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[str] | None = None

    def rows(self, path: Path, schema: dict[str, Any], version: int | None = None, *, where: str = "1 = 1") -> Rows:
        return canonical_rows(self.ask("read", path=str(path), version=version, where=where), schema)

    def ask(self, action: str, **question: Any) -> Any:
        """What the engine answered as an Arrow table, if it did; its error is an AssertionError."""
        process = self._process = self._process or self._start()
        into = self._folder / f"{next(self._numbers)}.arrow"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"action": action, "into": str(into), **question}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"{self.name} ended; see {self._folder / 'log'}"
        said = json.loads(line)
        assert said["ok"], f"{self.name}: {said['error'][:1000]}"
        if not into.exists():
            return None
        with pa.memory_map(str(into)) as file:
            return pa.ipc.open_file(file).read_all()

    def _start(self) -> "subprocess.Popen[str]":
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log").open("w") as log:
            return subprocess.Popen(_command(self.name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)
            assert self._process.stdout is not None
            self._process.stdout.close()


def _command(name: str) -> list[str]:
    program = str(_PROGRAMS / f"{name}_reader.py")
    match name:
        case "spark":
            return [sys.executable, program, ",".join(str(jar) for jar in delta_connector_jars())]
        case "duckdb":
            return [str(duckdb_python()), program]
        case _:
            return [sys.executable, program]


def canonical_rows(table: Any, schema: dict[str, Any]) -> Rows:
    """Engines differ in how they hand over maps, floats and instants; here they are spelled one way, by the table's own schema."""
    names = [field["name"] for field in schema["fields"]]
    assert table.column_names == names, f"{table.column_names} instead of {names}"
    return sorted(_spelled_row(row, schema) for row in table.to_pylist())


def canonical(rows: Sequence[dict[str, Any]], schema: dict[str, Any]) -> Rows:
    """The same of rows that a test wrote; what a row lacks is null."""
    return sorted(_spelled_row(row, schema) for row in rows)


def _spelled_row(row: dict[str, Any], schema: dict[str, Any]) -> str:
    return json.dumps(_spelled(row, schema), sort_keys=True)


def _spelled(value: Any, type: Any) -> Any:
    if value is None:
        return None
    match type:
        case {"type": "struct", "fields": fields}:
            return {field["name"]: _spelled(value.get(field["name"]), field["type"]) for field in fields}
        case {"type": "array", "elementType": element}:
            return [_spelled(item, element) for item in value]
        case {"type": "map", "keyType": key, "valueType": item}:
            pairs = value.items() if isinstance(value, dict) else [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in value]
            return sorted([_spelled(one, key), _spelled(other, item)] for one, other in pairs)
        case "float" | "double":
            return repr(float(value))
        case "binary":
            return bytes(value).hex()
        case "date":
            assert isinstance(value, date)
            return value.isoformat()
        case "timestamp":
            assert isinstance(value, datetime)
            return value.astimezone(UTC).isoformat()
        case str() if type.startswith("decimal"):
            assert isinstance(value, Decimal)
            return str(value)
        case _:
            assert isinstance(value, (bool, int, str)), f"{value!r} is no {type}"
            return value
