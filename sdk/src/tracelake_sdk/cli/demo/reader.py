"""A reader that queries a dataset in a loop while it changes, and records every version that it saw."""

import threading
from collections.abc import Generator
from contextlib import contextmanager

from tracelake_sdk.client import Client

_PAUSE_SECONDS = 0.4

Sight = tuple[int, int]  # version and rows


class Reader:
    """Queries in a separate thread, over a separate connection."""

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
        """Queries once more, then raises any error of the thread."""
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
        except Exception as error:  # raised again in the thread that started this one
            self._failed = error

    def _look(self, client: Client) -> None:
        answer = client.query(self._sql)
        self.looks += 1
        if (sight := (answer.receipt.pins[0].version, int(answer.rows[0][0]))) not in self.seen:
            self.seen.append(sight)


@contextmanager
def reading(dataset: str) -> Generator[Reader]:
    """A reader that runs as long as the block."""
    reader = Reader(dataset)
    reader.come()
    try:
        yield reader
    finally:
        reader.leave()
