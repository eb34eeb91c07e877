"""Counts the rows of a data frame that break rules, in one aggregation."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tracelake_sdk.rules import RowCount, RuleMeasurement, RuleToMeasure
from tracelake_sdk.rules.trees import Repeated, RuleUnmeasurable, check_of, columns_of
from tracelake_spark.measure.compile_spark import broken, key

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def violations(rows: "DataFrame", rules: Sequence[RuleToMeasure]) -> list[RuleMeasurement]:
    """In the order of the rules, without those that count rows; errors of Spark are raised."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    started = time.perf_counter()
    columns = columns_of(rows.schema.jsonValue())
    counts: list[Column] = [F.count(F.lit(1))]
    checks: list[tuple[RuleToMeasure, int | str]] = []
    for rule in rules:
        if isinstance(rule.tree, RowCount):
            continue
        try:
            check = check_of(rule.tree, columns)
        except RuleUnmeasurable as error:
            checks.append((rule, str(error)))
            continue
        checks.append((rule, len(counts)))
        counts.append(F.count(key(check.columns)) - F.count_distinct(key(check.columns)) if isinstance(check, Repeated) else F.count_if(broken(check)))
    found = rows.agg(*(count.alias(f"c{number}") for number, count in enumerate(counts))).collect()[0]
    share = round((time.perf_counter() - started) * 1000 / max(len(counts) - 1, 1), 3)
    return [
        RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=None, error=place)
        if isinstance(place, str)
        else RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=found[place], examined=found[0], milliseconds=share)
        for rule, place in checks
    ]
