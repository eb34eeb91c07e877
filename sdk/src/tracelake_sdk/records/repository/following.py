"""The log of any repository as it grows: a stream where the repository has one, else page by page; after a broken connection it continues after the last page."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from tracelake_sdk.backoff import Backoff
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import RepositoryUnavailable, TooManyTails
from tracelake_sdk.records.record import MetadataContext, TailPage
from tracelake_sdk.records.repository.contract import MetadataRepository

_A_LOOK = 1.0         # seconds between two looks where nothing says that there is more
_BACKOFF = Backoff(first=_A_LOOK, longest=15.0, shortened=0)  # before one that does not answer is asked again


@runtime_checkable
class Streamed(Protocol):
    """A repository that streams what was accepted."""

    def follow(self, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000) -> Iterator[TailPage]: ...


def _nobody(_: TracelakeError) -> None:
    return


def follow(
    repository: MetadataRepository, context: MetadataContext, offset: str | None = None, *, kinds: Sequence[str] = (), limit: int = 1000,
    broken: Callable[[TracelakeError], None] = _nobody, wait: Callable[[float], None] = time.sleep,
) -> Iterator[TailPage]:
    """What was accepted behind an offset, and what is accepted from now on, without end and each record once; pages may be empty.

    A repository that does not answer the first look raises. One that stops answering later is asked again until it does; `broken` is called once for each time.
    """
    begun, breaks = False, 0
    while True:
        pause = _A_LOOK
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
    """Up to the end of the connection, or up to the end of the log where there is none."""
    if isinstance(repository, Streamed):
        yield from repository.follow(context, offset, kinds=kinds, limit=limit)
        return
    while True:
        page = repository.tail(context, offset, kinds=kinds, limit=limit)
        yield page
        if not page.items:
            return
        offset = page.offset
