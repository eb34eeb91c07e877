"""`chain`: no-op jobs in a row, each an event and a task."""

from collections.abc import Generator
from contextlib import contextmanager

from bench import limits
from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import Figure, Measured
from bench.rows import Row
from bench.rows.driving import drive, ours, peers


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    with ours(stage, steps=n) as (system, _):
        own = Contender(OURS, our_version(), lambda n: Measured(n, drive(system, 1, tasks_a_cursor=n)), system.database)
        yield [own, *peers(stage, "chain"), *([limits.chain(stage)] if stage.limits else [])]


ROW = Row(
    "chain",
    "seconds for a hundred no-op jobs in a row, from the request to the last completion",
    (Figure("time", "s", lambda run: run.seconds, more_is_better=False, goal=0.4, limit_there=0.05),),
    {"small": 100, "full": 100},
    contenders,
)
