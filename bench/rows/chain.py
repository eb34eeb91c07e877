"""`chain`: no-op jobs in a row, each an event and a task."""

from collections.abc import Iterator
from contextlib import contextmanager

from bench import limits
from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import Figure, Measured
from bench.rows import Row
from bench.rows.driving import drive, ours, peers


def contenders_of(steps: int, stage: Stage) -> Iterator[list[Contender]]:
    with ours(stage, steps=steps) as (system, _):
        own = Contender(OURS, our_version(), lambda n: Measured(n, drive(system, 1, tasks_a_cursor=n)), system.database)
        yield [own, *peers(stage, "chain"), *([limits.chain(stage)] if stage.limits else [])]


@contextmanager
def contenders(stage: Stage) -> Iterator[list[Contender]]:
    yield from contenders_of(STEPS, stage)


STEPS = 100
ROW = Row(
    "chain",
    "seconds for a hundred no-op jobs in a row, from the request to the last completion",
    (Figure("time", "s", lambda run: run.seconds, more_is_better=False, goal=0.4, limit_there=0.05),),
    {"small": STEPS, "full": STEPS},
    contenders,
)
