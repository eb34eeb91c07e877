"""Transactions: one connection pool, one name a use case, one database role a transaction."""

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


class Role(StrEnum):
    """What a transaction may do; the login role itself may do nothing."""

    EXECUTE = "tracelake_execute"  # everything but deciding and defining
    DECIDE = "tracelake_decide"    # also decides: completions and their records
    DEFINE = "tracelake_define"    # also defines: DAGs, datasets, rules, policies; what people do


_BECOME: dict[Role, LiteralString] = {Role.DECIDE: "SET LOCAL ROLE tracelake_decide", Role.DEFINE: "SET LOCAL ROLE tracelake_define"}


# A condition that falls away when its value is null: a plan that fits every value would use no index for it.
_MAY_FALL_AWAY = re.compile(r"%\(\w+\)s(::\w+(\[\])?)? IS NULL OR")


# Seconds to go on connecting before the next request tries for itself. The pool doubles its pauses: with its own five minutes it
# would sleep for a minute behind a database that has come back.
_PATIENCE = 4.0


def nobody_watches(moment: str) -> None:
    """The watch of every process outside the chaos suite."""


class Asked(Generic[Found]):
    """A question on its way. Questions that are asked before somebody waits for the first answer cost one wait together."""

    def __init__(self, read: Callable[[], Found]) -> None:
        self._read: Callable[[], Found] = read
        self._found: list[Found] = []

    def answer(self) -> Found:
        """Waits for it the first time; the transaction must still be open."""
        if not self._found:
            self._found.append(self._read())
        return self._found[0]

    def then(self, step: Callable[[Found], Other]) -> "Asked[Other]":
        return Asked(lambda: step(self.answer()))


class Transaction:
    """One open transaction; rows come back as the class that is asked for."""

    def __init__(self, connection: Connection[Any]) -> None:
        self.connection: Connection[Any] = connection
        self._teller: Cursor[Any] = connection.cursor()  # of statements whose answers nobody reads

    def ask(self, row: type[Row], query: LiteralString, /, **values: object) -> Asked[list[Row]]:
        """Sends the question; the database answers what is sent in the order in which it was sent."""
        return Asked(self.connection.cursor(row_factory=class_row(row)).execute(query, values, prepare=_prepare(query)).fetchall)

    def ask_tuples(self, query: LiteralString, /, **values: object) -> Asked[list[tuple[Any, ...]]]:
        return Asked(self.connection.cursor(row_factory=tuple_row).execute(query, values, prepare=_prepare(query)).fetchall)

    def all(self, row: type[Row], query: LiteralString, /, **values: object) -> list[Row]:
        return self.ask(row, query, **values).answer()

    def find(self, row: type[Row], query: LiteralString, /, **values: object) -> Row | None:
        with self.connection.cursor(row_factory=class_row(row)) as cursor:
            return cursor.execute(query, values, prepare=_prepare(query)).fetchone()

    def get(self, row: type[Row], query: LiteralString, missing: str, /, **values: object) -> Row:
        """The row that must be there, or NotFound with the sentence `missing`."""
        found = self.find(row, query, **values)
        if found is None:
            raise NotFound(missing)
        return found

    def tuples(self, query: LiteralString, /, **values: object) -> list[tuple[Any, ...]]:
        return self.ask_tuples(query, **values).answer()

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
        """Sends it; nothing waits for its answer before the next question or the commit, where an error comes to light."""
        self._teller.execute(query, values, prepare=_prepare(query))

    def copy(self, query: LiteralString, lines: Iterable[str]) -> None:
        """COPY … FROM STDIN of these lines; for transactions that were opened with `copies`."""
        with self.connection.cursor() as cursor, cursor.copy(query) as copy:
            copy.write("".join(lines))


class Database:
    """The state database of one process."""

    def __init__(self, url: str, *, size: int, watch: Watch = nobody_watches) -> None:
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
    def transaction(self, name: str, *, role: Role = Role.EXECUTE, copies: bool = False) -> Generator[Transaction]:
        """All of it or nothing of it; `name` is how the chaos suite finds the moments around its commit; `copies` lets it COPY."""
        try:
            with self._pool.connection() as connection:
                # Statements follow each other without waiting, BEGIN and COMMIT too; only a question waits for its answer. COPY takes turns.
                # The driver's own transactions would wait for each of these, and once more at the end. Whatever raises rolls back where the connection is given back.
                with nullcontext() if copies else connection.pipeline():
                    connection.execute("BEGIN", prepare=False)
                    if role is not Role.EXECUTE:
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
        """For questions that need not be answered of one moment: each statement is its own, and one costs one way there and back.

        `patience` is how many seconds to wait for a connection, where that is not the pool's own.
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
        """For one statement that is a transaction by itself; it may be followed by looks."""
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
    connection.autocommit = True  # where a transaction begins and ends is said by `transaction`
    array_literals.install(connection)
    set_json_loads(wire_json.decode, connection)
    connection.execute("SET ROLE tracelake_execute")
    connection.execute("SELECT enter_epoch()")  # whoever connects to another cluster begins an epoch
    # A statement is planned once for a connection, not each time: planning the larger ones takes a hundred times as long as running them.
    # By index then, whatever the tables' sizes were when it was planned: what is small now may be large before it is planned again.
    connection.execute("SET plan_cache_mode = force_generic_plan")
    connection.execute("SET enable_seqscan = off")


@cache
def _prepare(query: LiteralString) -> bool | None:
    """None: as the driver thinks best, which is from the fifth time on; what is not prepared is planned each time."""
    return False if _MAY_FALL_AWAY.search(query) else None
