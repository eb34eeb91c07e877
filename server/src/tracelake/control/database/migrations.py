"""Migrations: numbered SQL files in sets, each file one transaction, applied once, identified by its hash.

A process names the sets it needs. `pre` files may run while the old code still runs, `post` files only after it has stopped.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString, cast

import psycopg
from psycopg import Connection, errors

from tracelake.control.database.roles import SERVICE, prepare_roles
from tracelake_sdk.errors import MigrationRefused, SettingInvalid, StartFailed

CORE = "core"        # access, outbox, idempotency: what every service needs
RECORDS = "records"  # metadata records and their kinds; with `core` alone it is the records service
TRACE = "trace"      # dags, registry, events, tasks, runs
ALL_SETS = (CORE, RECORDS, TRACE)

APPLIED: LiteralString = "SELECT set, name, sha256 FROM schema_migration"
_LOCK = 0x7472616365  # one migration at a time, across all processes


@dataclass(frozen=True)
class Migration:
    set: str
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def shipped(sets: tuple[str, ...] = ALL_SETS) -> list[Migration]:
    """The migrations of this release, in order."""
    root = files("tracelake.control.database").joinpath("migrations")
    return [
        Migration(name, file.name.removesuffix(".sql"), file.read_text())
        for name in sets
        for file in sorted(root.joinpath(name).iterdir(), key=lambda file: file.name)
        if file.name.endswith(".sql")
    ]


def migrate(owner_url: str, *, service: str = SERVICE, sets: tuple[str, ...] = ALL_SETS) -> list[str]:
    """Applies missing migrations as the role that owns the schema and returns their names; `service` is the service's login role."""
    with _connected(owner_url, "TRACELAKE__DATABASE__OWNER_URL", "tracelake-migrate") as connection:
        connection.autocommit = True
        connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        prepare_roles(connection, service=service)
        connection.execute(_BOOK)
        applied = _applied(connection)
        done: list[str] = []
        for migration in shipped(sets):
            key = (migration.set, migration.name)
            if key in applied:
                _same(migration, applied[key])
                continue
            with connection.transaction():
                connection.execute(cast("LiteralString", migration.sql))
                connection.execute(
                    "INSERT INTO schema_migration (set, name, sha256) VALUES (%s, %s, %s)", [migration.set, migration.name, migration.sha256]
                )
            done.append(f"{migration.set}/{migration.name}")
        return done


def check(service_url: str, *, sets: tuple[str, ...] = ALL_SETS) -> None:
    """Raises MigrationRefused if a migration of this release is missing or differs in the database, and what `_connected` raises."""
    how = _remedy(sets)
    with _connected(service_url, "TRACELAKE_DATABASE_URL", "tracelake-check") as connection:
        try:
            connection.execute("SET ROLE tracelake_execute")
            applied = connection.execute(APPLIED).fetchall()
        except (errors.UndefinedTable, errors.InsufficientPrivilege, errors.InvalidParameterValue):
            raise MigrationRefused(f"The database has no Tracelake schema yet; {how}.") from None
    compare(applied, sets=sets)


def compare(rows: Sequence[tuple[str, str, str]], *, sets: tuple[str, ...] = ALL_SETS) -> None:
    """Raises MigrationRefused if a migration of this release is missing or differs."""
    how = _remedy(sets)
    applied = {(set, name): sha256 for set, name, sha256 in rows}
    for migration in shipped(sets):
        found = applied.get((migration.set, migration.name))
        if found is None:
            raise MigrationRefused(f"Migration {migration.set}/{migration.name} is missing in the database; {how}.")
        _same(migration, found)


def _connected(url: str, setting: str, program: str) -> Connection[Any]:
    """Raises SettingInvalid for an invalid address, without showing it, and StartFailed if nothing answers."""
    try:
        return psycopg.connect(url, application_name=program)
    except psycopg.ProgrammingError:
        raise SettingInvalid(f"{setting}: the address of a database is like postgresql://role:password@host:5432/name") from None
    except psycopg.OperationalError as error:
        raise StartFailed(f"the database does not answer: {' '.join(str(error).split())}") from None


def _remedy(sets: tuple[str, ...]) -> str:
    return f"run `tracelaked migrate{'' if TRACE in sets else ' --for records'}` with the owner's URL"


def _same(migration: Migration, sha256: str) -> None:
    if sha256 != migration.sha256:
        raise MigrationRefused(
            f"Migration {migration.set}/{migration.name} differs from the one in this release;"
            " run the release that applied it, or restore the database from before."
        )


def _applied(connection: Connection[Any]) -> dict[tuple[str, str], str]:
    rows = connection.execute(APPLIED).fetchall()
    return {(row[0], row[1]): row[2] for row in rows}


_BOOK = """
CREATE TABLE IF NOT EXISTS schema_migration (
    set text NOT NULL,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (set, name)
);
GRANT SELECT ON schema_migration TO tracelake_execute, tracelake_decide;
GRANT USAGE ON SCHEMA public TO tracelake_execute, tracelake_decide;
"""
