"""Movers: a line that was notified is moved at once, however many were notified before."""

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest

from tracelake.control.commits.movers import Movers

LONGEST = 20.0  # seconds, a hundredth of the pause between two looks


@dataclass
class Moved:
    """What moves lines, as far as movers can see."""

    lines: "queue.Queue[UUID]" = field(default_factory=queue.Queue)

    @property
    def commits(self) -> "Moved":
        return self

    def lines_to_move(self, *, room: int) -> list[UUID]:
        return []

    def move(self, generation: UUID) -> int:
        self.lines.put(generation)
        return 1


@pytest.fixture(params=[1, 3], ids=lambda threads: f"{threads}-threads")
def moved(request: pytest.FixtureRequest) -> Iterator[tuple[Movers, Moved]]:
    moved = Moved()
    movers = Movers(moved, threads=request.param, look_seconds=100 * LONGEST, after_move=lambda: None)  # pyright: ignore[reportArgumentType]
    movers.start()
    yield movers, moved
    movers.stop()


def test_no_notification_is_lost_on_a_mover_that_only_checks(moved: tuple[Movers, Moved]):
    movers, done = moved
    for line in [uuid4() for _ in range(10)]:
        movers.notify([line])
        assert done.lines.get(timeout=LONGEST) == line


def test_a_line_that_was_notified_while_it_moved_is_moved_again(moved: tuple[Movers, Moved]):
    movers, done = moved
    line = uuid4()
    for _ in range(20):
        movers.notify([line])
    assert done.lines.get(timeout=LONGEST) == line
    movers.notify([line])
    assert done.lines.get(timeout=LONGEST) == line
