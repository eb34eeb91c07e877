"""The interface of an operator: its payload and its result.

An operator is a pure function of its payload: the same payload gives the same events and state, on every attempt and every worker.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.tasks import TaskPayload
from tracelake_sdk.tasks.events import EventDraft, EventKind


@dataclass(frozen=True)
class OperatorResult:
    """The events to emit and the operator's new state; None leaves the state unchanged."""

    events: list[EventDraft] = field(default_factory=list)
    state: dict[str, Any] | None = None


Operator = Callable[[TaskPayload], OperatorResult]
_Model = TypeVar("_Model", bound=BaseModel)


def read(model: type[_Model], value: object, *, what: str) -> _Model:
    """The value as its model; raises OperatorFailed `{what}_invalid`, which does not contain the value."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "its top"
        raise OperatorFailed(f"{what}_invalid", f"The {what} is not valid at {place}: {first['msg']}.", retry=False) from None


def rewriting(payload: TaskPayload) -> tuple[EventKind, str]:
    """Kind and revision of the events that this trigger causes: a rewrite causes rewrites, with a revision derived from it so that a retry emits the same."""
    if payload.trigger.event_kind is EventKind.REWRITTEN:
        return EventKind.REWRITTEN, str(payload.trigger.id)
    return EventKind.MATERIALIZED, ""
