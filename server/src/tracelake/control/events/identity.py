"""When two emitted events are the same: the key identifies the subject, the body hash the content. Pure."""

import hashlib
from uuid import UUID

from tracelake import wire_json
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.tasks.events import EventDraft


def event_key(producer_task_id: UUID, dataset_id: UUID, scope: Scope, revision: str) -> bytes:
    # Fixed-width ids first and the revision's length before the free text, so that no two tuples give the same text.
    spelled = f"{producer_task_id}{dataset_id}{len(revision)}:{revision}{scope}"
    return hashlib.sha256(spelled.encode()).digest()


def event_body(draft: EventDraft) -> bytes:
    content = [draft.kind.value, draft.event_time.isoformat() if draft.event_time else None, draft.payload]
    return hashlib.sha256(wire_json.encode(content, sort_keys=True)).digest()
