"""Movers: threads that move a line as soon as a change is decided, and regularly check all lines for changes that other processes left."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from uuid import UUID

import structlog

from tracelake.control.commits.service import Committer
from tracelake.loops import LONGEST_WAIT, Loop
from tracelake_sdk.errors import StorageUnavailable, Unavailable

_log = structlog.get_logger()


class Movers:
    """`notify` is called after a decision's commit. A line is moved by one thread of this process at a time; other processes may move it too."""

    def __init__(self, committer: Committer, *, threads: int, look_seconds: float, after_move: Callable[[], object]) -> None:
        self._committer: Committer = committer
        self._after_move: Callable[[], object] = after_move
        self._due: deque[UUID] = deque()
        self._known: set[UUID] = set()   # due or being moved
        self._again: set[UUID] = set()   # notified while being moved
        self._turned: threading.Condition = threading.Condition()
        self._away: StorageUnavailable | Unavailable | None = None  # why no line could be moved since the last check
        self._moved: bool = False        # whether a line was moved since then
        self._stopping: bool = False
        self._recovery: Loop = Loop("lines", self._recover, pause=look_seconds)
        self.loops: list[Loop] = [*(Loop(f"line-{number}", self.run_once) for number in range(threads)), self._recovery]

    def start(self) -> None:
        for loop in self.loops:
            loop.start()

    def stop(self) -> None:
        for loop in self.loops:
            loop.ask_to_stop()
        with self._turned:
            self._stopping = True
            self._turned.notify_all()
        for loop in self.loops:
            loop.stop()

    def notify(self, generations: Iterable[UUID]) -> None:
        with self._turned:
            for generation in generations:
                if generation in self._known:
                    self._again.add(generation)
                else:
                    self._known.add(generation)
                    self._due.append(generation)
                    self._turned.notify()

    def run_once(self) -> None:
        """Moves one line that is due; waits for one if there is none."""
        with self._turned:
            if not self._due and not self._stopping:
                self._turned.wait(LONGEST_WAIT)
            if not self._due or self._stopping:
                return
            generation = self._due.popleft()
        moved = self._without_trouble(generation, self._committer.move, generation)
        with self._turned:
            self._known.discard(generation)
            again = generation in self._again
            self._again.discard(generation)
        if again:
            self.notify([generation])
        if moved:
            # Last: meanwhile another thread can continue the line with later decisions.
            self._without_trouble(generation, self._after_move)

    def _without_trouble(self, generation: UUID, step: Callable[..., object], *given: UUID) -> bool:
        """Returns whether it succeeded; a failure of one line must not stop this thread."""
        try:
            step(*given)
        except (StorageUnavailable, Unavailable) as error:
            # The next check puts the frozen bytes again, in this or another process: nothing is lost and nothing happens twice.
            _log.warning("a line waits", generation=str(generation), code=error.code)
            self._away = error
            return False
        except Exception as error:
            # The next check tries again. Only this line fails, so the process stays ready for the others.
            self._recovery.count(error, generation=str(generation))
            return False
        self._moved = True
        return True

    def _recover(self) -> None:
        """Fails while nothing can be moved, because the storage or the database refuses."""
        away, moved, self._away, self._moved = self._away, self._moved, None, False
        self.notify(self._committer.commits.lines_to_move(room=1000))
        if away is not None and not moved:
            raise away
