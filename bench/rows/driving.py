"""Our contender for rows in which a source runs and everything after it must complete."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from bench.contenders import OURS, Contender, Stage, our_version
from bench.figures import Measured
from bench.system import System, running_system

# The largest portion that one task may tell is 10,000; smaller ones let telling and running overlap.
CURSORS_A_REQUEST = 1000

_HEAD = """
name: bench
defaults: {domain: bench, owner: bench, timeout_seconds: 300}
jobs:
  - name: start
    activation: source
    source: {kind: manual}
    runtime: dispatcher
    operator: emit
    config: {cursor: integer}
    outputs: [{layer: bronze, description: Cursors}]
"""
_STEP = """
  - name: {name}
    activation: reactive
    inputs: [{{from: {{job: {source}, output: 0}}}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: noop
"""
_OUTPUT = "    outputs: [{layer: bronze, description: Passed on}]\n"


def dag_of(steps: int) -> str:
    """An emit and `steps` no-ops in a row, the last of them without an output."""
    names = ["start", *(f"step_{number}" for number in range(1, steps + 1))]
    text = _HEAD
    for number, name in enumerate(names[1:]):
        text += _STEP.format(name=name, source=names[number]) + (_OUTPUT if name != names[-1] else "")
    return text


def drive(system: System, cursors: int, *, tasks_a_cursor: int = 1, at_once: int = CURSORS_A_REQUEST) -> float:
    """Seconds from the first request to the last completion, seen in the database; every task must have completed."""
    portions = [list(range(first, min(first + at_once, cursors))) for first in range(0, cursors, at_once)]
    before = system.finished()
    start = time.perf_counter()
    for portion in portions:
        system.client.dags.run("bench", "start", {"cursors": portion})
    system.wait_for_finished(len(portions) + cursors * tasks_a_cursor, since=before)
    seconds = time.perf_counter() - start
    system.check_all_completed()
    return seconds


@contextmanager
def ours(stage: Stage, *, steps: int = 1) -> Generator[tuple[System, Contender]]:
    """A warm system with the DAG of `steps`; the contender emits n cursors."""
    database = stage.database("tracelake")
    with running_system(stage.postgres, stage.folder, database) as system:
        system.client.dags.deploy(dag_of(steps))
        drive(system, 100 if steps == 1 else 1, tasks_a_cursor=steps)

        def run(n: int) -> Measured:
            return Measured(n, drive(system, n))

        yield system, Contender(OURS, our_version(), run, database)


def peers(stage: Stage, row: str) -> list[Contender]:
    """The peers that take part, each with its own database that lives as long as the row."""
    found: list[Contender] = []
    for peer in stage.peers_of(row):
        database = stage.database(peer.name)
        url = stage.postgres.fresh(database)
        log = stage.folder / f"{database}.log"

        run = partial(peer.run, row, variables={"PEER_DATABASE_URL": url}, log=log)
        found.append(Contender(peer.name, peer.version, run, database))
    return found
