"""Classifies database failures: temporarily unavailable, so the call may be retried; text that Postgres cannot store; or a defect."""

from psycopg import DataError, Error, OperationalError
from psycopg.errors import CharacterNotInRepertoire, UntranslatableCharacter

from tracelake_sdk.errors import Invalid, Unavailable

_READ_ONLY = "The state database is read-only; make it writable again, then try again."
_EXHAUSTED = "The state database is out of connections, memory or disk space; free some, then try again."
_AWAY = "The state database does not answer; try again shortly."

# By the beginning of the SQLSTATE. Nothing happened, or the caller's idempotency key shows what did.
_PASSING = {
    "08": _AWAY,          # the connection broke
    "25006": _READ_ONLY,  # a standby, or default_transaction_read_only is set
    "25P03": _AWAY,       # a transaction was idle or open for too long, and its connection was closed
    "25P04": _AWAY,
    "40": _AWAY,          # a deadlock or a serialization failure
    "53": _EXHAUSTED,
    "57": _AWAY,          # it is shutting down or starting, or the statement was canceled
    "58": _AWAY,          # I/O error on its machine
}


def raise_if_away(error: Error) -> None:
    """Raises Unavailable if the database is temporarily unavailable; returns if the statement itself failed."""
    state = error.sqlstate or ""
    message = next((words for beginning, words in _PASSING.items() if state.startswith(beginning)), None)
    if message is None and isinstance(error, OperationalError):
        message = _AWAY
    if message is not None:
        raise Unavailable(message, retry_after=1) from error


def raise_if_unstorable(error: Error) -> None:
    """Raises Invalid for a text that Postgres cannot store: retrying does not help."""
    # The driver itself refuses a NUL in a text, without a specific exception class.
    if isinstance(error, UntranslatableCharacter | CharacterNotInRepertoire) or (isinstance(error, DataError) and "NUL" in str(error)):
        raise Invalid("A text contains a NUL character, which cannot be stored; remove it.") from error


def read_only() -> Unavailable:
    return Unavailable(_READ_ONLY, retry_after=1)
