"""Soda Core on a Spark view: one scan with all checks, which Soda joins into as few queries as it can."""
# pyright: basic, reportMissingImports=false

import json

from gate_session import Rule, name_of, run
from pyspark.sql import DataFrame
from soda.scan import Scan


def check(rule: Rule) -> dict[str, object]:
    column, named = rule["column"], {"name": name_of(rule)}
    match rule["rule"]:
        case "NOT_NULL":
            return {f"missing_count({column}) = 0": named}
        case "RANGE" if column == "day":  # `valid min` is for numbers
            outside = f"sum(case when {column} not between date'{rule['low']}' and date'{rule['high']}' then 1 else 0 end)"
            return {"day_outside = 0": named | {"day_outside expression": outside}}
        case "RANGE":
            return {f"invalid_count({column}) = 0": named | {"valid min": float(rule["low"]), "valid max": float(rule["high"])}}
        case "ENUM":
            return {f"invalid_count({column}) = 0": named | {"valid values": rule["values"]}}
        case "REGEX":
            return {f"invalid_count({column}) = 0": named | {"valid regex": f"^({rule['pattern']})$"}}
        case _:
            return {f"duplicate_count({column}) = 0": named}


def judge(rows: DataFrame, rules: list[Rule]) -> set[str]:
    rows.createOrReplaceTempView("rows")
    scan = Scan()
    scan.set_scan_definition_name("gate")
    scan.set_data_source_name("spark_df")
    scan.add_spark_session(rows.sparkSession, data_source_name="spark_df")
    scan.disable_telemetry()
    scan.add_sodacl_yaml_str(json.dumps({"checks for rows": [check(rule) for rule in rules]}))  # JSON is YAML
    scan.execute()
    if scan.has_error_logs():
        raise SystemExit(scan.get_error_logs_text())
    checks = scan.get_scan_results()["checks"]
    if len(checks) != len(rules) or any(found["outcome"] not in ("pass", "fail") for found in checks):
        raise SystemExit(f"{len(checks)} of {len(rules)} checks, with outcomes {sorted({str(found['outcome']) for found in checks})}")
    return {found["name"] for found in checks if found["outcome"] == "fail"}


if __name__ == "__main__":
    run(judge)
