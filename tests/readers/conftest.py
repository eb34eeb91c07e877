"""The four readers, one process each for the whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .reading import Reader
from .tables import WrittenTable

READERS = ("deltalake", "polars", "duckdb", "spark")


@pytest.fixture(scope="session")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reader]]:
    folder = tmp_path_factory.mktemp("readers")
    all_readers = {name: Reader(name, folder / name) for name in READERS}
    yield all_readers
    for reader in all_readers.values():
        reader.stop()


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, readers: dict[str, Reader]) -> Reader:
    return readers[request.param]


@pytest.fixture
def table(tmp_path: Path) -> WrittenTable:
    return WrittenTable(tmp_path / "lake")
