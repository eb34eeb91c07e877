"""Joining: completions that would wait for each other are settled in one transaction.

Reports of one line are judged one after the other, and each costs a dozen questions of its own; asked for many at once, the same
questions cost little more than for one. Nobody waits in order to be joined: a call starts at once while there is room, and whoever
comes meanwhile goes together with the others that wait.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tracelake.control.access.callers import Caller
from tracelake_sdk.errors import Unavailable
from tracelake_sdk.tasks import MAX_BATCH, Completion, CompletionAnswer

Complete = Callable[[Caller, list[Completion]], list[CompletionAnswer]]


@dataclass
class _Call:
    caller: Caller
    reports: list[Completion]
    leads: bool = False
    answers: list[CompletionAnswer] | None = None
    error: BaseException | None = None
    turned: threading.Event = field(default_factory=threading.Event)  # it is answered, or it leads


class Joining:
    """`at_once`: how many transactions go on beside each other; one holds its line, and another is ready when it lets go."""

    def __init__(self, complete: Complete, *, at_once: int = 2) -> None:
        self._complete: Complete = complete
        self._room: int = at_once
        self._waiting: deque[_Call] = deque()
        self._lock: threading.Lock = threading.Lock()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def complete(self, caller: Caller, reports: list[Completion]) -> list[CompletionAnswer]:
        """Every report has its own answer, in order; what goes wrong with one call is no other's."""
        call = _Call(caller, reports)
        with self._lock:
            call.leads = self._room > 0
            if call.leads:
                self._room -= 1
            else:
                self._waiting.append(call)
        if not call.leads:
            call.turned.wait()
        if call.leads:
            self._lead(call)
        if call.error is not None:
            raise call.error
        return call.answers or []

    def _lead(self, first: _Call) -> None:
        """Settles its own call with those that wait, and hands its room on before it returns."""
        joined = [first]
        try:
            with self._lock:
                joined += self._take(first)
            self._settle(joined)
        finally:
            for call in joined[1:]:
                if call.answers is None and call.error is None:
                    call.error = Unavailable("The process that took the report stops; send it again.", retry_after=1)
                call.turned.set()
            with self._lock:
                following = self._waiting.popleft() if self._waiting else None
                self._room += following is None
            if following is not None:
                following.leads = True
                following.turned.set()

    def _take(self, first: _Call) -> list[_Call]:
        """Of the same org, in the order in which they came, as many as one batch may hold."""
        taken: list[_Call] = []
        size = len(first.reports)
        while self._waiting and self._waiting[0].caller.org_id == first.caller.org_id and size + len(self._waiting[0].reports) <= MAX_BATCH:
            taken.append(self._waiting.popleft())
            size += len(taken[-1].reports)
        return taken

    def _settle(self, calls: list[_Call]) -> None:
        try:
            answers = self._complete(calls[0].caller, [report for call in calls for report in call.reports])
        except Exception as error:
            if len(calls) == 1:
                calls[0].error = error
                return
            for call in calls:  # nothing was settled, and whose fault it was shows when each goes alone
                self._settle([call])
            return
        at = 0
        for call in calls:
            call.answers = answers[at : at + len(call.reports)]
            at += len(call.reports)

