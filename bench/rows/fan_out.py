"""`fan-out`: one task whose completion makes a thousand, until the last of them is complete."""

from collections.abc import Generator
from contextlib import contextmanager

from bench import limits
from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import Figure, Measured
from bench.rows import Row
from bench.rows.driving import drive, ours, peers


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    with ours(stage) as (system, _):
        own = Contender(OURS, our_version(), lambda n: Measured(n, drive(system, n, at_once=n)), system.database)
        yield [own, *peers(stage, "fan-out"), *([limits.fan_out(stage)] if stage.limits else [])]


ROW = Row(
    "fan-out",
    "seconds for no-op tasks that one task makes, from the request for that one to the last completion",
    (Figure("time", "s", lambda run: run.seconds, more_is_better=False, goal=0.5, limit_there=0.02),),
    {"small": 1000, "full": 1000},
    contenders,
)
