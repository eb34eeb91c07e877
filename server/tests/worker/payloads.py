"""Payloads as control hands them out, for operators that are tested as the pure functions they are."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from tracelake.worker.dispatcher.operators.contract import OperatorResult
from tracelake.worker.dispatcher.operators.range_aggregator import range_aggregator
from tracelake_sdk.datasets.scopes import CursorScope, Scope
from tracelake_sdk.tasks import TaskPayload
from tracelake_sdk.tasks.events import EventDraft, EventKind

_SPACE = UUID("0190a0a0-0000-7000-8000-000000000000")


def id_of(name: str) -> UUID:
    return uuid5(_SPACE, name)


def payload(
    operator: str,
    config: dict[str, Any],
    *,
    scope: Scope | None = None,
    event_kind: EventKind | None = EventKind.MATERIALIZED,
    trigger: str = "trigger",
    request: dict[str, Any] | None = None,
    seen_before: bool = False,
    state: dict[str, Any] | None = None,
    outputs: int = 1,
    event_time: datetime | None = None,
    max_events: int = 10_000,
    lease_seconds: float = 30,
    task: str = "task",
    attempt: int = 1,
) -> TaskPayload:
    by_request = request is not None
    return TaskPayload.model_validate(
        {
            "task_id": id_of(task),
            "attempt": attempt,
            "status": "running",
            "org_id": id_of("org"),
            "dag": {"name": "sample", "version": 1},
            "job": {
                "key": "main/sample/job", "name": "job", "operator": operator, "runtime": "dispatcher", "config": config, "config_hash": "h",
                "update_strategy": None, "unique_key": [], "execution_strategy": None, "timeout_seconds": 1800,
            },
            "trigger": {
                "kind": "request" if by_request else "event", "id": id_of(trigger), "event_kind": None if by_request else event_kind,
                "scope": scope and scope.model_dump(), "event_time": event_time, "payload": request or {}, "seen_before": seen_before,
            },
            "inputs": [],
            "locations": {},
            "outputs": [{"index": index, "dataset_uuid": id_of("d"), "dataset_version": id_of("v"), "layer": "bronze", "staged": None} for index in range(outputs)],
            "base": None, "batch": None, "posted": [],
            "state": {"revision": 1 if state else 0, "value": state},
            "idempotency": {"producer_task_id": id_of(task), "key_prefix": str(id_of(task))},
            "slot": {"pool": "default"},
            "limits": {"lease_seconds": lease_seconds, "max_events": max_events},
        }
    )


class Line:
    """An ordered job as control runs it: one task at a time, state moved by each, known scopes recognised."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.state: dict[str, Any] | None = None
        self.completed: set[str] = set()
        self.emitted: list[EventDraft] = []

    def arrive(self, cursor: int | datetime, *, rewritten: bool = False, trigger: str | None = None, max_events: int = 10_000) -> OperatorResult:
        given = self.payload(cursor, rewritten=rewritten, trigger=trigger, max_events=max_events)
        result = range_aggregator(given)
        self.completed.add(str(CursorScope(value=cursor)))
        self.state = result.state or self.state
        self.emitted += result.events
        return result

    def payload(self, cursor: int | datetime, *, rewritten: bool = False, trigger: str | None = None, max_events: int = 10_000) -> TaskPayload:
        scope = CursorScope(value=cursor)
        kind = EventKind.REWRITTEN if rewritten else EventKind.MATERIALIZED
        return payload(
            "range_aggregator", self.config, scope=scope, event_kind=kind, trigger=trigger or f"event of {scope}", state=self.state,
            seen_before=str(scope) in self.completed, max_events=max_events,
        )
