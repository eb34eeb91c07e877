"""The cursors and events of ranges that operators emit."""

from datetime import datetime

from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.datasets.cursors import CursorType, find_cursor
from tracelake_sdk.datasets.scopes import RangeScope, spell_cursor
from tracelake_sdk.tasks.events import EventDraft, EventKind


def cursor_of(number: int, kind: CursorType) -> int | datetime:
    """The inverse of `number_of`; raises OperatorFailed if no cursor has this number."""
    found = find_cursor(number, kind)
    if found is None:
        raise OperatorFailed(
            "cursor_out_of_bounds", "The range begins before the first possible cursor; choose another origin.", retry=False
        )
    return found


def check_kind(cursor: int | datetime, kind: CursorType) -> None:
    if not kind.fits(cursor):
        given = CursorType.INTEGER if isinstance(cursor, int) else CursorType.TIMESTAMP
        raise OperatorFailed(
            "cursor_type", f"The job is declared with cursor {kind.value} and received a cursor of type {given.value}; correct the job or its source.", retry=False
        )


def manifest(start: int | datetime, end: int | datetime, kind: EventKind, revision: str, event_time: datetime | None = None) -> EventDraft:
    """The event of a range."""
    return EventDraft(
        output=0,
        scope=RangeScope(start=start, end=end),
        kind=kind,
        revision=revision,
        event_time=event_time,
        payload={"partition_key": f"{_key(start)}_{_key(end)}", "start": spell_cursor(start), "end": spell_cursor(end)},
    )


def _key(cursor: int | datetime) -> str:
    """`5`, or `20240110T050000Z`: safe in a path."""
    return str(cursor) if isinstance(cursor, int) else str(spell_cursor(cursor)).replace("-", "").replace(":", "")
