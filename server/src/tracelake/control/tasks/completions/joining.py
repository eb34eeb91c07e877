"""Joining: completions that would wait for each other are settled in one transaction.

Reports of one line are handled one after the other, and each costs a dozen queries; for many reports at once, the same
queries cost little more than for one. No call waits in order to be joined: it starts at once if no other call of its line runs,
and calls that arrive meanwhile are settled together when that one ends.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from tracelake.control.access.callers import Caller
from tracelake_sdk.errors import Unavailable
from tracelake_sdk.tasks import MAX_BATCH, Completion, CompletionAnswer

Complete = Callable[[Caller, list[Completion]], list[CompletionAnswer]]
LineOf = Callable[[Caller, list[Completion]], UUID | None]  # the line that all of them are about; None: of none, of several, or unknown


@dataclass
class _Call:
    caller: Caller
    reports: list[Completion]
    leads: bool = False
    answers: list[CompletionAnswer] | None = None
    error: BaseException | None = None
    turned: threading.Event = field(default_factory=threading.Event)  # it is answered, or it leads the next transaction


@dataclass
class _Queue:
    """Calls of one line, or of no single line."""

    line: UUID | None
    room: int  # how many transactions may run at once
    waiting: deque[_Call] = field(default_factory=deque)


class Joining:
    """`at_once`: how many transactions without a single line run in parallel; each line runs one, since the next would wait for its lock."""

    def __init__(self, complete: Complete, line_of: LineOf = lambda caller, reports: None, *, at_once: int = 2) -> None:
        self._complete: Complete = complete
        self._line_of: LineOf = line_of
        self._others: _Queue = _Queue(None, at_once)
        self._lines: dict[UUID, _Queue] = {}  # lines with a running transaction
        self._lock: threading.Lock = threading.Lock()

    @property
    def waiting(self) -> int:
        with self._lock:
            return sum(len(queue.waiting) for queue in (self._others, *self._lines.values()))

    def complete(self, caller: Caller, reports: list[Completion]) -> list[CompletionAnswer]:
        """Every report has its own answer, in order; an error of one call does not affect the others."""
        call, line = _Call(caller, reports), self._line_of(caller, reports)
        with self._lock:
            queue = self._others if line is None else self._lines.setdefault(line, _Queue(line, 1))
            call.leads = queue.room > 0
            if call.leads:
                queue.room -= 1
            else:
                queue.waiting.append(call)
        if not call.leads:
            call.turned.wait()
        if call.leads:
            self._lead(call, queue)
        if call.error is not None:
            raise call.error
        return call.answers or []

    def _lead(self, first: _Call, queue: _Queue) -> None:
        """Settles its own call with those that wait, and passes its slot on before it returns."""
        joined = [first]
        try:
            with self._lock:
                joined += _take(first, queue.waiting)
            self._settle(joined)
        finally:
            for call in joined[1:]:
                if call.answers is None and call.error is None:
                    call.error = Unavailable("The process that received the report is stopping; send it again.", retry_after=1)
                call.turned.set()
            with self._lock:
                following = queue.waiting.popleft() if queue.waiting else None
                queue.room += following is None
                if following is None and queue.line is not None:
                    del self._lines[queue.line]
            if following is not None:
                following.leads = True
                following.turned.set()

    def _settle(self, calls: list[_Call]) -> None:
        try:
            answers = self._complete(calls[0].caller, [report for call in calls for report in call.reports])
        except Exception as error:
            if len(calls) == 1:
                calls[0].error = error
                return
            for call in calls:  # nothing was settled; each call runs alone to find the failing one
                self._settle([call])
            return
        at = 0
        for call in calls:
            call.answers = answers[at : at + len(call.reports)]
            at += len(call.reports)


def _take(first: _Call, waiting: deque[_Call]) -> list[_Call]:
    """Of the same org, in order of arrival, up to the size of one batch."""
    taken: list[_Call] = []
    size = len(first.reports)
    while waiting and waiting[0].caller.org_id == first.caller.org_id and size + len(waiting[0].reports) <= MAX_BATCH:
        taken.append(waiting.popleft())
        size += len(taken[-1].reports)
    return taken
