# ruff: noqa: S608  # names in the SQL are quoted; SQL of users runs only after the gate has checked it
"""The engine: a DuckDB connection that is opened in advance, locked to the pinned files and to its resources, and used once."""

import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import duckdb

from tracelake import wire_json
from tracelake.query.engine.contract import EngineLimits, Ran, RunRequest, TableToRead, WasRead
from tracelake.query.engine.delta_types import engine_type, fields_of, quoted
from tracelake.query.engine.gate import Statement, Tree, judge
from tracelake.query.engine.replayability import Replayability, judge_replay
from tracelake.query.engine.results import body_of, collect, computed_floats, hash_of, rows_of
from tracelake.query.engine.version_clauses import with_versions
from tracelake_sdk.errors import Purged, QueryRefused
from tracelake_sdk.queries import QueryColumn

ENGINE_VERSION = f"duckdb {duckdb.__version__}"

_BATCH_ROWS = 10_000


class Engine:
    """For one statement: `read` it, then `run` it; `renew` prepares for the next."""

    def __init__(self, limits: EngineLimits, folder: Path) -> None:
        self._limits: EngineLimits = limits
        self._folder: Path = folder
        self._spill: Path | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._statement: tuple[str, Statement] | None = None
        self._used: bool = False
        self._last: list[TableToRead] = []      # what the last statement read
        self._repeated: bool = False            # the one before it read the same
        self._reachable: list[TableToRead] = []  # what this connection can open once it is locked
        self._free_words: frozenset[str] | None = None

    def renew(self) -> None:
        """Opens an unused connection, unless there is one."""
        if self._connection is not None and not self._used:
            return
        self.close()
        self._spill = self._folder / f"spill-{secrets.token_hex(8)}"
        self._connection = duckdb.connect(
            ":memory:",
            config={
                "threads": self._limits.threads,
                "memory_limit": f"{self._limits.memory_mib}MiB",
                "temp_directory": str(self._spill),
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "allow_community_extensions": False,
                "python_enable_replacements": False,
            },
        )
        # Only after the start: set earlier, some of them are ignored.
        self._connection.execute("SET TimeZone = 'UTC'")
        # Files are on this machine, and a connection reads each of them once.
        self._connection.execute("SET disable_parquet_prefetching = true")
        self._connection.execute("SET enable_external_file_cache = false")
        self._connection.execute(f"SET max_temp_directory_size = '{self._limits.spill_mib}MiB'")
        self._connection.execute(f"SET max_execution_time = {int(self._limits.max_seconds * 1000)}")
        self._used = False
        self._reachable = []

    def make_ready(self) -> None:
        """Prepares for the next statement while nobody waits; if it reads what the last two read, its paths are already set.

        No file is opened: nothing is pinned yet.
        """
        self.renew()
        if not self._repeated or self._reachable:
            return
        try:
            self._reach(self._last)
        except (duckdb.Error, OSError):
            self._used, self._repeated = True, False  # the files are gone; nothing to prepare
            self.renew()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)

    def read(self, sql: str) -> WasRead:
        """What the statement reads; raises QueryRefused or QueryInvalid if it may not run."""
        self.renew()
        self._statement = None
        try:
            text, tree = with_versions(sql, self._parse, self._tokenize)
            statement = judge(tree)
        except RecursionError:
            raise QueryRefused("The statement is nested too deeply; split it with WITH, or simplify it.") from None
        self._statement = (text, statement)
        return WasRead(names=list(statement.names))

    def run(self, order: RunRequest) -> tuple[Ran, bytes]:
        try:
            return self._run(order)
        except (duckdb.Error, OSError):
            # DuckDB reports a missing file as a forbidden one.
            if any(not Path(path).exists() for table in order.tables for files in table.files.values() for path in files):
                raise Purged from None
            raise

    def _run(self, order: RunRequest) -> tuple[Ran, bytes]:
        if self._statement is None:
            raise QueryRefused
        text, statement = self._statement
        self._statement = None
        connection = self._locked(order.tables)
        judged = self._judge_replay(connection, statement.tree, order.tables)
        relation = connection.sql(text)
        columns = [QueryColumn(name=name, type=str(type)) for name, type in zip(relation.columns, relation.types, strict=True)]
        reader = relation.to_arrow_reader(min(_BATCH_ROWS, order.row_limit + 1))
        collected = collect(columns, reader.schema, reader, row_limit=order.row_limit, max_bytes=self._limits.max_bytes)
        rows = rows_of(collected)
        computed = judged.computed if judged.computed is None or len(statement.tree.get("select_list", ())) == len(columns) or not judged.computed else None
        left_out = computed_floats(columns, computed)
        why_not = judged.why_not
        if why_not is None and collected.more and not judged.in_order:
            why_not = f"The answer was cut after {collected.table.num_rows:,} rows, and ORDER BY does not determine which."
        ran = Ran(
            columns=columns,
            row_count=collected.table.num_rows,
            more=collected.more,
            result_hash=hash_of(collected, rows, left_out),
            left_out=[columns[place].name for place in left_out],
            replayable=why_not is None,
            why_not=why_not,
        )
        return ran, body_of(collected, rows, order.format)

    # In quotes: see `_locked`.
    def _judge_replay(self, connection: "duckdb.DuckDBPyConnection", tree: Tree, tables: list[TableToRead]) -> Replayability:
        """A unique key identifies a row only if none of its columns is null; rows are checked only if the answer depends on a key."""
        by_keys = judge_replay(tree, {table.name: table.unique_key for table in tables})
        if by_keys == judge_replay(tree, {}):
            return by_keys
        return judge_replay(tree, {table.name: table.unique_key for table in tables if not _has_null_keys(connection, table)})

    def _parse(self, sql: str) -> Tree:
        if self._connection is None:
            self.renew()
        row = cast("duckdb.DuckDBPyConnection", self._connection).execute("SELECT json_serialize_sql($1)", [sql]).fetchone()
        try:
            return wire_json.decode(cast("tuple[Any]", row)[0])
        except wire_json.JSONDecodeError:
            raise QueryRefused("The statement is nested too deeply; split it with WITH, or simplify it.") from None

    def _tokenize(self, sql: str) -> list[tuple[int, str]]:
        """Unreserved keywords count as names."""
        if self._free_words is None:
            connection = cast("duckdb.DuckDBPyConnection", self._connection)
            rows = connection.execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category = 'unreserved'").fetchall()
            self._free_words = frozenset(str(word) for (word,) in rows)
        spelt = sql.encode()
        begun = [(start, kind.name) for start, kind in duckdb.tokenize(sql)]
        ends = [*(start for start, _ in begun[1:]), len(spelt)]
        free = [spelt[start:end].strip().lower().decode(errors="replace") in self._free_words for (start, _), end in zip(begun, ends, strict=True)]
        return [(start, "identifier" if kind == "keyword" and is_free else kind) for (start, kind), is_free in zip(begun, free, strict=True)]

    # In quotes: a class that still exists when its process ends would keep the type alive, and DuckDB prints a warning to stderr.
    def _locked(self, tables: list[TableToRead]) -> "duckdb.DuckDBPyConnection":
        """The connection with a view for each table, which can open nothing else on this machine."""
        self.renew()
        self._used = True
        if tables != self._reachable:
            self._reach(tables)
        self._repeated = tables == self._last and bool(tables)
        self._last = tables
        connection = cast("duckdb.DuckDBPyConnection", self._connection)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for number, table in enumerate(tables):
            connection.execute(f"CREATE TEMP VIEW {quoted(table.name)} AS {_rows(table, number)}")
        return connection

    def _reach(self, tables: list[TableToRead]) -> None:
        """Allows exactly the files of these tables, once the connection is locked."""
        connection = cast("duckdb.DuckDBPyConnection", self._connection)
        for variable in _lists(self._reachable):
            connection.execute(f"RESET VARIABLE {variable}")
        self._reachable = tables
        lists = _lists(tables)
        for variable, files in lists.items():
            connection.execute(f"SET VARIABLE {variable} = $1", [files])
        connection.execute("SET allowed_paths = $1", [[path for files in lists.values() for path in files]])


def _has_null_keys(connection: "duckdb.DuckDBPyConnection", table: TableToRead) -> bool:
    missing = " OR ".join(f"{quoted(column)} IS NULL" for column in table.unique_key)
    return bool(missing) and bool(connection.execute(f"SELECT 1 FROM {quoted(table.name)} WHERE {missing} LIMIT 1").fetchall())


def _lists(tables: Sequence[TableToRead]) -> dict[str, list[str]]:
    """The paths of each reader, by the variable that contains them."""
    return {f"files_{number}_{part}": files for number, table in enumerate(tables) for part, files in enumerate(table.files.values())}


def _rows(table: TableToRead, number: int) -> str:
    """The rows of a table: one reader for each schema its files have, and columns that a file lacks are null in its rows."""
    fields = fields_of(table.table_schema)
    columns = ", ".join(quoted(field["name"]) for field in fields)
    readers = [f"read_parquet(getvariable('files_{number}_{part}'), hive_partitioning = false)" for part in range(len(table.files))]
    if list(table.files) == [table.schema_hash]:
        return f"SELECT {columns} FROM {readers[0]}"
    empty = ", ".join(f"NULL::{engine_type(field['type'])} AS {quoted(field['name'])}" for field in fields)
    parts = [f"SELECT {empty} WHERE false", *(f"SELECT * FROM {reader}" for reader in readers)]
    return f"SELECT {columns} FROM ({' UNION ALL BY NAME '.join(parts)})"
