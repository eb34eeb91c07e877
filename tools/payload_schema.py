"""Writes `docs/reference/task-payload.schema.json`: the JSON schema of the payload that an operator is given.

It is printed from the SDK's own model. With `--check` nothing is written and a stale file is an error.
"""

import json
import sys
from pathlib import Path

from tools.generated import ROOT, settle
from tracelake_sdk.tasks import PAYLOAD_VERSION, TaskPayload

TARGET = Path("docs/reference/task-payload.schema.json")


def schema() -> str:
    """Of payloads as control writes them: cursors in their one spelling."""
    printed = TaskPayload.model_json_schema(mode="serialization")
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:tracelake:task-payload:{PAYLOAD_VERSION}"}
    return json.dumps(named | printed, indent=2, sort_keys=True) + "\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(TARGET, schema(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
