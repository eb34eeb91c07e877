"""pandera on a Spark data frame: a schema with all rules, and a second one for the second unique column, because a schema has one unique key."""
# pyright: basic, reportMissingImports=false

import json
from collections import defaultdict
from datetime import date
from decimal import Decimal

import pandera.pyspark as pa
from gate_session import Rule, name_of, run
from pyspark.sql import DataFrame

CHECKS = {"in_range": "RANGE", "isin": "ENUM", "str_matches": "REGEX"}


def column_of(kind, rules: list[Rule]) -> pa.Column:
    checks = []
    for rule in rules:
        match rule["rule"]:
            case "RANGE":
                read = date.fromisoformat if rule["column"] == "day" else Decimal if rule["column"] == "amount" else int
                checks.append(pa.Check.in_range(read(rule["low"]), read(rule["high"])))
            case "ENUM":
                checks.append(pa.Check.isin(rule["values"]))
            case "REGEX":
                checks.append(pa.Check.str_matches(f"^({rule['pattern']})$"))
    return pa.Column(kind, checks, nullable=not any(rule["rule"] == "NOT_NULL" for rule in rules))


def judge(rows: DataFrame, rules: list[Rule]) -> set[str]:
    by_column: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        by_column[rule["column"]].append(rule)
    types = {field.name: field.dataType for field in rows.schema.fields}
    first, second = (rule["column"] for rule in rules if rule["rule"] == "UNIQUE")
    whole = pa.DataFrameSchema({column: column_of(types[column], given) for column, given in by_column.items()}, unique=[first])
    alone = pa.DataFrameSchema({second: pa.Column(types[second], nullable=True)}, unique=[second], strict=False)
    broken: set[str] = set()
    for schema, unique in ((whole, first), (alone, second)):
        found = json.loads(json.dumps(dict(schema.validate(rows).pandera.errors), default=str))
        for error in [error for kind in found.values() for errors in kind.values() for error in errors]:
            broken.add(_name(error, unique))
    named = {name_of(rule) for rule in rules}
    if not broken <= named:
        raise SystemExit(f"unexpected findings: {sorted(broken - named)}")
    return broken


def _name(error: dict[str, str], unique: str) -> str:
    check = error["check"]
    if check == "unique":
        return f"UNIQUE {unique}"
    if check == "not_nullable":
        return f"NOT_NULL {error['column']}"
    return f"{CHECKS.get(check.split('(')[0], check)} {error['column']}"


if __name__ == "__main__":
    run(judge)
