"""`noop`: does nothing; if the job has an output, it emits the scope of its trigger."""

from tracelake.worker.dispatcher.operators.contract import OperatorResult, rewriting
from tracelake_sdk.datasets.scopes import FullScope
from tracelake_sdk.tasks import TaskPayload
from tracelake_sdk.tasks.events import EventDraft


def noop(payload: TaskPayload) -> OperatorResult:
    kind, revision = rewriting(payload)
    scope = payload.trigger.scope or FullScope()
    return OperatorResult(
        [EventDraft(output=output.index, scope=scope, kind=kind, revision=revision, event_time=payload.trigger.event_time) for output in payload.outputs]
    )
