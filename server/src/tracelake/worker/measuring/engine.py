# ruff: noqa: S608  # the SQL is made of checks; names and literals in it are quoted by compile_duckdb
"""The engine that counts: DuckDB, locked to the files that are measured and to its share of the machine."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb

from tracelake.worker.measuring.compile_duckdb import broken, files, text
from tracelake.worker.measuring.contract import Limits
from tracelake_sdk.rule_trees import RowCheck


@contextmanager
def engine(limits: Limits, folders: Sequence[Path], scratch: Path) -> Generator[duckdb.DuckDBPyConnection]:
    """A connection that reads nothing outside `folders` and installs nothing."""
    spill = scratch / "spill"
    spill.mkdir(parents=True, exist_ok=True)
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": limits.threads,
            "memory_limit": limits.memory,
            "temp_directory": str(spill),
            "preserve_insertion_order": False,  # counting needs no order, and keeping it costs memory
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        },
    )
    try:
        connection.execute(f"SET allowed_directories = [{', '.join(text(f'{folder}/') for folder in folders)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        connection.close()


def count_broken(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path], checks: Sequence[RowCheck]) -> list[int | str]:
    """For each check the rows that break it, all in one scan; a text says why a check could not be counted."""
    if not checks or not paths:
        return [0] * len(checks)
    counts = ", ".join(f"count(*) FILTER (WHERE {broken(check)})" for check in checks)
    try:
        row = connection.execute(f"SELECT {counts} FROM {files(paths)}").fetchone()
        return list(row or ())
    except duckdb.Error as error:
        if len(checks) == 1:
            return [f"The engine could not count it ({type(error).__name__})."]
        # One that cannot be counted must not hide the others.
        return [answer for check in checks for answer in count_broken(connection, paths, [check])]
