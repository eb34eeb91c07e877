"""What the gate row measures: rows of eight columns, and twenty rules about them, as data that every contender translates into its own words.

`rule` is one of NOT_NULL, RANGE, ENUM, REGEX and UNIQUE; a regex is meant for the whole text.
"""

from typing import Any
from uuid import UUID

from pydantic import TypeAdapter

from tracelake_sdk.rules import RuleScope, RuleToMeasure, RuleTree

COLUMNS = ("id", "reference", "amount", "quantity", "score", "day", "country", "status")
COUNTRIES = ("AT", "BE", "CH", "DE", "ES", "FR", "IT", "NL", "PL", "SE")
STATUSES = ("open", "paid", "sent", "returned")

RULES: list[dict[str, Any]] = [
    *({"rule": "NOT_NULL", "column": column} for column in COLUMNS),
    {"rule": "RANGE", "column": "id", "low": 0, "high": 1_000_000_000},
    {"rule": "RANGE", "column": "amount", "low": "0.00", "high": "1000.00"},
    {"rule": "RANGE", "column": "quantity", "low": 1, "high": 20},
    {"rule": "RANGE", "column": "score", "low": 0, "high": 1000},
    {"rule": "RANGE", "column": "day", "low": "2024-01-01", "high": "2024-12-31"},
    {"rule": "ENUM", "column": "country", "values": list(COUNTRIES)},
    {"rule": "ENUM", "column": "status", "values": list(STATUSES)},
    {"rule": "ENUM", "column": "quantity", "values": list(range(1, 21))},
    {"rule": "REGEX", "column": "reference", "pattern": "[A-Z]{2}-[0-9a-f]{12}"},
    {"rule": "REGEX", "column": "country", "pattern": "[A-Z]{2}"},
    {"rule": "UNIQUE", "column": "id"},
    {"rule": "UNIQUE", "column": "reference"},
]

# Spark makes the rows from the numbers 0 to n; the multiplier is odd, so that no reference comes twice, and they come in no order.
EXPRESSIONS = (
    "id",
    "concat('R', chr(65 + id % 26), '-', lpad(lower(hex((id * 48271 + 11) % 281474976710656)), 12, '0')) AS reference",
    "CAST((id * 7919 % 100000) / 100 AS DECIMAL(10,2)) AS amount",
    "CAST(1 + id * 31 % 20 AS INT) AS quantity",
    "CAST(id * 104729 % 1001 AS INT) AS score",
    "date_add(DATE'2024-01-01', CAST(id * 13 % 366 AS INT)) AS day",
    f"element_at(array({', '.join(repr(country) for country in COUNTRIES)}), CAST(1 + id * 3 % {len(COUNTRIES)} AS INT)) AS country",
    f"element_at(array({', '.join(repr(status) for status in STATUSES)}), CAST(1 + id * 7 % {len(STATUSES)} AS INT)) AS status",
)
# A few rows that break one rule each, beside some that break none: who does not find every one of these is not measured.
FAULTY = """
    SELECT * FROM VALUES
        (1L, 'RA-000000000001', 1.00, 1, 1, DATE'2024-01-01', 'AT', 'open'),
        (2L, 'RA-000000000002', 1.00, 1, 1, DATE'2024-01-01', 'AT', 'open'),
        (2L, 'RA-000000000003', 1.00, 1, 1, DATE'2024-01-01', 'AT', 'open'),
        (4L, 'RA-000000000001', 1.00, 1, 1, DATE'2024-01-01', 'AT', 'open'),
        (5L, 'RA-000000000005', 1000.01, 1, 1, DATE'2024-01-01', 'AT', 'open'),
        (6L, 'RA-000000000006', 1.00, 1, 1001, DATE'2024-01-01', 'AT', 'open'),
        (7L, 'RA-000000000007', 1.00, 1, 1, DATE'2025-01-01', 'AT', 'open'),
        (8L, 'RA-000000000008', 1.00, 1, 1, DATE'2024-01-01', 'XX', 'open'),
        (9L, 'RA-000000000009', 1.00, 1, 1, DATE'2024-01-01', 'AT', 'lost'),
        (10L, 'ra-00000000000a', 1.00, 1, 1, DATE'2024-01-01', 'AT', 'open'),
        (11L, 'RA-00000000000b', 1.00, 1, 1, DATE'2024-01-01', 'AT', NULL)
    AS t (id, reference, amount, quantity, score, day, country, status)
"""
# Which of the twenty a few rows of FAULTY break.
BROKEN = frozenset({"NOT_NULL status", "RANGE amount", "RANGE score", "RANGE day", "ENUM country", "ENUM status", "REGEX reference", "UNIQUE id", "UNIQUE reference"})

_TREE: TypeAdapter[RuleTree] = TypeAdapter(RuleTree)


def name_of(rule: dict[str, Any]) -> str:
    return f"{rule['rule']} {rule['column']}"


def to_measure(rule: dict[str, Any], number: int, scope: RuleScope = RuleScope.BATCH) -> RuleToMeasure:
    """The rule as a worker gets it."""
    given = {"type": rule["rule"]} | ({"columns": [rule["column"]]} if rule["rule"] == "UNIQUE" else {"column": rule["column"]})
    given |= {key: rule[key] for key in ("low", "high", "values", "pattern") if key in rule}
    return RuleToMeasure(id=UUID(int=number + 1), revision=1, scope=scope, tree=_TREE.validate_python(given))
