"""Transactions: one connection pool, one name per use case, one database role per transaction."""

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from functools import cache
from typing import Any, Generic, LiteralString, Self, TypeVar

from psycopg import Connection, Cursor, Error
from psycopg.rows import class_row, scalar_row, tuple_row
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool

from tracelake import wire_json
from tracelake.control.database import array_literals, failures
from tracelake_sdk.errors import NotFound

Row = TypeVar("Row")
Found = TypeVar("Found")
Other = TypeVar("Other")
Watch = Callable[[str], None]


class DatabaseRole(StrEnum):
    """What a transaction may do; the login role itself may do nothing."""

    EXECUTE = "tracelake_execute"  # everything except deciding and defining
    DECIDE = "tracelake_decide"    # also decides: completions and their records
    DEFINE = "tracelake_define"    # also defines: DAGs, datasets, rules, policies


_BECOME: dict[DatabaseRole, LiteralString] = {DatabaseRole.DECIDE: "SET LOCAL ROLE tracelake_decide", DatabaseRole.DEFINE: "SET LOCAL ROLE tracelake_define"}


# A condition that does not apply when its value is null: a generic plan would use no index for it.
_MAY_FALL_AWAY = re.compile(r"%\(\w+\)s(::\w+(\[\])?)? IS NULL OR")


# Seconds of reconnect attempts before the next request tries itself. The pool doubles its pauses: with its default of five minutes it
# could sleep for a minute after the database is available again.
_PATIENCE = 4.0


def no_watch(moment: str) -> None:
    """The default outside the chaos suite: does nothing."""


class Pending(Generic[Found]):
    """The pending result of a query that was sent. Queries sent before the first `result()` share one round trip."""

    def __init__(self, read: Callable[[], Found]) -> None:
        self._read: Callable[[], Found] = read
        self._found: list[Found] = []

    def result(self) -> Found:
        """Waits the first time; the transaction must still be open."""
        if not self._found:
            self._found.append(self._read())
        return self._found[0]

    def then(self, step: Callable[[Found], Other]) -> "Pending[Other]":
        return Pending(lambda: step(self.result()))


class Transaction:
    """One open transaction; rows are returned as the given class."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection: Connection[Any] = connection
        self._writer: Cursor[Any] = connection.cursor()  # for statements without a result

    def send(self, row: type[Row], query: LiteralString, /, **values: object) -> Pending[list[Row]]:
        """Sends the query without waiting; the database executes queries in the order in which they were sent."""
        return Pending(self.connection.cursor(row_factory=class_row(row)).execute(query, values, prepare=_prepare(query)).fetchall)

    def send_tuples(self, query: LiteralString, /, **values: object) -> Pending[list[tuple[Any, ...]]]:
        return Pending(self.connection.cursor(row_factory=tuple_row).execute(query, values, prepare=_prepare(query)).fetchall)

    def all(self, row: type[Row], query: LiteralString, /, **values: object) -> list[Row]:
        return self.send(row, query, **values).result()

    def find(self, row: type[Row], query: LiteralString, /, **values: object) -> Row | None:
        with self.connection.cursor(row_factory=class_row(row)) as cursor:
            return cursor.execute(query, values, prepare=_prepare(query)).fetchone()

    def get(self, row: type[Row], query: LiteralString, missing: str, /, **values: object) -> Row:
        """The row; raises NotFound with the sentence `missing`."""
        found = self.find(row, query, **values)
        if found is None:
            raise NotFound(missing)
        return found

    def tuples(self, query: LiteralString, /, **values: object) -> list[tuple[Any, ...]]:
        return self.send_tuples(query, **values).result()

    def values(self, query: LiteralString, /, **values: object) -> list[Any]:
        """The only column of every row."""
        with self.connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(query, values, prepare=_prepare(query)).fetchall()

    def value(self, query: LiteralString, /, **values: object) -> Any:
        """The only column of the only row."""
        with self.connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(query, values, prepare=_prepare(query)).fetchone()

    def touched(self, query: LiteralString, /, **values: object) -> int:
        """How many rows a statement that ends in RETURNING touched."""
        return len(self.tuples(query, **values))

    def run(self, query: LiteralString, /, **values: object) -> None:
        """Sends a statement without waiting; the next query or the commit raises its error."""
        self._writer.execute(query, values, prepare=_prepare(query))

    def copy(self, query: LiteralString, lines: Iterable[str]) -> None:
        """COPY … FROM STDIN of these lines; for transactions that were opened with `copies`."""
        with self.connection.cursor() as cursor, cursor.copy(query) as copy:
            copy.write("".join(lines))


class Database:
    """The state database of one process."""

    def __init__(self, url: str, *, size: int, watch: Watch = no_watch) -> None:
        self.url: str = url
        self._watch: Watch = watch
        self._pool: ConnectionPool[Connection[Any]] = ConnectionPool(
            url, min_size=1, max_size=size, timeout=10, reconnect_timeout=_PATIENCE, configure=_as_execute, open=False, kwargs={"application_name": "tracelake"}, name="state"
        )

    def __enter__(self) -> Self:
        self._pool.open()
        return self

    def __exit__(self, *reason: object) -> None:
        self._pool.close()

    @contextmanager
    def transaction(self, name: str, *, role: DatabaseRole = DatabaseRole.EXECUTE, copies: bool = False) -> Generator[Transaction]:
        """All or nothing; the chaos suite finds the moments around the commit by `name`; `copies` allows COPY."""
        try:
            with self._pool.connection() as connection:
                # Statements are sent without waiting, also BEGIN and COMMIT; only a query waits for its result. COPY cannot be pipelined.
                # The driver's own transactions would wait for each of these, and once more at the end. After an error, returning the connection rolls back.
                with nullcontext() if copies else connection.pipeline():
                    connection.execute("BEGIN", prepare=False)
                    if role is not DatabaseRole.EXECUTE:
                        connection.execute(_BECOME[role], prepare=False)
                    yield Transaction(connection)
                    self._watch(f"{name}:before_commit")
                    connection.execute("COMMIT", prepare=False)
                self._watch(f"{name}:after_commit")
        except Error as error:
            failures.raise_if_away(error)
            failures.raise_if_unstorable(error)
            raise

    @contextmanager
    def looking(self, *, patience: float | None = None) -> Generator[Transaction]:
        """For queries that need no common snapshot: each statement is its own transaction and costs one round trip.

        `patience`: seconds to wait for a connection; default: that of the pool.
        """
        try:
            with self._pool.connection(patience) as connection:
                yield Transaction(connection)
        except Error as error:
            failures.raise_if_away(error)
            failures.raise_if_unstorable(error)
            raise

    @contextmanager
    def at_once(self, name: str) -> Generator[Transaction]:
        """For one statement that is its own transaction; reads may follow."""
        with self.looking() as tx:
            self._watch(f"{name}:before_commit")
            yield tx
            self._watch(f"{name}:after_commit")

    def check(self) -> None:
        """Raises Unavailable unless the database answers and takes writes."""
        with self.looking(patience=_PATIENCE) as tx:
            if tx.value("SELECT current_setting('transaction_read_only')") == "on":
                raise failures.read_only()


def _as_execute(connection: Connection[Any]) -> None:
    connection.autocommit = True  # `transaction` sends BEGIN and COMMIT
    array_literals.install(connection)
    set_json_loads(wire_json.decode, connection)
    connection.execute("SET ROLE tracelake_execute")
    connection.execute("SELECT enter_epoch()")  # the first connection to another cluster starts an epoch
    # A statement is planned once per connection, not each time: planning the larger ones takes a hundred times as long as running them.
    # Always by index, whatever the tables' sizes at planning time: a small table may be large before the next planning.
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET enable_seqscan = off")


@cache
def _prepare(query: LiteralString) -> bool | None:
    """None: the driver's default, which prepares from the fifth execution on; an unprepared statement is planned each time."""
    return False if _MAY_FALL_AWAY.search(query) else None
