"""`tasks`: how many no-op tasks a second go from request to completion, with fence, ledger and history intact."""

from collections.abc import Generator
from contextlib import contextmanager

from bench import limits
from bench.contenders import Contender, Stage
from bench.figures import Figure
from bench.rows import Row
from bench.rows.driving import ours, peers


@contextmanager
def contenders(stage: Stage, n: int) -> Generator[list[Contender]]:
    with ours(stage) as (_, own):
        raw = [limits.batches(stage, 100), limits.batches(stage, 1)] if stage.limits else []
        yield [own, *peers(stage, "tasks"), *raw]


ROW = Row(
    "tasks",
    "no-op tasks a second: event, task, claim, completion, durable, from the first request to the last completion",
    (Figure("rate", "tasks/s", lambda run: run.rate, more_is_better=True, goal=3000, limit_there=68_000),),
    {"small": 5000, "full": 20_000},
    contenders,
)
