"""Notifications to the rest of the process, after the transaction of a task has committed."""

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID


class WakePools(Protocol):
    """Wakes long polls of these pools, in every control process: a task became claimable there."""

    def __call__(self, pools: Iterable[UUID], /) -> None: ...


class NotifyLines(Protocol):
    """Starts to move the lines of these generations: a change may have taken a place there."""

    def __call__(self, generations: Iterable[UUID], /) -> None: ...
