"""Great Expectations on a Spark data frame: one suite, one validation, results as plain verdicts (BOOLEAN_ONLY, its quickest form)."""
# pyright: basic, reportMissingImports=false

import os
from datetime import date
from decimal import Decimal
from itertools import count

os.environ["GX_ANALYTICS_ENABLED"] = "false"

import great_expectations as gx
import great_expectations.expectations as gxe
from gate_session import Rule, name_of, run
from pyspark.sql import DataFrame

context = gx.get_context(mode="ephemeral")
context.variables.progress_bars = {"globally": False}
numbers = count()


def expectation(rule: Rule):
    column, meta = rule["column"], {"rule": name_of(rule)}
    match rule["rule"]:
        case "NOT_NULL":
            return gxe.ExpectColumnValuesToNotBeNull(column=column, meta=meta)
        case "RANGE":
            read = date.fromisoformat if column == "day" else (lambda bound: float(Decimal(bound)))
            return gxe.ExpectColumnValuesToBeBetween(column=column, min_value=read(rule["low"]), max_value=read(rule["high"]), meta=meta)
        case "ENUM":
            return gxe.ExpectColumnValuesToBeInSet(column=column, value_set=rule["values"], meta=meta)
        case "REGEX":
            return gxe.ExpectColumnValuesToMatchRegex(column=column, regex=f"^({rule['pattern']})$", meta=meta)
        case _:
            return gxe.ExpectColumnValuesToBeUnique(column=column, meta=meta)


def judge(rows: DataFrame, rules: list[Rule]) -> set[str]:
    number = next(numbers)
    batch = context.data_sources.add_spark(f"spark-{number}").add_dataframe_asset("rows").add_batch_definition_whole_dataframe("whole")
    suite = context.suites.add(gx.ExpectationSuite(name=f"rules-{number}", expectations=[expectation(rule) for rule in rules]))
    validation = context.validation_definitions.add(gx.ValidationDefinition(name=f"validation-{number}", data=batch, suite=suite))
    result = validation.run(batch_parameters={"dataframe": rows}, result_format="BOOLEAN_ONLY")
    failed = [found for found in result.results if found.exception_info and found.exception_info.get("raised_exception")]
    if failed or len(result.results) != len(rules):
        raise SystemExit(f"{len(result.results)} of {len(rules)} expectations, {len(failed)} of them raised: {failed[:1]}")
    return {found.expectation_config.meta["rule"] for found in result.results if not found.success}


if __name__ == "__main__":
    run(judge)
