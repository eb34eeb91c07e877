"""Orders for operators, as a wrapper would write them."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from tracelake_sdk.tasks.operator_files import Order


def order_of(folder: Path, operator: str, config: dict[str, Any], **more: Any) -> Order:
    """An order whose one output is staged below `folder/staging`, and whose location is `folder/landing`; `output` changes what is said of the output."""
    output = {"index": 0, "staging": f"file://{folder}/staging", "everything": True, "scopes": [], "partition_by": None, "table_schema": None}
    (folder / "batches").mkdir(parents=True, exist_ok=True)
    fields = {
        "task_id": str(uuid4()), "attempt": 1, "job": "job", "operator": operator, "config": config, "locations": {"landing": (folder / "landing").as_uri()}, "update_strategy": "append", "unique_key": [],
        "trigger_kind": "request", "event_kind": None, "trigger_payload": {}, "inputs": [], "outputs": [output | more.pop("output", {})], "state": None,
        "posted": [], "batches": str(folder / "batches"), "scratch": str(folder), "outcome": str(folder / "outcome.json"),
    }
    return Order.model_validate_json(json.dumps(fields | more))
