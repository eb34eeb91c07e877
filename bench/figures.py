"""What is measured, and how runs become a median, a spread and a ratio. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

LEAST_RUNS = 3  # below that a median says nothing; a smoke run may still ask for less


class BenchFailed(Exception):
    """The message is all that the person at the terminal needs."""


@dataclass(frozen=True)
class Measured:
    """What one contender did in one run."""

    n: int
    seconds: float
    samples_ms: tuple[float, ...] = ()  # one for each of n, where each was timed by itself
    woken_ms: tuple[float, ...] = ()    # ours alone: a request that wakes an idle worker
    cpu_percent: float | None = None    # of one core
    pss_mib: float | None = None        # of the whole process tree, shared pages divided among their users
    beside: Mapping[str, float] = field(default_factory=dict)    # further numbers that figures of the row are about, by name
    parts_ms: Mapping[str, float] = field(default_factory=dict)  # where the time of one went, in order

    @property
    def rate(self) -> float:
        return self.n / self.seconds


@dataclass(frozen=True)
class Figure:
    """One number of a run that a goal and a ratio are about."""

    name: str
    unit: str
    of: Callable[[Measured], float]
    more_is_better: bool
    goal: float
    # What the row's limit did on the machine that the goal was written on; None where nothing limits it.
    limit_there: float | None = None
    limit_factor: float = 1.0         # and of so many times what the limit does
    above_limit: float | None = None  # where the goal is so much above what the limit does, wherever that is
    beside: str | None = None         # its key among the additional numbers that a run reports; a contender without the key does not have this figure

    @property
    def goes_by_limit(self) -> bool:
        return self.limit_there is not None or self.above_limit is not None

    @classmethod
    def with_contenders(cls, name: str, unit: str, key: str, *, goal: float, more: bool = False, limit_there: float | None = None) -> "Figure":
        return cls(name, unit, lambda run: run.beside[key], more_is_better=more, goal=goal, limit_there=limit_there, beside=key)

    def measured_by(self, run: Measured) -> bool:
        return self.beside is None or self.beside in run.beside

    def goal_here(self, limit_here: float) -> float:
        """The goal for this machine: as far from the limit here as the goal is from the limit there."""
        if self.above_limit is not None:
            return self.limit_factor * limit_here + self.above_limit
        return self.goal * limit_here / self.limit_there if self.limit_there else self.goal

    def ratio(self, ours: float, theirs: float) -> float:
        """How many times better ours is: above 1 we are ahead, whichever way the figure counts."""
        return ours / theirs if self.more_is_better else theirs / ours

    def met(self, ours: float, goal: float) -> bool:
        return ours >= goal if self.more_is_better else ours <= goal

    def goal_text(self, goal: float) -> str:
        return f"{'≥' if self.more_is_better else '≤'} {spell(goal)} {self.unit}"


@dataclass(frozen=True)
class Spread:
    """The median of some runs, and the least and the most."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(median(values), min(values), max(values))


def percentile(samples: Sequence[float], share: float) -> float:
    """The least sample that at least this share of all is at or below."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratios(figure: Figure, ours: Sequence[Measured], theirs: Sequence[Measured]) -> Spread:
    """Run against the run beside it, never median against median: what disturbed the machine disturbed both."""
    return Spread.of([figure.ratio(figure.of(our), figure.of(their)) for our, their in zip(ours, theirs, strict=True)])


def spell(value: float) -> str:
    """Three digits that count: `12,300`, `2.41`, `0.0312`."""
    places = 2 - math.floor(math.log10(abs(value))) if value else 0
    text = f"{round(value, places):,.{max(0, places)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
