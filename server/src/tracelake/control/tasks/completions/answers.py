"""Answers: the possible results of deciding the outputs of one report."""

from dataclasses import dataclass

from tracelake_sdk.tasks import MissingRules, MovedOutput


@dataclass(frozen=True)
class Committed:
    """Allowed: the change has a place in the line."""

    place: int
    reason: str


@dataclass(frozen=True)
class Blocked:
    reason: str


@dataclass(frozen=True)
class Unchanged:
    """Allowed, and there is nothing to commit."""


@dataclass(frozen=True)
class Moved:
    base: int
    moved: list[MovedOutput]


@dataclass(frozen=True)
class Unmeasured:
    rules: list[MissingRules]


@dataclass(frozen=True)
class Wait:
    """Another attempt of the line has the turn."""


@dataclass(frozen=True)
class Superseded:
    reason: str


Answer = Committed | Blocked | Unchanged | Moved | Unmeasured | Wait | Superseded
