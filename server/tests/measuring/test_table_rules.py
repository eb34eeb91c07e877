"""Rules about the whole table, also after a moved base: a rebase gives the same result as a new measurement."""

from typing import Any

import pyarrow as pa
import pytest
from support.sizes import seeded, size

from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RuleScope, RuleToMeasure, TableRuleState, Unique

from .benches import Bench, rule, table_files

TABLE = RuleScope.TABLE
RULES = [
    rule(NotNull(column="value"), 1, TABLE), rule(Range(column="id", low=5), 2, TABLE), rule(Enumerated(column="value", values=("a", "b")), 3, TABLE),
    rule(Regex(column="value", pattern="[a-c]"), 4, TABLE), rule(Unique(columns=("id",)), 5, TABLE), rule(Unique(columns=("value",)), 6, TABLE),
    rule(NotNull(column="value"), 7), rule(Enumerated(column="value", values=("a",)), 8), rule(Range(column="id", high=8, null_passes=False), 9), rule(Unique(columns=("value",)), 10),
]  # fmt: skip


def rows(*given: tuple[Any, Any]) -> pa.Table:
    return pa.table({"id": pa.array([id for id, _ in given], pa.int64()), "value": pa.array([value for _, value in given], pa.string())})


def counts(found: OutputMeasured) -> dict[int, tuple[int | None, int, str | None]]:
    return {measurement.rule_id.int: (measurement.violations, measurement.examined, measurement.error) for measurement in found.rules}


@pytest.mark.proves("G2.3")
def test_a_table_rule_speaks_of_what_stays_and_of_the_batch(bench: Bench):
    current = table_files(bench.stage(rows((1, "a"), (9, None), (None, "x"))))
    found = bench.stage(rows((1, "a"), (7, "c"), (7, None)), current=current, rules=RULES[:6])
    assert counts(found) == {1: (2, 6, None), 2: (2, 6, None), 3: (2, 6, None), 4: (1, 6, None), 5: (2, 6, None), 6: (1, 6, None)}


def test_a_scan_before_leaves_the_engine_free_to_look_for_repeated_keys(bench: Bench):
    found = bench.stage(rows((1, "a"), (2, "a")), rules=[rule(Regex(column="value", pattern="a"), 1), rule(Unique(columns=("value",)), 2, TABLE)])
    assert counts(found) == {1: (0, 2, None), 2: (1, 2, None)}


def test_a_column_that_came_later_is_null_in_older_files(bench: Bench):
    old = table_files(bench.stage(pa.table({"id": [1, 2]})))
    asked = [rule(NotNull(column="value"), 1, TABLE), rule(Regex(column="value", pattern="x", null_passes=False), 2, TABLE), rule(Unique(columns=("value",)), 3, TABLE),
             rule(Range(column="id", low=2), 4, TABLE)]  # fmt: skip
    found = bench.stage(rows((3, "x"), (4, "x")), current=old, rules=asked)
    assert counts(found) == {1: (2, 4, None), 2: (2, 4, None), 3: (1, 4, None), 4: (1, 4, None)}
    schema = found.table_schema
    fewer = bench.stage(pa.table({"id": [5]}), current=[*old, *table_files(found)], table_schema=schema, rules=[*asked[:2], rule(NotNull(column="value"), 5)])
    assert counts(fewer) | {5: None} == {1: (3, 5, None), 2: (3, 5, None), 5: None}
    assert "The column value does not exist" in (fewer.rules[2].error or "")  # of the batch itself


def test_a_table_rule_on_a_column_that_is_nowhere_says_so(bench: Bench):
    found = bench.stage(rows((1, "a")), rules=[rule(NotNull(column="gone"), 1, TABLE), rule(Unique(columns=("gone",)), 2, TABLE)])
    assert [measurement.error for measurement in found.rules] == ["The column gone does not exist."] * 2


@pytest.mark.proves("T8.2")
@pytest.mark.parametrize("strategy", ["append", "replace"])
def test_a_rebase_says_what_measuring_again_would_say(bench: Bench, strategy: str):
    chance = seeded()
    for _ in range(size(3, 60)):
        bench.unique_key, bench.update_strategy = ["id"], strategy

        def some(most: int) -> pa.Table:
            return rows(*((chance.choice([None, *range(12)]), chance.choice([None, "a", "b", "c", "x"])) for _ in range(chance.randint(0, most))))

        current = table_files(bench.stage(some(6))) + table_files(bench.stage(some(6)))
        attempt = bench.attempt()
        files = [bench.write(attempt, f"f{number}", some(5)) for number in range(2)]
        output = bench.output(attempt, files, current=current, rules=RULES)
        found = bench.measured(output)
        for _ in range(2):
            added = table_files(bench.stage(some(4)))
            removed = [chance.choice(output.staged.current).path] if strategy == "replace" and output.staged.current and chance.random() < 0.3 else []
            output = bench.again(output, found, added, removed)
            found = bench.measured(output)
            left = {file.path: file for file in output.staged.current} | {file.path: file for moved in output.moved for file in moved.added}
            gone = {path for moved in output.moved for path in moved.removed}
            now = [file for path, file in left.items() if path not in gone]
            again = bench.measured(output.model_copy(update={"staged": output.staged.model_copy(update={"current": now}), "previous": None, "moved": []}))
            assert (counts(found), found.rows, found.duplicates) == (counts(again), again.rows, again.duplicates)
            assert bench.rows(found.files) == bench.rows(again.files)


def test_a_rule_that_came_later_is_measured_against_the_base_as_it_is_now(bench: Bench):
    attempt = bench.attempt()
    output = bench.output(attempt, [bench.write(attempt, "a", rows((1, "a")))], current=table_files(bench.stage(rows((2, None)))))
    first = bench.measured(output)
    moved = bench.again(output, first, table_files(bench.stage(rows((3, None), (1, "b")))))
    second = bench.measured(moved)
    later: list[RuleToMeasure] = [rule(NotNull(column="value"), 1, TABLE), rule(Unique(columns=("id",)), 2, TABLE)]
    found = bench.measured(moved.model_copy(update={"previous": second, "rules": later}))
    assert counts(found) == {1: (2, 4, None), 2: (1, 4, None)}


UNIQUE_VALUE = rule(Unique(columns=("value",)), 6, TABLE)


def known(violations: int, revision: int = 1) -> list[TableRuleState]:
    return [TableRuleState(rule_id=UNIQUE_VALUE.id, revision=revision, violations=violations)]


@pytest.mark.proves("G2.3")
@pytest.mark.parametrize("strategy", ["append", "replace"])
def test_a_table_that_repeats_a_key_already_is_not_unique_whatever_the_batch_holds(bench: Bench, strategy: str):
    bench.unique_key, bench.update_strategy = ["id"], strategy
    current = table_files(bench.stage(rows((1, "a"), (2, "a"), (3, "a"))))
    assert counts(bench.stage(rows((4, "b")), current=current, rules=[UNIQUE_VALUE])) == {6: (2, 4, None)}
    # Also where the batch has no rows at all: what stays is still the table.
    assert counts(bench.stage(current=current, rules=[UNIQUE_VALUE], table_schema=bench.stage(rows((1, "a"))).table_schema)) == {6: (2, 3, None)}


@pytest.mark.proves("G2.3")
@pytest.mark.proves("G2.8")
def test_what_is_known_of_the_table_is_added_to_and_not_counted_again(bench: Bench):
    bench.unique_key, bench.update_strategy = ["id"], "append"
    current = table_files(bench.stage(rows((1, "a"), (2, "a"), (3, "b"))))
    batch = rows((4, "b"), (5, "c"), (6, "c"))
    assert counts(bench.stage(batch, current=current, rules=[UNIQUE_VALUE])) == {6: (3, 6, None)}
    assert counts(bench.stage(batch, current=current, rules=[UNIQUE_VALUE], known=known(1))) == {6: (3, 3, None)}, "the rows of the batch alone were looked at"
    assert counts(bench.stage(batch, current=current, rules=[UNIQUE_VALUE], known=known(1, revision=2))) == {6: (3, 6, None)}, "of another revision nothing is known"


def test_repeats_are_unknown_after_a_replace_in_a_table_with_repeated_keys(bench: Bench):
    bench.update_strategy = "replace"
    stays = table_files(bench.stage(rows((3, "b"))))
    assert counts(bench.stage(rows((4, "b")), current=stays, rules=[UNIQUE_VALUE], known=known(1))) == {6: (1, 2, None)}
    assert counts(bench.stage(rows((4, "c")), current=stays, rules=[UNIQUE_VALUE], known=known(0))) == {6: (0, 1, None)}


def test_after_a_moved_base_the_newest_knowledge_counts(bench: Bench):
    bench.unique_key, bench.update_strategy = ["id"], "append"
    attempt = bench.attempt()
    output = bench.output(attempt, [bench.write(attempt, "a", rows((9, "z")))], rules=[UNIQUE_VALUE], known=known(0))
    first = bench.measured(output)
    assert counts(first) == {6: (0, 1, None)}
    moved = bench.again(output, first, table_files(bench.stage(rows((1, "a"), (2, "a"), (3, "z")))), known=known(1))
    assert counts(bench.measured(moved)) == {6: (2, 1, None)}
    unknown = bench.again(output, first, table_files(bench.stage(rows((1, "a"), (2, "a"), (3, "z")))))
    assert counts(bench.measured(unknown)) == {6: (2, 4, None)}
