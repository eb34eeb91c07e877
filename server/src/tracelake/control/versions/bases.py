"""Bases: whether what an attempt measured still holds when it reports, after other tasks of its line were decided. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.datasets.scopes import Scope, overlap


class BaseVerdict(StrEnum):
    GOOD = "good"
    MOVED = "moved"            # measure against the files since, and report again
    SUPERSEDED = "superseded"  # the result is out of date: queued again with new pins


@dataclass(frozen=True, slots=True)
class Since:
    """What the places after a base did to one table."""

    scopes: tuple[Scope, ...] = ()
    added: tuple[TableFile, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def moved(self) -> bool:
        return bool(self.scopes or self.added or self.removed)

    def and_then(self, later: "Since") -> "Since":
        return Since((*self.scopes, *later.scopes), (*self.added, *later.added), (*self.removed, *later.removed))


def judge_base(
    strategy: UpdateStrategy, scopes: Sequence[Scope], files: Sequence[TableFile], since: Since, *, table_rules: bool
) -> BaseVerdict:
    """`table_rules`: whether a rule about the whole table was measured, so that every file since matters."""
    if not since.moved:
        return BaseVerdict.GOOD
    if strategy is UpdateStrategy.REPLACE and any(overlap(mine, theirs) for mine in scopes for theirs in since.scopes):
        return BaseVerdict.SUPERSEDED
    if strategy is UpdateStrategy.APPEND:
        if since.removed:
            # A row that was dropped as a duplicate may duplicate a row that is removed now.
            return BaseVerdict.SUPERSEDED
        if any(may_share_key(mine, theirs) for mine in files for theirs in since.added):
            return BaseVerdict.MOVED
    return BaseVerdict.MOVED if table_rules else BaseVerdict.GOOD


def may_share_key(one: TableFile, other: TableFile) -> bool:
    """By the bounds of their first key column; without comparable bounds, they may."""
    if one.rows == 0 or other.rows == 0:
        return False
    bounds = (one.key_min, one.key_max, other.key_min, other.key_max)
    if all(isinstance(bound, int) for bound in bounds) or all(isinstance(bound, str) for bound in bounds):
        return one.key_min <= other.key_max and other.key_min <= one.key_max  # pyright: ignore[reportOperatorIssue] all of one kind
    return True
