"""How large a test is: every day, or in `make proof`. The seed is printed, so that a run can be repeated."""

import os
import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def full() -> bool:
    return os.environ.get("TRACELAKE_PROOF") == "1"


def size(daily: int, full_size: int) -> int:
    return full_size if full() else daily


def seed() -> int:
    return int(os.environ.get("TRACELAKE_SEED") or 20240110)


def seeded() -> random.Random:
    return random.Random(seed())


def some(of: Sequence[Item], *every_day: Item) -> list[Item]:
    """All at full size, these every day."""
    assert set(every_day) <= set(of)
    return list(of) if full() else list(every_day)
