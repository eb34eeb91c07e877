"""`emit`: emits the cursors of its request, in that order."""

from tracelake.worker.dispatcher.operators.contract import OperatorResult, read
from tracelake.worker.dispatcher.operators.ranges import check_kind
from tracelake_sdk.dags.operators import EmitConfig, EmitRequest
from tracelake_sdk.datasets.scopes import CursorScope
from tracelake_sdk.tasks import TaskPayload
from tracelake_sdk.tasks.events import EventDraft, EventKind


def emit(payload: TaskPayload) -> OperatorResult:
    """A cursor that the request repeats is emitted once."""
    config = read(EmitConfig, payload.job.config, what="config")
    request = read(EmitRequest, payload.trigger.payload, what="request")
    check_kind(request.cursors[0], config.cursor)
    kind, revision = (EventKind.REWRITTEN, str(payload.trigger.id)) if request.rewrite else (EventKind.MATERIALIZED, "")
    return OperatorResult([EventDraft(output=0, scope=CursorScope(value=cursor), kind=kind, revision=revision) for cursor in dict.fromkeys(request.cursors)])
