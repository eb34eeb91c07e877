"""Movers: threads that move lines as soon as something was decided, and look over all lines now and then for what others left."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from uuid import UUID

import structlog

from tracelake.control.commits.service import Committer
from tracelake_sdk.errors import StorageOutcomeUnknown, StorageUnavailable, Unavailable

_log = structlog.get_logger()


class Movers:
    """`told` is called after a decision's commit. A line is moved by one thread of this process at a time; other processes may move it too."""

    def __init__(self, committer: Committer, *, threads: int, look_seconds: float, after_move: Callable[[], object]) -> None:
        self._committer: Committer = committer
        self._look_seconds: float = look_seconds
        self._after_move: Callable[[], object] = after_move
        self._due: deque[UUID] = deque()
        self._known: set[UUID] = set()   # due or being moved
        self._again: set[UUID] = set()   # told of while being moved
        self._turned: threading.Condition = threading.Condition()
        self._stopping: bool = False
        # Not the condition: whoever tells of a line wakes one that waits there, and that must be one who moves lines.
        self._stopped: threading.Event = threading.Event()
        self._threads: list[threading.Thread] = [threading.Thread(target=self._live, name=f"line-{number}", daemon=True) for number in range(threads)]
        self._recovery: threading.Thread = threading.Thread(target=self._recover, name="lines", daemon=True)

    def start(self) -> None:
        for thread in (*self._threads, self._recovery):
            thread.start()

    def stop(self) -> None:
        with self._turned:
            self._stopping = True
            self._turned.notify_all()
        self._stopped.set()
        for thread in (*self._threads, self._recovery):
            if thread.is_alive():
                thread.join(timeout=10)

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
        """Moves one line that is due; waits for one."""
        with self._turned:
            while not self._due and not self._stopping:
                self._turned.wait()
            if self._stopping:
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
        except (StorageUnavailable, StorageOutcomeUnknown, Unavailable) as error:
            # Frozen bytes are put again by the next look, here or elsewhere: nothing is lost and nothing happens twice.
            _log.warning("a line waits", generation=str(generation), code=error.code)
            return False
        except Exception:
            # The next look tries it again.
            _log.exception("a line cannot be moved", generation=str(generation))
            return False
        return True

    def _live(self) -> None:
        while not self._stopping:
            self.run_once()

    def _recover(self) -> None:
        while not self._stopping:
            try:
                self.told(self._committer.commits.lines_to_move(room=1000))
            except Unavailable as error:
                _log.warning("a loop waits for the database", loop="lines", error=error.code)
            self._stopped.wait(self._look_seconds)
