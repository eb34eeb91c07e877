"""One migrated database that is only looked at: tests of what is refused change nothing."""

from collections.abc import Iterator

import pytest
from support.databases import fresh_database

from tracelake.embedded.postgres import EmbeddedPostgres


@pytest.fixture(scope="module")
def postgres_state(postgres: EmbeddedPostgres) -> Iterator[str]:
    with fresh_database(postgres) as fresh:
        yield fresh.service_url
