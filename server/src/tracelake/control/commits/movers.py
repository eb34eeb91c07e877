"""Movers: threads that move lines as soon as something was decided, and look over all lines now and then for what others left."""

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
    """`told` is called after a decision's commit. A line is moved by one thread of this process at a time; other processes may move it too."""

    def __init__(self, committer: Committer, *, threads: int, look_seconds: float, after_move: Callable[[], object]) -> None:
        self._committer: Committer = committer
        self._after_move: Callable[[], object] = after_move
        self._due: deque[UUID] = deque()
        self._known: set[UUID] = set()   # due or being moved
        self._again: set[UUID] = set()   # notified while being moved
        self._turned: threading.Condition = threading.Condition()
        self._away: StorageUnavailable | Unavailable | None = None  # what kept every line since the last look from being moved
        self._moved: bool = False        # whether one was moved since then
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

    def told(self, generations: Iterable[UUID]) -> None:
        with self._turned:
            for generation in generations:
                if generation in self._known:
                    self._again.add(generation)
                else:
                    self._known.add(generation)
                    self._due.append(generation)
                    self._turned.notify()

    def run_once(self) -> None:
        """Moves one line that is due; waits a while for one."""
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
            self.told([generation])
        if moved:
            # Last: another thread goes on with the line meanwhile, where something was decided behind it.
            self._without_trouble(generation, self._after_move)

    def _without_trouble(self, generation: UUID, step: Callable[..., object], *given: UUID) -> bool:
        """Whether it was done; one line's trouble must not keep this thread from the others."""
        try:
            step(*given)
        except (StorageUnavailable, Unavailable) as error:
            # Frozen bytes are put again by the next look, here or elsewhere: nothing is lost and nothing happens twice.
            _log.warning("a line waits", generation=str(generation), code=error.code)
            self._away = error
            return False
        except Exception as error:
            # The next look tries it again. It is this line's own trouble, so the process stays ready for the others.
            self._recovery.count(error, generation=str(generation))
            return False
        self._moved = True
        return True

    def _recover(self) -> None:
        """Fails while nothing can be moved, because the storage or the database refuses."""
        away, moved, self._away, self._moved = self._away, self._moved, None, False
        self.told(self._committer.commits.lines_to_move(room=1000))
        if away is not None and not moved:
            raise away
