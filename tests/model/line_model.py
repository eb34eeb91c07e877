"""The line as a model: every state that tasks, committers, crashes and lost answers can bring it into.

A table is a set of files, each with the scope (a set of cells) or the unique keys that it holds and the version of the input it was made from. Nothing in here
knows the real system. A step is a tuple: its name, who takes it, and what came of it. This is the vocabulary, in which traces are handed to whoever replays
them against real processes:

    ("input",)                       the input gets its next version; tasks that this version's event makes can be claimed from now on
    ("foreign", 2)                   somebody else writes entry 2 of the table's Delta log
    ("claim", "A")                   task A is claimed: attempt + 1, the line's base first, the pins after it
    ("base", "A"), ("pins", "A")     the same in two steps, where a configuration says so; such traces are not for replay
    ("decide", "A", answer)          A's attempt completes, and this is the answer:
        "committing"                 allowed, it has the line's next place
        "blocked"                    the gate refuses it, finally
        "base_moved"                 nothing decided: the attempt measures against the files since, and decides again
        "superseded"                 nothing decided: the attempt is over, the task is queued again
        "wait"                       nothing decided: another attempt has the turn
    ("crash", "A", "before decide")  A's worker dies; the task is queued again
    ("freeze", "p1", ("A", "B"))     committer p1 stores the next Delta entry, made of these tasks' changes, and holds the first entry that is not recorded
    ("take", "p1", 2)                p1 reads the stored bytes of entry 2, and holds them from now on, however long it sleeps
    ("put", "p1", 2, outcome)        p1 puts the bytes that it holds as entry 2, only if it is absent:
        "created"                    it was absent, and p1 hears so
        "same bytes"                 it was there already with these bytes: done
        "lost answer"                written (or there already), but p1 hears nothing: outcome unknown, it puts again
        "lost request"               nothing was written, and p1 hears nothing: outcome unknown, it puts again
        "other bytes"                a foreign writer was there: the line stops
    ("record", "p1", 2, outcome)     p1 records entry 2: "recorded", or "already" when another one did
    ("crash", "p1", "before put")    p1 dies with the frozen bytes in its hands, or with a put whose outcome it does not know
    ("crash", "p1", "before record") p1 dies after its put was answered

Tasks are named A, B, C, committers p1, p2, …; entries are counted like Delta's, from 0, and entry 0 is the table's start where the configuration has one. A
committer that crashed or that recorded comes back with empty hands. Lists are tuples, so that steps can be compared; they are JSON otherwise.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

Step = tuple[Any, ...]
QUEUED, BASED, PINNED, RUNNING, COMMITTING, COMPLETED, BLOCKED = "queued", "based", "pinned", "running", "committing", "completed", "blocked"
IDLE, PUTTING, RECORDING = "idle", "putting", "recording"
START, FOREIGN = "start", "foreign"
NOTHING: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class Task:
    name: str
    cells: str = ""          # what a replace rewrites; empty: everything, in the existing scopes
    keys: frozenset[int] = NOTHING   # what an append brings
    input: int = 1           # the version of the input whose event made this task
    bad: bool = False        # the gate refuses it


@dataclass(frozen=True)
class Configuration:
    """One situation to be walked through: a line has one update strategy, so all its tasks append or all replace."""

    name: str
    tasks: tuple[Task, ...]
    start: tuple[str, ...] = ()             # the scopes of a replaced table, or of an appended one the keys, before anything happens
    appends: bool = False
    inputs: int = 1                         # versions that the input gets
    limit: int | None = None                # a table rule: at most so many rows
    patience: int = 2                       # after so many rebases an attempt gets the turn, after so many times superseded a task runs alone
    foreign: bool = False                   # another writer writes into the Delta log, once
    committers: int = 2
    crashes: int = 1
    claims_in_two_steps: bool = False
    freezes_ahead: bool = False             # entries may be frozen while earlier ones are not recorded
    freezes_less: bool = False              # an entry may carry fewer changes than it could

    @property
    def cells(self) -> frozenset[str]:
        return frozenset("".join(task.cells for task in self.tasks)) | frozenset("".join(self.start) if not self.appends else "")


@dataclass(frozen=True)
class Design:
    """How the line works. The defaults are the correct design; every other value is a plausible wrong design."""

    removes: str = "at the decided place"   # or "of the recorded state, at decide", "from Postgres, at commit", "from the Delta snapshot, at commit"
    base_is_checked: bool = True
    base_before_pins: bool = True
    turns_and_reservations: bool = True
    bytes_are_frozen: bool = True           # else every committer computes its own
    groups_are_disjoint: bool = True        # else overlapping changes are joined as if they were
    freezes_in_order: bool = True
    anyone_may_put: bool = True             # else only who froze an entry
    puts_only_if_absent: bool = True        # else it overwrites
    keeps_its_version: bool = True          # else an entry that exists is a conflict, and the next version is tried
    never_gives_up: bool = True             # else a put whose outcome is unknown may be dropped and its tasks queued again
    records_in_order: bool = True           # else whatever was put
    records_what_it_put: bool = True        # else whatever is frozen by now


class File(NamedTuple):
    task: str
    attempt: int
    scope: frozenset[str]
    keys: frozenset[int]
    pins: int


Table = frozenset[File]


class Change(NamedTuple):
    """A place of the line."""

    task: str
    attempt: int
    scope: frozenset[str]   # what it replaces; nothing when it appends
    adds: Table
    removes: Table


class Entry(NamedTuple):
    """The bytes of a Delta log entry."""

    members: tuple[tuple[str, int], ...]
    adds: Table
    removes: Table


class Run(NamedTuple):
    """A task and its current attempt."""

    state: str = QUEUED
    attempt: int = 0
    base: int = 0
    pins: int = 0
    rebases: int = 0
    superseded: int = 0


class Committer(NamedTuple):
    doing: str = IDLE
    version: int = 0
    entry: Entry | None = None   # in its memory


class State(NamedTuple):
    runs: tuple[Run, ...]
    committers: tuple[Committer, ...]
    decided: tuple[Change, ...]              # Postgres: the line
    frozen: tuple[Entry, ...]                # Postgres: by Delta version
    recorded: tuple[int, ...]                # Postgres: the Delta version of version 1, 2, …
    log: tuple[Entry | None, ...]            # storage
    input: int = 1
    turn: int | None = None                  # the task whose attempt others wait for
    reserved: int | None = None              # the task that runs alone
    stopped: bool = False
    foreign: bool = False                    # still to come
    crashes: int = 0                         # still to come


@cache
def table_of(entries: tuple[Entry | None, ...]) -> Table:
    """What a Delta reader sees after these entries."""
    table: Table = NOTHING
    for entry in entries:
        if entry is not None:
            table = (table - entry.removes) | entry.adds
    return table


@cache
def replayed(changes: tuple[Change, ...]) -> Table:
    """The expected table after these decisions, derived from their meaning and not from the computed removes."""
    table: Table = NOTHING
    for change in changes:
        table = frozenset(file for file in table if not file.scope & change.scope) | change.adds
    return table


def keys_of(table: Iterable[File]) -> frozenset[int]:
    return frozenset(key for file in table for key in file.keys)


class Line:
    """The steps of one configuration under one design."""

    def __init__(self, configuration: Configuration, design: Design | None = None) -> None:
        self.configuration = configuration
        self.design = design or Design()

    def start(self) -> State:
        configuration = self.configuration
        if configuration.appends:
            files = frozenset(File(START, 1, NOTHING, frozenset({int(key)}), 1) for key in configuration.start)
        else:
            files = frozenset(File(START, 1, frozenset(scope), NOTHING, 1) for scope in configuration.start)
        decided = (Change(START, 1, NOTHING, files, NOTHING),) if files else ()
        log = (Entry(((START, 1),), files, NOTHING),) if files else ()
        return State(
            runs=(Run(),) * len(configuration.tasks), committers=(Committer(),) * configuration.committers, decided=decided, frozen=log,
            recorded=tuple(range(len(log))), log=log, foreign=configuration.foreign, crashes=configuration.crashes,
        )

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """Everything that may happen next."""
        if state.input < self.configuration.inputs:
            yield ("input",), state._replace(input=state.input + 1)
        if state.foreign and state.log:
            entry = Entry(((FOREIGN, 1),), NOTHING, NOTHING)
            yield (FOREIGN, len(state.log)), state._replace(foreign=False, log=(*state.log, entry))
        for number, task in enumerate(self.configuration.tasks):
            yield from self._task_steps(state, number, task)
        for number in range(len(state.committers)):
            yield from self._committer_steps(state, number)

    def settled(self, state: State) -> bool:
        """Nothing is left to be done, whatever a late committer still believes; or a person has to look."""
        done = all(run.state in (COMPLETED, BLOCKED) for run in state.runs) and len(state.recorded) == len(state.frozen)
        return state.stopped or done

    def ended(self, state: State) -> bool:
        return self.settled(state) and state.input == self.configuration.inputs and all(committer.doing == IDLE for committer in state.committers)

    # Tasks: claim and decide.

    def _task_steps(self, state: State, number: int, task: Task) -> Iterator[tuple[Step, State]]:
        run = state.runs[number]
        if run.state == QUEUED and self._claimable(state, number, task):
            claimed = run._replace(attempt=run.attempt + 1, rebases=0)
            if not self.configuration.claims_in_two_steps:
                yield ("claim", task.name), _ran(state, number, claimed._replace(state=RUNNING, base=len(state.decided), pins=state.input))
            elif self.design.base_before_pins:
                yield ("base", task.name), _ran(state, number, claimed._replace(state=BASED, base=len(state.decided)))
            else:
                yield ("pins", task.name), _ran(state, number, claimed._replace(state=PINNED, pins=state.input))
        elif run.state == BASED:
            yield ("pins", task.name), _ran(state, number, run._replace(state=RUNNING, pins=state.input))
        elif run.state == PINNED:
            yield ("base", task.name), _ran(state, number, run._replace(state=RUNNING, base=len(state.decided)))
        elif run.state == RUNNING:
            answer, after = self._decide(state, number, task)
            yield ("decide", task.name, answer), after
            if state.crashes:
                crashed = _ran(state, number, run._replace(state=QUEUED, base=0, pins=0, rebases=0))
                yield ("crash", task.name, "before decide"), _without_turn(crashed, number)._replace(crashes=state.crashes - 1)

    def _claimable(self, state: State, number: int, task: Task) -> bool:
        others_run = any(run.state in (BASED, PINNED, RUNNING) for other, run in enumerate(state.runs) if other != number)
        alone = state.reserved is None or (state.reserved == number and not others_run)
        return task.input <= state.input and not state.stopped and alone

    def _decide(self, state: State, number: int, task: Task) -> tuple[str, State]:
        """The deciding transaction: the line is locked, and what is measured against an older base than it has is not taken."""
        run = state.runs[number]
        if state.turn not in (None, number):
            return "wait", state
        change = self._change(state, run, task)
        if self.design.base_is_checked and any(self._clash(change, later) for later in state.decided[run.base:]):
            return self._overtaken(state, number, run)
        measured = len(keys_of(replayed(state.decided[: run.base]) | change.adds))
        if task.bad or (self.configuration.limit is not None and measured > self.configuration.limit):
            return "blocked", _free(_ran(state, number, run._replace(state=BLOCKED, base=0, pins=0, rebases=0)), number)
        state = _free(_ran(state, number, run._replace(state=COMMITTING, base=0, pins=0, rebases=0)), number)
        return "committing", state._replace(decided=(*state.decided, change))

    def _overtaken(self, state: State, number: int, run: Run) -> tuple[str, State]:
        patient = not self.design.turns_and_reservations
        if self.configuration.appends:
            after = _ran(state, number, run._replace(base=len(state.decided), rebases=run.rebases + 1))
            return "base_moved", after if patient or run.rebases + 1 < self.configuration.patience else after._replace(turn=number)
        after = _ran(state, number, run._replace(state=QUEUED, base=0, pins=0, superseded=run.superseded + 1))
        if patient or run.superseded + 1 < self.configuration.patience or state.reserved is not None:
            return "superseded", after
        return "superseded", after._replace(reserved=number)

    def _change(self, state: State, run: Run, task: Task) -> Change:
        """What the attempt wrote, given what it was handed out at its base."""
        base = replayed(state.decided[: run.base])
        if self.configuration.appends:
            new = task.keys - keys_of(base)
            return Change(task.name, run.attempt, NOTHING, frozenset({File(task.name, run.attempt, NOTHING, new, run.pins)}), NOTHING)
        if task.cells:  # widened to whole current scopes
            scope = frozenset(task.cells).union(*(file.scope for file in base if file.scope & frozenset(task.cells)))
            written = {scope}
        else:
            scope, written = self.configuration.cells, {file.scope for file in base}
        adds = frozenset(File(task.name, run.attempt, piece, NOTHING, run.pins) for piece in written)
        head = replayed(state.decided)
        if self.design.removes == "of the recorded state, at decide":
            head = table_of(tuple(state.frozen[version] for version in state.recorded))
        return Change(task.name, run.attempt, scope, adds, frozenset(file for file in head if file.scope & scope))

    def _clash(self, change: Change, later: Change) -> bool:
        if not self.configuration.appends:
            return bool(change.scope & later.scope)
        mine, theirs = keys_of(change.adds), keys_of(later.adds)
        # A rule about the whole table sees every later row; keys are compared as the ranges that files tell.
        return self.configuration.limit is not None or (min(mine) <= max(theirs) and min(theirs) <= max(mine))

    # Committers: freeze or take, put, record.

    def _committer_steps(self, state: State, number: int) -> Iterator[tuple[Step, State]]:
        committer, name = state.committers[number], f"p{number + 1}"
        if committer.doing == IDLE and not state.stopped:
            yield from self._take_steps(state, number, name)
            yield from self._freeze_steps(state, number, name)
        elif committer.doing == PUTTING:
            yield from self._put_steps(state, number, name)
        elif committer.doing == RECORDING:
            outcome, after = self._record(state, committer) if self.design.records_what_it_put else self._whatever_is_frozen(state)
            yield ("record", name, committer.version, outcome), _did(after, number, Committer())
        if committer.doing != IDLE and state.crashes:
            moment = "before put" if committer.doing == PUTTING else "before record"
            yield ("crash", name, moment), _did(state, number, Committer())._replace(crashes=state.crashes - 1)

    def _take_steps(self, state: State, number: int, name: str) -> Iterator[tuple[Step, State]]:
        waiting = [version for version in range(len(state.frozen)) if version not in state.recorded]
        if self.design.anyone_may_put:
            for version in waiting[:1] if self.design.records_in_order else waiting:
                yield ("take", name, version), _did(state, number, Committer(PUTTING, version, state.frozen[version]))

    def _freeze_steps(self, state: State, number: int, name: str) -> Iterator[tuple[Step, State]]:
        first = len(state.recorded)
        if first < len(state.frozen) and not self.configuration.freezes_ahead:
            return
        members = {member for entry in state.frozen for member in entry.members}
        places = [change for change in state.decided if (change.task, change.attempt) not in members]
        for group in self._groups(places):
            entry, label = self._entry(state, group), ("freeze", name, tuple(change.task for change in group))
            if self.design.bytes_are_frozen:
                frozen = (*state.frozen, entry)
                version = first if self.design.anyone_may_put else len(state.frozen)
                yield label, _did(state, number, Committer(PUTTING, version, frozen[version]))._replace(frozen=frozen)
            else:
                yield label, _did(state, number, Committer(PUTTING, len(state.frozen), entry))

    def _groups(self, places: list[Change]) -> Iterator[list[Change]]:
        if not self.design.freezes_in_order:
            yield from ([place] for place in places)
            return
        together = [places[:count] for count in range(1, len(places) + 1) if self._go_together(places[:count])]
        yield from together if self.configuration.freezes_less else together[-1:]

    def _go_together(self, places: list[Change]) -> bool:
        scopes = [place.scope for place in places]
        return not self.design.groups_are_disjoint or sum(map(len, scopes)) == len(NOTHING.union(*scopes))

    def _entry(self, state: State, group: list[Change]) -> Entry:
        removes = frozenset(file for change in group for file in change.removes)
        if self.design.removes.endswith("at commit"):
            recorded = tuple(state.frozen[version] for version in state.recorded)
            now = table_of(recorded if self.design.removes == "from Postgres, at commit" else state.log)
            removes = frozenset(file for change in group for file in now if file.scope & change.scope)
        adds = frozenset(file for change in group for file in change.adds)
        return Entry(tuple((change.task, change.attempt) for change in group), adds, removes)

    def _put_steps(self, state: State, number: int, name: str) -> Iterator[tuple[Step, State]]:
        _, version, entry = state.committers[number]
        there = state.log[version] if version < len(state.log) else None
        answered = _did(state, number, state.committers[number]._replace(doing=RECORDING))
        yield ("put", name, version, "lost request"), state
        if there is None or (there != entry and not self.design.puts_only_if_absent):
            log = _written(state.log, version, entry)
            yield ("put", name, version, "created"), answered._replace(log=log)
            yield ("put", name, version, "lost answer"), state._replace(log=log)
        elif not self.design.keeps_its_version:
            elsewhere = _did(state, number, Committer(RECORDING, len(state.log), entry))
            yield ("put", name, len(state.log), "created"), elsewhere._replace(log=(*state.log, entry))
        elif there == entry:
            yield ("put", name, version, "same bytes"), answered
            yield ("put", name, version, "lost answer"), state
        else:
            yield ("put", name, version, "other bytes"), _did(state, number, Committer())._replace(stopped=True)
        if not self.design.never_gives_up and version == len(state.frozen) - 1 and version not in state.recorded and state.crashes:
            yield ("give up", name, version), self._given_up(_did(state, number, Committer()), version)

    def _given_up(self, state: State, version: int) -> State:
        dropped = {task for task, _ in state.frozen[version].members}
        runs = tuple(run._replace(state=QUEUED) if task.name in dropped else run for task, run in zip(self.configuration.tasks, state.runs, strict=True))
        decided = tuple(change for change in state.decided if change.task not in dropped)
        return state._replace(runs=runs, decided=decided, frozen=state.frozen[:version], crashes=state.crashes - 1)

    def _record(self, state: State, committer: Committer) -> tuple[str, State]:
        version, entry = committer.version, committer.entry
        if version in state.recorded:
            return "already", state
        if not self.design.bytes_are_frozen and entry is not None:
            state = state._replace(frozen=(*state.frozen, entry))
        done = {task for task, _ in state.frozen[version].members} if version < len(state.frozen) else NOTHING
        runs = tuple(run._replace(state=COMPLETED) if task.name in done else run for task, run in zip(self.configuration.tasks, state.runs, strict=True))
        return "recorded", state._replace(recorded=(*state.recorded, version), runs=runs)

    def _whatever_is_frozen(self, state: State) -> tuple[str, State]:
        for version in range(len(state.recorded), len(state.frozen)):
            _, state = self._record(state, Committer(RECORDING, version, state.frozen[version]))
        return "recorded", state


def _ran(state: State, number: int, run: Run) -> State:
    return state._replace(runs=(*state.runs[:number], run, *state.runs[number + 1 :]))


def _did(state: State, number: int, committer: Committer) -> State:
    return state._replace(committers=(*state.committers[:number], committer, *state.committers[number + 1 :]))


def _without_turn(state: State, number: int) -> State:
    return state._replace(turn=None) if state.turn == number else state


def _free(state: State, number: int) -> State:
    return _without_turn(state, number)._replace(reserved=None if state.reserved == number else state.reserved)


def _written(log: tuple[Entry | None, ...], version: int, entry: Entry | None) -> tuple[Entry | None, ...]:
    padded = [*log, *[None] * (version + 1 - len(log))]
    padded[version] = entry
    return tuple(padded)
