"""A reader who queries a dataset again and again while something happens to it, and remembers every version seen."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from tracelake_sdk.client import Client

_PAUSE_SECONDS = 0.4

Sight = tuple[int, int]  # version and rows


class Reader:
    """Looks in a thread of its own, over a connection of its own."""

    def __init__(self, dataset: str) -> None:
        self._sql: str = f"SELECT count(*) FROM {dataset}"  # noqa: S608  a name from this program
        self._left: threading.Event = threading.Event()
        self._thread: threading.Thread = threading.Thread(target=self._look_on, daemon=True)
        self._failed: Exception | None = None
        self.seen: list[Sight] = []  # each once, in the order in which it was first seen
        self.looks: int = 0

    def come(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        """After one more look; what went wrong while looking is raised here."""
        self._left.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _look_on(self) -> None:
        try:
            with Client() as client:
                while True:
                    last = self._left.is_set()
                    self._look(client)
                    if last:
                        return
                    self._left.wait(_PAUSE_SECONDS)
        except Exception as error:  # it belongs to who started this thread
            self._failed = error

    def _look(self, client: Client) -> None:
        answer = client.query(self._sql)
        self.looks += 1
        if (sight := (answer.receipt.pins[0].version, int(answer.rows[0][0]))) not in self.seen:
            self.seen.append(sight)


@contextmanager
def reading(dataset: str) -> Generator[Reader]:
    """A reader who is there while the block runs."""
    reader = Reader(dataset)
    reader.come()
    try:
        yield reader
    finally:
        reader.leave()
