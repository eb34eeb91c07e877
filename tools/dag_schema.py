"""Writes `sdk/src/tracelake_sdk/dags/dag.schema.json`: the JSON Schema of DAG files, which editors read and `tracelake init` copies into a project.

With `--check` nothing is written and a stale file is an error.
"""

import json
import sys
from pathlib import Path

from tools.generated import ROOT, settle
from tracelake.control.deploys.dag_schema import dag_file_schema

TARGET = Path("sdk/src/tracelake_sdk/dags/dag.schema.json")


def schema() -> str:
    return json.dumps(dag_file_schema(), indent=1, sort_keys=True) + "\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(TARGET, schema(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
