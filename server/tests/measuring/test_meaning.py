"""Rules mean the same in DuckDB as in plain Python, whatever is in the columns; footers never claim what a scan contradicts."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import rule_oracle as oracle
from support.sizes import size

from tracelake.storage.delta_schemas import delta_schema
from tracelake.storage.local import LocalStorage
from tracelake.worker.measuring.batch import open_file, rows_of
from tracelake.worker.measuring.contract import Limits
from tracelake.worker.measuring.engine import CountingEngine
from tracelake.worker.measuring.footers import facts_of, proved, read_footer, statistics_of
from tracelake.worker.measuring.rule_measuring import Counter
from tracelake.worker.measuring.uniqueness import count_repeated
from tracelake.worker.measuring.workplace import Workplace
from tracelake_sdk.rules import NotNull, Range, Regex, RuleTree
from tracelake_sdk.rules.trees import check_of, columns_of

LIMITS = Limits(threads=1, memory="500MB")
trees = st.one_of(st.sampled_from(sorted(oracle.TYPES)).map(lambda column: NotNull(column=column)), oracle.ranges(), oracle.enums(), oracle.uniques)


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("meaning")
    with CountingEngine(LIMITS, [folder], folder) as engine:
        yield folder, Counter(engine)


def measured(engines: Any, table: pa.Table, rules: list[RuleTree], groups: int = 1) -> list[int | None]:
    """By footers where they prove it and by a scan where not, and by a scan of every rule that has one: they must agree."""
    folder, counter = engines
    shutil.rmtree(folder / "t", ignore_errors=True)
    (folder / "t").mkdir()
    file = folder / "t" / "rows.parquet"
    pq.write_table(table, file, row_group_size=max(table.num_rows // groups, 1))
    opened = open_file(Workplace(LocalStorage(folder, lambda moment: None), "t", folder), "rows.parquet", "")
    rows = rows_of([opened], opened.columns)
    scanned = counter.measure(rows.__class__(rows.local, tuple((count, {}) for count, _ in rows.facts), rows.columns, rows.held), oracle.numbered(rules))
    found = counter.measure(rows, oracle.numbered(rules))
    assert [measurement.violations for measurement in found] == [measurement.violations for measurement in scanned]
    assert [measurement.error for measurement in found] == [None] * len(rules)
    return [measurement.violations for measurement in found]


@pytest.mark.proves("G2.3")
@given(table=oracle.tables(), rules=st.lists(trees, min_size=1, max_size=12), groups=st.integers(1, 3))
@settings(max_examples=size(80, 2000))
def test_every_rule_counts_what_it_means(engines: Any, table: dict[str, list[Any]], rules: list[RuleTree], groups: int):
    assert measured(engines, oracle.to_arrow(table), rules, groups) == [oracle.violations(tree, table) for tree in rules]


@pytest.mark.proves("G2.3")
def test_nan_is_outside_every_range_and_infinity_only_outside_bounds(engines: Any):
    table = {"ratio": [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, None], "short": [float("nan"), 1.0, None, 2.0, float("inf"), 1.5]}
    rules = [Range(column=column, **bounds) for column in table for bounds in ({}, {"low": 0}, {"high": 1}, {"low": 0, "high": 1}, {"low": 0, "low_inside": False}, {"null_passes": False})]  # pyright: ignore[reportArgumentType]
    assert measured(engines, oracle.to_arrow(table), list(rules)) == [1, 2, 2, 3, 4, 2, 1, 1, 4, 4, 1, 2]


@pytest.mark.proves("G2.3")
@given(texts=st.lists(st.text(oracle.SIGNS, max_size=5) | st.none(), min_size=1, max_size=20), patterns=st.lists(oracle.patterns, min_size=1, max_size=6))
@settings(max_examples=size(120, 3000))
def test_every_pattern_matches_the_whole_text_alike(engines: Any, texts: list[str | None], patterns: list[oracle.Pattern]):
    table = {"text": texts}
    rules: list[RuleTree] = [Regex(column="text", pattern=pattern.written, null_passes=bool(number % 2)) for number, pattern in enumerate(patterns)]
    wanted = [oracle.violations(tree, table, pattern.python) for tree, pattern in zip(rules, patterns, strict=True)]
    assert measured(engines, pa.table({"text": pa.array(texts, pa.string())}), rules) == wanted


@pytest.mark.proves("G2.8")
@given(table=oracle.tables(), rules=st.lists(oracle.ranges(), min_size=1, max_size=8), groups=st.integers(1, 3))
@settings(max_examples=size(100, 2000))
def test_footers_never_claim_what_is_not_so(tmp_path_factory: pytest.TempPathFactory, table: dict[str, list[Any]], rules: list[RuleTree], groups: int):
    file = tmp_path_factory.mktemp("footers") / "rows.parquet"
    rows = oracle.to_arrow(table)
    pq.write_table(rows, file, row_group_size=max(rows.num_rows // groups, 1))
    footer = read_footer(file)
    columns = columns_of(oracle_schema(rows))
    facts = facts_of(footer, columns)
    assert not {"ratio", "short", "flag"} & {name for name, known in facts.items() if known.low is not None}  # floating numbers prove nothing
    for tree in [*rules, *(NotNull(column=column) for column in columns)]:
        claimed = proved(check_of(tree, columns), [(footer.rows, facts)])  # pyright: ignore[reportArgumentType]
        assert claimed in (None, oracle.violations(tree, table))
    statistics = statistics_of(columns, facts)
    assert statistics.nulls == {column: sum(value is None for value in values) for column, values in table.items()}
    check_bounds(statistics, table)


def oracle_schema(rows: pa.Table) -> dict[str, Any]:
    return delta_schema(rows.schema)


def check_bounds(statistics: Any, table: dict[str, list[Any]]) -> None:
    for column, low in statistics.min.items():
        high = statistics.max[column]
        for value in table[column]:
            if value is None:
                continue
            if column in ("text",):
                assert low <= value <= high
            else:
                stored = oracle._stored(value, column)
                assert oracle._exact(low, column) <= stored <= oracle._exact(high, column)


def test_long_texts_and_unknown_writers_have_no_bounds(tmp_path: Path):
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"long": ["x" * 33], "brief": ["x"], "number": [1]}), file)
    columns = columns_of(oracle_schema(pq.read_table(file)))
    known = facts_of(read_footer(file), columns)
    assert (known["long"].low, known["brief"].low, known["long"].nulls) == (None, "x", 0)
    file.write_bytes(file.read_bytes().replace(b"parquet-cpp-arrow", b"parquet-xxx-arrow"))
    assert facts_of(read_footer(file), columns) == {}


@pytest.mark.parametrize("memory", ["1MB", "500MB"])
def test_uniqueness_beyond_memory_is_counted_as_exactly(engines: Any, memory: str):
    folder, counter = engines
    table = {"text": ["a", None, "b", "a"] * 20_000, "big": [1, 2, 3, None] * 20_000}
    file = folder / "many.parquet"
    pq.write_table(oracle.to_arrow(table), file)
    for columns, wanted in {("text",): 59998, ("big",): 59997, ("text", "big"): 39998}.items():
        whole = columns == ("big",)
        assert count_repeated(counter.engine, [file], columns, rows=80_000, whole=whole, limits=Limits(threads=1, memory=memory)) == wanted
