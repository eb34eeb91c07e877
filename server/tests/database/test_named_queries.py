"""Every named query is prepared against the migrated schema, and is used by its store."""

import importlib
import re
from pathlib import Path

import psycopg
import pytest

import tracelake.control
from tracelake.control.database.named_queries import load

ROOT = Path(tracelake.control.__file__).parent
FILES = sorted(path for path in ROOT.rglob("*.sql") if "migrations" not in path.parts and path.name != "schema.sql")
QUERIES = [(path, name) for path in FILES for name in load(".".join(["tracelake.control", *path.parent.relative_to(ROOT).parts, "x"]), path.name)]


def _query(path: Path, name: str) -> str:
    return load(".".join(["tracelake.control", *path.parent.relative_to(ROOT).parts, "x"]), path.name)[name]


@pytest.mark.parametrize(("path", "name"), QUERIES, ids=[f"{path.stem}.{name}" for path, name in QUERIES])
def test_every_named_query_fits_the_schema(path: Path, name: str, postgres_state: str):
    numbers: dict[str, int] = {}

    def numbered(match: re.Match[str]) -> str:
        return f"${numbers.setdefault(match[1], len(numbers) + 1)}"

    statement = re.sub(r"%\((\w+)\)s", numbered, _query(path, name)).replace("%%", "%")
    with psycopg.connect(postgres_state) as connection:
        connection.execute("SET ROLE tracelake_decide")
        if statement.startswith("COPY "):  # is not prepared; one without a line is checked as well
            with connection.cursor().copy(statement):  # pyright: ignore[reportArgumentType]
                return
        connection.execute(f"PREPARE checked AS {statement}")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("path", "name"), QUERIES, ids=[f"{path.stem}.{name}" for path, name in QUERIES])
def test_every_named_query_is_used_by_the_module_beside_it(path: Path, name: str):
    beside = [module.read_text() for module in path.parent.glob("*.py")]
    assert any(f'sql["{name}"]' in text for text in beside), f"nobody uses {path.name}:{name}"


def test_a_misspelt_column_is_seen(postgres_state: str):
    with psycopg.connect(postgres_state) as connection, pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute("SET ROLE tracelake_decide")
        connection.execute("PREPARE checked AS SELECT lease_expire_at FROM task")


def test_every_store_is_one_of_a_slice_and_loads_its_queries():
    stores = [importlib.import_module(".".join(["tracelake.control", *path.parent.relative_to(ROOT).parts, "store"])) for path in ROOT.rglob("store.py")]
    assert len(stores) >= 9
    assert all(store.sql for store in stores)
