"""What must hold in every state of the line, and at every step of it.

All of it is derived from what an observer can see: the Delta log, the recorded versions, and what was decided.
"""

from collections.abc import Iterator
from functools import cache

from model.line_model import COMPLETED, FOREIGN, Change, Entry, Line, State, Table, keys_of, replayed, table_of

ORDER = "versions are in the order of the Delta entries"
SHOWN = "a version shows exactly what is recorded"
ONCE = "a unit of work is committed at most once"
DONE = "every unit of work comes to its end, whichever committer is left"
REPLAY = "the table is the decisions replayed in decided order"
SCOPES = "no scope is there twice"
KEYS = "no key is there twice"
RULE = "a table rule is never exceeded"
REFUSED = "nothing of a refused attempt is visible"
BYTES = "the bytes of an entry never change"
GAPS = "no Delta version is skipped"
FRESH = "an older input never overwrites a newer result"
STOPS = "a line stops only for a foreign writer"
PATIENCE = "nobody is overtaken for ever"
ALL = frozenset({ORDER, SHOWN, ONCE, DONE, REPLAY, SCOPES, KEYS, RULE, REFUSED, BYTES, GAPS, FRESH, STOPS, PATIENCE})


def broken_in(line: Line, state: State) -> frozenset[str]:
    configuration = line.configuration
    found = _broken_by_the_log(state.log, state.decided, configuration.limit) | _broken_by_versions(state.recorded, state.frozen, state.log, state.decided)
    if state.stopped and (FOREIGN, 1) not in _members(state.log):
        found |= {STOPS}
    if any(max(run.rebases, run.superseded) > configuration.patience for run in state.runs):
        found |= {PATIENCE}
    in_log = [task for task, _ in _members(state.log)]
    if any(run.state == COMPLETED and in_log.count(task.name) != 1 for task, run in zip(configuration.tasks, state.runs, strict=True)):
        found |= {ONCE}
    return found


def broken_between(before: State, after: State) -> frozenset[str]:
    log = any(old is not None and old != new for old, new in zip(before.log, after.log, strict=False))
    stored = any(old != new for old, new in zip(before.frozen, after.frozen, strict=False))
    return frozenset({BYTES}) if log or stored or len(after.log) < len(before.log) else frozenset()


@cache
def _broken_by_the_log(log: tuple[Entry | None, ...], decided: tuple[Change, ...], limit: int | None) -> frozenset[str]:
    return frozenset(_of_the_log(log, decided, limit))


def _of_the_log(log: tuple[Entry | None, ...], decided: tuple[Change, ...], limit: int | None) -> Iterator[str]:
    members = _members(log)
    ours = [member for member in members if member[0] != FOREIGN]
    if None in log:
        yield GAPS
    if len({task for task, _ in members}) < len(members):
        yield ONCE
    if not set(ours) <= {(change.task, change.attempt) for change in decided}:
        yield REFUSED
    table = table_of(log)
    if table != replayed(decided[: len(ours)]):
        yield REPLAY
    if sum(len(file.scope) for file in table) > len({cell for file in table for cell in file.scope}):
        yield SCOPES
    if sum(len(file.keys) for file in table) > len(keys_of(table)):
        yield KEYS
    if limit is not None and sum(len(file.keys) for file in table) > limit:
        yield RULE
    if any(entry is not None and _older_over_newer(entry.adds, entry.removes) for entry in log):
        yield FRESH


def _older_over_newer(adds: Table, removes: Table) -> bool:
    return any(new.scope & old.scope and new.pins < old.pins for new in adds for old in removes)


@cache
def _broken_by_versions(
    recorded: tuple[int, ...], frozen: tuple[Entry, ...], log: tuple[Entry | None, ...], decided: tuple[Change, ...]
) -> frozenset[str]:
    found: set[str] = set()
    if recorded != tuple(range(len(recorded))):  # one entry is one version, and none comes before its time
        found.add(ORDER)
    changes = {(change.task, change.attempt): change for change in decided}
    known: Table = frozenset()
    for version in recorded:
        # What Postgres says that this version shows: the files of its places, by what was decided of them.
        for member in frozen[version].members if version < len(frozen) else ():
            known = (known - changes[member].removes) | changes[member].adds if member in changes else known
        if version >= len(log) or known != table_of(log[: version + 1]):
            found.add(SHOWN)
    return frozenset(found)


def _members(log: tuple[Entry | None, ...]) -> list[tuple[str, int]]:
    return [member for entry in log if entry is not None for member in entry.members]
