"""Rules: what good data means, and the promotions that were decided by them."""

from tracelake_sdk.rules.rule import (
    Enumerated,
    MeasuringMethod,
    NotNull,
    Range,
    Regex,
    RowCount,
    RuleMeasurement,
    RuleScope,
    RuleToMeasure,
    RuleTree,
    RuleType,
    Severity,
    TableRuleState,
    Unique,
)

__all__ = [
    "Enumerated",
    "MeasuringMethod",
    "NotNull",
    "Range",
    "Regex",
    "RowCount",
    "RuleMeasurement",
    "RuleScope",
    "RuleToMeasure",
    "RuleTree",
    "RuleType",
    "Severity",
    "TableRuleState",
    "Unique",
]
