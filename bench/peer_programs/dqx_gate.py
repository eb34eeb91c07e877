"""DQX on a Spark data frame: all checks applied at once, and one aggregation over the errors that they leave in each row."""
# pyright: basic, reportMissingImports=false

from datetime import date
from unittest.mock import create_autospec

from databricks.labs.dqx import check_funcs
from databricks.labs.dqx.engine import DQEngine
from databricks.labs.dqx.rule import DQDatasetRule, DQRowRule
from databricks.sdk import WorkspaceClient
from gate_session import Rule, name_of, run
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812


def check(rule: Rule):
    column, common = rule["column"], {"name": name_of(rule), "criticality": "error"}
    match rule["rule"]:
        case "NOT_NULL":
            return DQRowRule(check_func=check_funcs.is_not_null, column=column, **common)
        case "RANGE":
            read = date.fromisoformat if column == "day" else (lambda bound: int(float(bound)))
            limits = {"min_limit": read(rule["low"]), "max_limit": read(rule["high"])}
            return DQRowRule(check_func=check_funcs.is_in_range, column=column, check_func_kwargs=limits, **common)
        case "ENUM":
            return DQRowRule(check_func=check_funcs.is_in_list, column=column, check_func_kwargs={"allowed": rule["values"]}, **common)
        case "REGEX":
            return DQRowRule(check_func=check_funcs.regex_match, column=column, check_func_kwargs={"regex": f"^({rule['pattern']})$"}, **common)
        case _:
            return DQDatasetRule(check_func=check_funcs.is_unique, columns=[column], **common)


def judge(rows: DataFrame, rules: list[Rule]) -> set[str]:
    # The engine asks for a workspace and needs none for this, as its own guide to local tests says.
    engine = DQEngine(create_autospec(WorkspaceClient), spark=rows.sparkSession)
    checked = engine.apply_checks(rows, [check(rule) for rule in rules])
    found = checked.select(F.explode("_errors").alias("error")).groupBy("error.name").count().collect()
    return {row["name"] for row in found}


if __name__ == "__main__":
    run(judge)
