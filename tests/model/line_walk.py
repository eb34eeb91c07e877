"""Walks the model of the line: breadth first through all of its states, or by seed through one run, as traces that real processes can repeat."""

import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

from model.line_configurations import CONFIGURATIONS
from model.line_invariants import DONE, broken_between, broken_in
from model.line_model import IDLE, RUNNING, Committer, Configuration, Design, Line, Run, State, Step, table_of

Edge = tuple[str, ...]


@dataclass(frozen=True)
class Walked:
    states: int
    steps: int
    ends: int
    broken: dict[str, list[Step]]   # by the invariant's sentence: a shortest way to break it


@dataclass(frozen=True)
class Trace:
    """A complete run from the start of a configuration, and what there must be when it is over."""

    configuration: Configuration
    steps: list[Step]
    tasks: dict[str, str]                           # their states
    attempts: dict[str, int]                        # how often each was claimed
    versions: list[list[str]]                       # of each version, in order, the tasks whose changes it carries
    table: list[tuple[str, int, str, list[int]]]    # task, attempt, scope and keys of the files that are there
    stopped: bool


class _Graph:
    """All states that can be reached, in breadth-first order; a broken one is not walked on from."""

    def __init__(self, line: Line, until: frozenset[str] = frozenset()) -> None:
        self.line = line
        self.states: list[State] = [line.start()]
        self.came: list[tuple[int, Step] | None] = [None]
        self.follows: list[list[tuple[Step, int]]] = []
        self.broken: dict[str, int] = {}
        numbers = {self.states[0]: 0}
        for number, state in enumerate(self.states):  # it grows as it is walked
            self.follows.append([])
            if self._found(broken_in(line, state), number):
                continue
            if until and until <= self.broken.keys():
                break
            for step, after in line.steps(state):
                if after not in numbers:
                    numbers[after] = len(self.states)
                    self.states.append(after)
                    self.came.append((number, step))
                self.follows[number].append((step, numbers[after]))
                self._found(broken_between(state, after), numbers[after])

    def _found(self, sentences: frozenset[str], number: int) -> bool:
        for sentence in sentences:
            self.broken.setdefault(sentence, number)
        return bool(sentences)

    def way_to(self, number: int) -> list[Step]:
        steps: list[Step] = []
        came = self.came[number]
        while came:
            number, step = came
            steps.append(step)
            came = self.came[number]
        return steps[::-1]

    def leading_to(self, targets: Iterable[int], forbidden: frozenset[str] = frozenset()) -> dict[int, tuple[Step, int] | None]:
        """The states from which a target can be reached, each with the next step of a shortest way; without steps of the forbidden."""
        before: list[list[tuple[Step, int]]] = [[] for _ in self.states]
        for number, follows in enumerate(self.follows):
            for step, after in follows:
                if forbidden.isdisjoint(step[:2]):
                    before[after].append((step, number))
        onward: dict[int, tuple[Step, int] | None] = dict.fromkeys(targets)
        waiting = deque(onward)
        while waiting:
            after = waiting.popleft()
            for step, number in before[after]:
                if number not in onward:
                    onward[number] = (step, after)
                    waiting.append(number)
        return onward


def first_broken(line: Line, sentences: frozenset[str]) -> dict[str, list[Step]]:
    """A shortest trace that breaks each of these, if there is one; all states are visited only if there is none."""
    graph = _Graph(line, until=sentences)
    return {sentence: graph.way_to(number) for sentence, number in graph.broken.items()}


def walk(line: Line) -> Walked:
    """Every state, and every invariant in it; and from every state each committer alone brings everything to its end."""
    repeated = line.design == Design() and line.configuration == replayable(line.configuration)
    graph = _graph(line.configuration) if repeated else _Graph(line)
    broken = {sentence: graph.way_to(number) for sentence, number in graph.broken.items()}
    names = [f"p{number + 1}" for number in range(line.configuration.committers)]
    # A state that is broken already is not asked for more.
    settled = [number for number, state in enumerate(graph.states) if line.settled(state) or not graph.follows[number]]
    for name in names:
        stuck = set(range(len(graph.states))) - set(graph.leading_to(settled, frozenset({"crash", *names} - {name})))
        if stuck:
            broken.setdefault(DONE, graph.way_to(min(stuck)))
    ends = sum(line.ended(state) for state in graph.states)
    return Walked(len(graph.states), sum(map(len, graph.follows)), ends, broken)


def replayable(configuration: Configuration) -> Configuration:
    """The same situation in steps that a real process can be held at."""
    return replace(configuration, claims_in_two_steps=False, freezes_ahead=False, freezes_less=False)


@cache
def _graph(configuration: Configuration) -> _Graph:
    return _Graph(Line(replayable(configuration)))


def edges(configurations: Iterable[Configuration] = CONFIGURATIONS) -> dict[Edge, Trace]:
    """Every edge that the design can take, with a shortest trace through it to an end.

    An edge is a step and the state in which it is taken, described without names and numbers, together with one of the others: (update strategy, what the one who
    takes it was doing, its verb, what came of it, what the other one is doing). A step is on one edge for each of the others.
    """
    found: dict[Edge, Trace] = {}
    for configuration in configurations:
        graph = _graph(configuration)
        ends = [number for number, state in enumerate(graph.states) if graph.line.ended(state)]
        onward = graph.leading_to(ends, frozenset({"crash"}))  # who is late wakes up in the end
        for number, follows in enumerate(graph.follows):
            doing = _doing(graph.line, graph.states[number])
            for step, after in follows:
                new = [edge for edge in _edges_at(graph.line, doing, step) if edge not in found]
                if new:
                    found |= dict.fromkeys(sorted(new), _through(graph, onward, number, step, after))
    return found


def covering(wanted: dict[Edge, Trace], seeds: int = 500) -> list[Trace]:
    """Fewer traces that together still go through every edge: of the shortest ones and of so many random ones those that bring most."""
    traces = [*wanted.values(), *(random_trace(seed) for seed in range(seeds))]
    pool = [(trace, edges_of(trace)) for trace in traces]
    left, chosen = set(wanted), list[Trace]()
    while left:
        trace, through = max(pool, key=lambda one: (len(one[1] & left), -len(one[0].steps)))
        chosen.append(trace)
        left -= through
    return chosen


def edges_of(trace: Trace) -> set[Edge]:
    line = Line(trace.configuration)
    state, taken = line.start(), set[Edge]()
    for step in trace.steps:
        taken |= _edges_at(line, _doing(line, state), step)
        state = after(line, state, step)
    return taken


def after(line: Line, state: State, step: Step) -> State:
    """Where this step leads; a KeyError when it cannot be taken here."""
    return dict(line.steps(state))[step]


def random_trace(seed: int, configurations: Iterable[Configuration] = CONFIGURATIONS) -> Trace:
    """A run by seed: any situation, then any step that is possible, until everything has come to its end."""
    chance = random.Random(seed)
    line = Line(replayable(chance.choice(list(configurations))))
    state, steps = line.start(), list[Step]()
    while not line.ended(state):
        # The same answer twice in a row adds nothing new.
        step, state = chance.choice([(step, after) for step, after in line.steps(state) if step not in steps[-1:]])
        steps.append(step)
    return _trace(line, steps, state)


def _through(graph: _Graph, onward: dict[int, tuple[Step, int] | None], number: int, step: Step, after: int) -> Trace:
    steps = [*graph.way_to(number), step]
    following = onward[after]
    while following:
        step, after = following
        steps.append(step)
        following = onward[after]
    return _trace(graph.line, steps, graph.states[after])


def _trace(line: Line, steps: list[Step], end: State) -> Trace:
    table = sorted((file.task, file.attempt, "".join(sorted(file.scope)), sorted(file.keys)) for file in table_of(end.log))
    return Trace(
        configuration=line.configuration,
        steps=steps,
        tasks={task.name: run.state for task, run in zip(line.configuration.tasks, end.runs, strict=True)},
        attempts={task.name: run.attempt for task, run in zip(line.configuration.tasks, end.runs, strict=True)},
        versions=[[task for task, _ in end.frozen[version].members] for version in end.recorded],
        table=table,
        stopped=end.stopped,
    )


def _doing(line: Line, state: State) -> dict[str, str]:
    tasks = {task.name: _task_is(run) for task, run in zip(line.configuration.tasks, state.runs, strict=True)}
    return tasks | {f"p{number + 1}": _committer_is(state, committer) for number, committer in enumerate(state.committers)}


def _edges_at(line: Line, doing: dict[str, str], step: Step) -> set[Edge]:
    """This step without names, paired with what each of the others is doing."""
    verb, actor = str(step[0]), str(step[1]) if len(step) > 1 else ""
    came = step[-1] if len(step) > 2 else ""
    what = f"{len(came)} changes" if verb == "freeze" else came if isinstance(came, str) else ""
    described = ("append" if line.configuration.appends else "replace", doing.get(actor, "outside"), verb, what)
    return {(*described, other) for name, other in doing.items() if name != actor}


def _task_is(run: Run) -> str:
    again = " after a rebase" if run.rebases else " anew" if run.attempt > 1 else ""
    return f"a task {run.state}" + (again if run.state == RUNNING else "")


def _committer_is(state: State, committer: Committer) -> str:
    if committer.doing == IDLE:
        return "a committer idle"
    landed = committer.version < len(state.log) and state.log[committer.version] is not None
    return f"a committer {committer.doing}" + (" what is recorded" if committer.version in state.recorded else " what is there" if landed else "")
