"""Writes `docs/reference/task-payload.schema.json`: the JSON schema of the payload that an operator is given.

It is printed from the SDK's own model. With `--check` nothing is written and a stale file is an error.
"""

import json
import sys
from pathlib import Path

from tracelake_sdk.tasks import PAYLOAD_VERSION, TaskPayload

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path("docs/reference/task-payload.schema.json")


def schema() -> str:
    """Of payloads as control writes them: cursors in their one spelling."""
    printed = TaskPayload.model_json_schema(mode="serialization")
    named = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:tracelake:task-payload:{PAYLOAD_VERSION}"}
    return json.dumps(named | printed, indent=2, sort_keys=True) + "\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    target = root / TARGET
    if "--check" not in arguments:
        target.write_text(schema())
        return 0
    if not target.exists() or target.read_text() != schema():
        print(f"{TARGET} is stale: run `make docs` and commit it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
