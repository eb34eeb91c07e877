"""Pages: a list use case reads one row more than its limit, which only shows whether another page follows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def next_token(rows: Sequence[Row], limit: int, key: Callable[[Row], object]) -> str | None:
    """The token of the next page: the key of the last row of this one, or None if this is the last page."""
    return str(key(rows[limit - 1])) if len(rows) > limit else None
