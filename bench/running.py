"""A row from its first contender to its lines: all contenders in turn, as many times as requested."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.contenders import Contender, Stage
from bench.figures import Figure, Measured, Spread, percentile, ratios
from bench.rows import Row


@dataclass(frozen=True)
class Runs:
    """All runs of one contender in one row."""

    contender: Contender
    measured: tuple[Measured, ...]

    def spread(self, figure: Figure) -> Spread:
        return Spread.of([figure.of(run) for run in self.measured])


@dataclass(frozen=True)
class Outcome:
    """What a row came to."""

    row: Row
    n: int
    ours: Runs
    others: tuple[Runs, ...]

    def with_figure(self, figure: Figure) -> tuple[Runs, ...]:
        """Ours, and the other contenders with this figure."""
        return (self.ours, *(runs for runs in self.others if figure.measured_by(runs.measured[0])))

    def ratios(self, figure: Figure, other: Runs) -> Spread:
        return ratios(figure, self.ours.measured, other.measured)

    def met(self, figure: Figure) -> bool:
        return figure.met(self.ours.spread(figure).median, figure.goal)

    def goal_here(self, figure: Figure) -> float | None:
        """The goal in terms of what the limit did in the same run; None without a limit."""
        limit = next((runs for runs in self.others if runs.contender.is_limit), None)
        return figure.goal_here(limit.spread(figure).median) if limit and figure.goes_by_limit else None

    def above_limit(self, figure: Figure) -> Spread | None:
        """How much more than the limit ours took, run by run, where that is what the goal is about."""
        limit = next((runs for runs in self.others if runs.contender.is_limit), None)
        if limit is None or figure.above_limit is None:
            return None
        return Spread.of([figure.of(our) - figure.of(their) for our, their in zip(self.ours.measured, limit.measured, strict=True)])


def run_row(row: Row, stage: Stage, *, n: int, runs: int, say: Callable[[str], None]) -> Outcome:
    """Interleaved, and each round begins with another one, so that no one always comes after the same."""
    found: dict[str, list[Measured]] = {}
    say(f"{row.name}: starting")
    with row.contenders(stage, n) as contenders:
        for number in range(runs):
            turn = number % len(contenders)
            for contender in contenders[turn:] + contenders[:turn]:
                say(f"{row.name}: run {number + 1} of {runs}, {contender.name}")
                if contender.database:
                    stage.postgres.settle(contender.database)
                found.setdefault(contender.name, []).append(contender.run(n))
        own, *others = (Runs(contender, tuple(found[contender.name])) for contender in contenders)
    return Outcome(row, n, own, tuple(others))


def medians(runs: Runs) -> dict[str, float | int | None]:
    """Of one contender, as they stand in its lines."""
    samples = [run.samples_ms for run in runs.measured]
    timed = all(samples)
    counted = runs.measured[0].cpu_percent is None
    return {
        "n": runs.measured[0].n,
        "seconds": Spread.of([run.seconds for run in runs.measured]).median,
        "rate": Spread.of([run.rate for run in runs.measured]).median if counted else None,
        "p50_ms": Spread.of([percentile(each, 0.5) for each in samples]).median if timed else None,
        "p99_ms": Spread.of([percentile(each, 0.99) for each in samples]).median if timed else None,
    }


def parts(runs: Runs) -> dict[str, float]:
    """Where the time of one went, by the names and in the order in which the contender reported it."""
    return {name: Spread.of([run.parts_ms[name] for run in runs.measured]).median for name in runs.measured[0].parts_ms}
