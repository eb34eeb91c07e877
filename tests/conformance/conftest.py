"""The repositories that one suite asks: a new implementation is two lines here."""

from collections.abc import Iterator

import pytest
from support.databases import fresh_database
from support.repositories import Fresh, in_folders, in_memory, on_postgres, on_s3, over_http

IMPLEMENTATIONS = ["memory", "embedded", pytest.param("embedded on S3", marks=pytest.mark.xdist_group("s3")), "postgres", "remote"]


@pytest.fixture(scope="module", params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def fresh(implementation: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Opens an empty repository; a test may ask for many."""
    match implementation:
        case "memory":
            yield in_memory
        case "embedded":
            with in_folders(tmp_path_factory.mktemp("records")) as folders:
                yield folders
        case "embedded on S3":
            server = request.getfixturevalue("s3_server")
            yield lambda: on_s3(server)
        case "postgres":
            with fresh_database(request.getfixturevalue("postgres")) as state, on_postgres(state) as services:
                yield services
        case "remote":
            with fresh_database(request.getfixturevalue("postgres")) as state, over_http(state, tmp_path_factory.mktemp("home")) as services:
                yield services
        case _:
            raise AssertionError(f"no repository is called {implementation}")
