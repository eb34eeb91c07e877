"""Traces of the line's model, walked by real processes: after every step the database, the Delta log and the table are what the model says."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import pytest
from model.line_model import Configuration
from model.line_walk import Trace, covering, edges, random_trace
from support.databases import fresh_database
from support.line_committer import Crew
from support.line_replay import Replay, Situation, copied, prepare
from support.sizes import seed, size

from tracelake.embedded.postgres import EmbeddedPostgres

TRACES = size(12, 40)
PARTS = 12  # that the traces of all edges are cut into

pytestmark = pytest.mark.xdist_group("line_traces")  # one process prepares the situations


class Stage:
    """Situations, each prepared once, and a crew for all of them."""

    def __init__(self, postgres: EmbeddedPostgres, folder: Path, ending: ExitStack) -> None:
        self._postgres, self._folder, self._ending = postgres, folder, ending
        self._situations: dict[str, Situation] = {}
        self._replays = 0
        self.crew = ending.enter_context(closing(Crew(folder / "crew")))

    def replay(self, trace: Trace) -> None:
        self._replays += 1
        folder = self._folder / f"replay-{self._replays}"
        situation = self._situation(trace.configuration)
        with copied(situation, self._postgres, folder) as lake, closing(Replay(lake, situation, trace, self.crew)) as replay:
            replay.walk()

    def _situation(self, configuration: Configuration) -> Situation:
        if configuration.name not in self._situations:
            database = self._ending.enter_context(fresh_database(self._postgres))
            self._situations[configuration.name] = prepare(configuration, database, self._folder / f"situation-{len(self._situations) + 1}")
        return self._situations[configuration.name]


@pytest.fixture(scope="module")
def stage(postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as ending:
        yield Stage(postgres, tmp_path_factory.mktemp("traces"), ending)


@pytest.mark.proves("T3.4")
@pytest.mark.parametrize("number", range(TRACES))
def test_real_processes_walk_as_the_model_does(stage: Stage, number: int):
    stage.replay(random_trace(seed() + number))


@cache
def through_every_edge() -> list[Trace]:
    return covering(edges())


@pytest.mark.proof
@pytest.mark.parametrize("part", range(PARTS))
def test_real_processes_walk_every_edge_of_the_model(stage: Stage, part: int):
    for trace in through_every_edge()[part::PARTS]:
        stage.replay(trace)
