"""A real Postgres for a test run, and a separate migrated database for each test."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tracelake.control.database.migrations import migrate
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.postgres import DATA_DATABASE, STATE_DATABASE, EmbeddedPostgres, prepare_databases

_numbers = itertools.count(1)


@dataclass(frozen=True)
class StateDatabase:
    """One test's own state database."""

    name: str
    service_url: str    # the service's login role, as in production
    owner_url: str
    superuser_url: str
    data_url: str


@contextmanager
def running_postgres(folder: Path) -> Iterator[EmbeddedPostgres]:
    """Not durable, which is only for speed: tests that kill Postgres start their own."""
    with EmbeddedPostgres(folder, find_binaries(), durable=False, options={"max_connections": "300"}) as postgres:
        prepare_databases(postgres.url(), postgres.passwords)
        migrate(postgres.url(STATE_DATABASE, "tracelake_owner"))
        yield postgres


@contextmanager
def fresh_database(postgres: EmbeddedPostgres, template: str = STATE_DATABASE) -> Iterator[StateDatabase]:
    """A copy of the migrated database, or of another one without connections."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE {name} TEMPLATE {template} OWNER tracelake_owner STRATEGY file_copy')  # pyright: ignore[reportArgumentType]
    yield StateDatabase(
        name,
        postgres.url(name, "tracelake_service"),
        postgres.url(name, "tracelake_owner"),
        postgres.url(name),
        postgres.url(DATA_DATABASE, "tracelake_service"),
    )
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # pyright: ignore[reportArgumentType]
