# ruff: noqa: S608  # the SQL is made of checks; names and literals in it are quoted by compile_duckdb
"""The engine that counts: DuckDB, locked to the files that are measured and to its resources."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from tracelake.worker.measuring.compile_duckdb import broken, files, name, text
from tracelake.worker.measuring.contract import Limits
from tracelake_sdk.rules.trees import RowCheck

_ROWS = '"tracelake rows"'  # a name that no column of a table can have


# Types of DuckDB are annotations in quotes: a class that still exists when its process ends would keep them alive, and DuckDB prints a warning to stderr.
class CountingEngine:
    """Reads nothing outside `folders`, installs nothing, and starts only when something must be counted."""

    def __init__(self, limits: Limits, folders: Sequence[Path], scratch: Path) -> None:
        self.limits: Limits = limits
        self._folders: Sequence[Path] = folders
        self._spill: Path = scratch / "spill"
        self._connection: duckdb.DuckDBPyConnection | None = None

    def __enter__(self) -> "CountingEngine":
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def connection(self) -> "duckdb.DuckDBPyConnection":
        if self._connection is None:
            self._connection = self._start()
        return self._connection

    def read_row(self, statement: str) -> tuple[Any, ...] | None:
        """The one row that the statement returns, if any. The result is read to its end: a connection refuses most work while a result is open."""
        rows = self.connection.execute(statement).fetchall()
        return rows[0] if rows else None

    def read_table(self, statement: str) -> Any:
        """The result of the statement, as an Arrow table."""
        return self.connection.sql(statement).to_arrow_table()

    def _start(self) -> "duckdb.DuckDBPyConnection":
        self._spill.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(
            ":memory:",
            config={
                "threads": self.limits.threads,
                "memory_limit": self.limits.memory,
                "temp_directory": str(self._spill),
                "preserve_insertion_order": False,  # counting needs no order, and keeping it costs memory
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            },
        )
        connection.execute(f"SET allowed_directories = [{', '.join(text(f'{folder}/') for folder in self._folders)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection


def count_broken(engine: CountingEngine, paths: Sequence[Path], checks: Sequence[RowCheck], few_values: frozenset[str] = frozenset()) -> list[int | str]:
    """For each check the rows that break it, all in one statement; a string says why a check could not be counted.

    A column of `few_values` is grouped first, so that each of its values is checked once.
    """
    if not checks or not paths:
        return [0] * len(checks)
    try:
        row = engine.read_row(_statement(files(paths), checks, few_values))
        return list(row or ())
    except duckdb.Error as error:
        if len(checks) == 1:
            return [f"The engine could not count it ({type(error).__name__})."]
        # A check that cannot be counted must not hide the others.
        return [answer for check in checks for answer in count_broken(engine, paths, [check], few_values)]


def _statement(rows: str, checks: Sequence[RowCheck], few_values: frozenset[str]) -> str:
    every: list[str] = []
    grouped: dict[str, list[str]] = {}
    for number, check in enumerate(checks):
        if check.column in few_values:
            counted = f"coalesce(sum({_ROWS}) FILTER (WHERE {broken(check)}), 0)::BIGINT AS c{number}"
            grouped.setdefault(check.column, []).append(counted)
        else:
            every.append(f"count(*) FILTER (WHERE {broken(check)}) AS c{number}")
    parts = [f"(SELECT {', '.join(every)} FROM {rows})"] if every else []
    parts += [f"(SELECT {', '.join(counts)} FROM (SELECT {name(column)}, count(*) AS {_ROWS} FROM {rows} GROUP BY 1))" for column, counts in grouped.items()]
    return f"SELECT {', '.join(f'c{number}' for number in range(len(checks)))} FROM {', '.join(parts)}"
