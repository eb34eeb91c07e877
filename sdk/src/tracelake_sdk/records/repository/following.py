"""Follows the log of any repository: as a stream if the repository has one, else page by page; after a broken connection it continues after the last page."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RepositoryUnavailable, TooManyTails
from tracelake_sdk.records.record import MetadataContext, TailPage
from tracelake_sdk.records.repository.contract import MetadataRepository

_POLL_SECONDS = 1.0         # between two polls of a repository without a stream
_BACKOFF = Backoff(first=_POLL_SECONDS, longest=15.0, shortened=0)  # before a repository that does not answer is polled again


@runtime_checkable
class Streamed(Protocol):
    """A repository that streams accepted records."""

    def follow(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> Iterator[TailPage]: ...


def _nobody(_: TracelakeError) -> None:
    return


def follow(
    repository: MetadataRepository, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000,
    broken: Callable[[TracelakeError], None] = _nobody, wait: Callable[[float], None] = time.sleep,
) -> Iterator[TailPage]:
    """The records accepted after an offset, and new ones as they are accepted, without end and each once; pages may be empty.

    Raises if the repository does not answer the first poll. If it stops answering later, polls are repeated until it answers; `broken` is called once per outage.
    """
    begun, breaks = False, 0
    while True:
        pause = _POLL_SECONDS
        try:
            for page in _stretch(repository, context, offset, kinds, limit):
                begun, breaks, offset = True, 0, page.offset
                yield page
        except (RepositoryUnavailable, TooManyTails) as error:
            if not begun:
                raise
            if not breaks:
                broken(error)
            breaks += 1
            pause = error.retry_after or _BACKOFF.after(breaks)
        wait(pause)


def _stretch(repository: MetadataRepository, context: MetadataContext, offset: str | None, kinds: Sequence[str], limit: int) -> Iterator[TailPage]:
    """Up to the end of the connection; for a repository without a stream, up to the end of the log."""
    if isinstance(repository, Streamed):
        yield from repository.follow(context, offset, kinds=kinds, limit=limit)
        return
    while True:
        page = repository.tail(context, offset, kinds=kinds, limit=limit)
        yield page
        if not page.items:
            return
        offset = page.offset
