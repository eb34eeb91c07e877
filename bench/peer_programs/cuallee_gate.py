"""cuallee on a Spark data frame: one check with all rules, which cuallee counts in one pass of observations and one query for each unique column."""
# pyright: basic, reportMissingImports=false

from datetime import date

from cuallee import Check, CheckLevel
from gate_session import Rule, name_of, run
from pyspark.sql import DataFrame

KINDS = {"NOT_NULL": "is_complete", "RANGE": "is_between", "ENUM": "is_contained_in", "REGEX": "has_pattern", "UNIQUE": "is_unique"}


def add(check: Check, rule: Rule) -> None:
    column = rule["column"]
    method = getattr(check, KINDS[rule["rule"]])
    match rule["rule"]:
        case "RANGE":
            read = date.fromisoformat if column == "day" else float
            method(column, (read(rule["low"]), read(rule["high"])))
        case "ENUM":
            method(column, tuple(rule["values"]))
        case "REGEX":
            method(column, f"^({rule['pattern']})$")
        case _:
            method(column)


def judge(rows: DataFrame, rules: list[Rule]) -> set[str]:
    check = Check(CheckLevel.WARNING, "gate")
    for rule in rules:
        add(check, rule)
    kinds = {method: kind for kind, method in KINDS.items()}
    found = check.validate(rows).collect()
    if len(found) != len(rules):
        raise SystemExit(f"{len(found)} of {len(rules)} rules")
    named = {name_of(rule) for rule in rules}
    broken = {f"{kinds[row['rule']]} {row['column']}" for row in found if row["status"] != "PASS"}
    if not broken <= named:
        raise SystemExit(f"unknown rules {broken - named}")
    return broken


if __name__ == "__main__":
    run(judge)
