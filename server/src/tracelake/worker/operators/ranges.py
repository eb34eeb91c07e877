"""Cursors as whole numbers, so that ranges of numbers and of times are cut by the same arithmetic, and the manifests of ranges."""

from datetime import datetime, timedelta

from tracelake.worker.operators.contract import OperatorFailed
from tracelake_sdk.events import EventDraft, EventKind
from tracelake_sdk.cursors import CursorType
from tracelake_sdk.operators import EPOCH
from tracelake_sdk.scopes import RangeScope, spell_cursor

_MICROSECOND = timedelta(microseconds=1)


def number_of(cursor: int | datetime) -> int:
    """A time is its microseconds since 1970."""
    return cursor if isinstance(cursor, int) else (cursor - EPOCH) // _MICROSECOND


def number_of_size(size: int | timedelta) -> int:
    return size if isinstance(size, int) else size // _MICROSECOND


def cursor_of(number: int, kind: CursorType) -> int | datetime:
    """The inverse of `number_of`; raises OperatorFailed where no cursor has this number."""
    if kind is CursorType.INTEGER and -(2**63) <= number < 2**63:
        return number
    if kind is CursorType.TIMESTAMP:
        try:
            return EPOCH + timedelta(microseconds=number)
        except OverflowError:
            pass
    raise OperatorFailed(
        "cursor_out_of_bounds", "The range begins before the first cursor there can be; choose an origin from which no range does.", retry=False
    )


def check_kind(cursor: int | datetime, kind: CursorType) -> None:
    if not kind.fits(cursor):
        given = CursorType.INTEGER if isinstance(cursor, int) else CursorType.TIMESTAMP
        raise OperatorFailed(
            "cursor_type", f"The job is declared with cursor {kind.value} and was told of one that is {given.value}; correct the job or its source.", retry=False
        )


def manifest(start: int | datetime, end: int | datetime, kind: EventKind, revision: str, event_time: datetime | None = None) -> EventDraft:
    """The event that tells of a range."""
    return EventDraft(
        output=0,
        scope=RangeScope(start=start, end=end),
        kind=kind,
        revision=revision,
        event_time=event_time,
        payload={"partition_key": f"{_key(start)}_{_key(end)}", "start": spell_cursor(start), "end": spell_cursor(end)},
    )


def _key(cursor: int | datetime) -> str:
    """`5`, or `20240110T050000Z`: a spelling that may stand in a path."""
    return str(cursor) if isinstance(cursor, int) else str(spell_cursor(cursor)).replace("-", "").replace(":", "")
