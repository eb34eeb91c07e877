"""Results as Python, and what is said where a package is missing."""

import importlib
from typing import Any

import pytest

from tracelake_sdk.errors import PackageMissing
from tracelake_sdk.queries import QueryAnswer
from tracelake_sdk.queries.results import QueryResult

ANSWER = {
    "columns": [{"name": "id", "type": "BIGINT"}, {"name": "id", "type": "VARCHAR"}],
    "rows": [["1", "a"], [None, None]],
    "more": False,
    "receipt": {
        "id": "00000000-0000-0000-0000-000000000001", "at": "2024-01-10T05:00:00Z", "pins": [], "sql_sha256": "", "result_hash": "h", "row_count": 2,
        "milliseconds": 1, "engine_version": "e", "replayable": True,
    },
}  # fmt: skip


@pytest.fixture
def result() -> QueryResult:
    return QueryResult(QueryAnswer.model_validate(ANSWER))


def test_iterating_gives_rows_with_values_of_their_types(result: QueryResult) -> None:
    assert list(result) == [(1, "a"), (None, None)]
    assert (len(result), result.more, result.receipt.result_hash) == (2, False, "h")


def test_columns_of_one_name_stay_two(result: QueryResult) -> None:
    assert result.arrow().column_names == ["id", "id"]


@pytest.mark.parametrize(("method", "package"), [("arrow", "pyarrow"), ("pandas", "pandas")])
def test_a_missing_package_is_named(result: QueryResult, method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.import_module

    def missing(name: str, *rest: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return there(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(PackageMissing, match=rf"{method}\(\) needs the package `{package}`"):
        getattr(result, method)()
