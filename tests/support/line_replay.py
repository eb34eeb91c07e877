"""Replays a trace of the line's model on the real system, and compares the two after every step.

Tasks are claimed, staged and reported by the test itself; committers are processes of their own. Cells of the model are numbers,
a set of them is a range; keys are ids.
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from deltalake import DeltaTable
from model.line_model import BLOCKED, START, Configuration, Line, State, Step, Task, table_of
from model.line_walk import Trace, after

from support.controls import running_control, settings_for
from support.databases import StateDatabase, fresh_database
from support.lakes import BRONZE, Lake
from support.line_committer import CommitterProcess, Crew
from tracelake.control.process import Control
from tracelake.embedded.postgres import EmbeddedPostgres
from tracelake.storage.paths import log_entry_path
from tracelake_sdk.datasets.measurements import StagedFile
from tracelake_sdk.datasets.scopes import FullScope, RangeScope, Scope, folder_of
from tracelake_sdk.rules import RuleMeasurement, RuleScope
from tracelake_sdk.tasks import ClaimedTask

# No lease ends and no loop interferes unless a step says so; what is queued again can be claimed at once.
STILL = {"housekeeping_seconds": 60, "lease_seconds": 3600, "backoff_seconds": 0}
KILLED = -9

_CELLS = {"x": 0, "y": 1}
_CUT = "partition_by: {{column: id, cursor: integer}}"
_SOURCE = """  - name: {job}
    activation: source
    source: {{{{kind: manual}}}}
    runtime: spark
    operator: ingest_files
    config: {{{{path: nowhere, format: csv}}}}
    outputs: [{{{{layer: bronze, description: Rows}}}}]
    update_strategy: append
    unique_key: [id]
"""
# `load` makes the tasks of some cells or of some keys, `whole` those of everything. After each change `salt` has another version:
# a task that would write existing data ends unchanged, which is not part of the model.
_CLEAN = """  - name: clean
    activation: reactive
    inputs:
      - {{from: {{job: load, output: 0}}}}
      - {{from: {{job: whole, output: 0}}}}
      - {{from: {{job: salt, output: 0}}, trigger: false}}
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_0}}
"""
_SOURCES = _SOURCE.format(job="whole") + _SOURCE.format(job="salt")
_PUBLISH = "publish:\n  {name}_clean: {{job: clean, output_index: 0}}"
_APPENDING = BRONZE.replace(
    "publish:", f"{_SOURCES}{_CLEAN}    outputs: [{{{{layer: silver, description: Clean}}}}]\n    update_strategy: append\n    unique_key: [id]\n{_PUBLISH}"
)
_REPLACING = BRONZE.replace("as they came", f"as they came, {_CUT}").replace(
    "publish:", f"{_SOURCES}{_CLEAN}    outputs: [{{{{layer: silver, description: Clean, {_CUT}}}}}]\n    update_strategy: replace\n{_PUBLISH}"
)


def scope_of_cells(cells: Iterable[str]) -> RangeScope:
    numbers = sorted(_CELLS[cell] for cell in cells)
    return RangeScope(start=numbers[0], end=numbers[-1] + 1)


_FOLDERS = {folder_of(scope_of_cells(cells)): frozenset(cells) for cells in ("x", "y", "xy")} | {folder_of(FullScope()): frozenset[str]()}


@dataclass
class Situation:
    """A configuration of the model as a database and a home to copy; task ids by the model's names."""

    configuration: Configuration
    database: StateDatabase
    home: Path
    tasks: dict[str, UUID] = field(default_factory=dict)
    rule: UUID | None = None


class Hands(Lake):
    """A lake whose queue is served in the order that the test wants, with one connection to look at everything."""

    def __init__(self, control: Control, database: StateDatabase, connection: psycopg.Connection) -> None:
        super().__init__(control, database)
        self.connection = connection

    def query(self, sql: LiteralString, *values: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql, values)
        return cursor.fetchall() if cursor.description else []

    def generation(self, job: str) -> UUID:
        return self.one("SELECT generation.id FROM generation JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = %s", job)

    def claim_task(self, task: UUID) -> ClaimedTask:
        self.query("UPDATE task SET seq = (SELECT min(seq) - 1 FROM task) WHERE id = %s AND seq IS NOT NULL", task)
        watermarks = self.services.tasks.claims.watermarks
        for pool in self.services.tasks.claims.known_pools.values():
            watermarks.learn(pool, 0)
        [claimed] = self.take(1)
        assert claimed.fence.task_id == task
        return claimed

    def bring(self, job: str, scope: Scope | None = None) -> UUID | None:
        """One more version of a source; the task that its event made."""
        task = self.claim_task(self.run(job))
        number = self.one("SELECT count(*) FROM data_version")
        assert self.write(task, [(number, "a")], scope=scope, state={"rows": 1}).result == "committing"
        self.control.committer.move(self.generation(job))
        made = self.query("SELECT task.id FROM task JOIN dataset_event AS event ON event.id = trigger_id WHERE producer_task_id = %s", task.fence.task_id)
        return made[0][0] if made else None


@contextmanager
def lake_of(database: StateDatabase, home: Path) -> Iterator[Hands]:
    with running_control(settings_for(database, home, tasks=STILL), database) as control_plane, psycopg.connect(database.superuser_url, autocommit=True) as connection:
        control_plane.control.movers.stop()
        yield Hands(control_plane.control, database, connection)


def prepare(configuration: Configuration, database: StateDatabase, folder: Path) -> Situation:
    """Everything as it is before the model's first step."""
    situation = Situation(configuration, database, folder / "home")
    with lake_of(database, situation.home) as lake:
        lake.deploy(_APPENDING if configuration.appends else _REPLACING, max_attempts=50)
        if configuration.limit is not None:
            situation.rule = lake.services.guard.add_rule(lake.admin, "sample_clean", "UNIQUE", "id", scope=RuleScope.TABLE).id
        lake.bring("salt")
        start = lake.bring("whole")
        assert start is not None
        for task in configuration.tasks:
            if task.input == 1:
                situation.tasks[task.name] = task_made(lake, task)
        if configuration.start:
            situation.tasks[START] = start
            _write_start(lake, situation)
        else:
            lake.services.tasks.cancels.cancel(lake.admin, start)
    return situation


def task_made(lake: Hands, task: Task) -> UUID:
    made = lake.bring("load", scope_of_cells(task.cells)) if task.cells else lake.bring("load") if task.keys else lake.bring("whole")
    assert made is not None
    return made


def _write_start(lake: Hands, situation: Situation) -> None:
    claimed = lake.claim_task(situation.tasks[START])
    if situation.configuration.appends:
        files = [lake.stage(claimed, [(int(key), START)], name=f"part-{key}") for key in situation.configuration.start]
        report = lake.measured(files, rules=measured_rule(situation, violations=0))
    else:
        scopes = [scope_of_cells(cells) for cells in situation.configuration.start]
        report = lake.measured([lake.stage(claimed, [(scope.start, START)], scope=scope) for scope in scopes], scopes=scopes)
    assert lake.report(claimed, report).result == "committing"
    lake.control.committer.move(lake.generation("clean"))


def measured_rule(situation: Situation, *, violations: int) -> list[RuleMeasurement]:
    return [RuleMeasurement(rule_id=situation.rule, revision=1, violations=violations, examined=1)] if situation.rule else []


class Replay:
    """One trace, on a copy of its situation."""

    def __init__(self, lake: Hands, situation: Situation, trace: Trace, crew: Crew) -> None:
        self.lake, self.situation, self.trace, self.crew = lake, situation, trace, crew
        self.tasks = dict(situation.tasks)
        self.names = {id: name for name, id in self.tasks.items()}
        self.generation = lake.generation("clean")
        self.location = lake.location_of("clean")
        self.held: dict[str, ClaimedTask] = {}
        self.bases: dict[str, int | None] = {}
        self.seen: dict[str, set[int]] = {}
        self.committers: dict[str, CommitterProcess] = {}
        self.reports = 0
        self.connection = lake.connection
        self.salted = False

    def walk(self) -> None:
        line = Line(self.trace.configuration)
        state = line.start()
        self.compare(state, ("start",))
        for number, step in enumerate(self.trace.steps):
            self.take(step)
            state = after(line, state, step)
            self.compare(state, (*self.trace.steps[: number + 1],))
        self.compare_end()

    def close(self) -> None:
        for committer in self.committers.values():
            self.crew.dismiss(committer)

    def take(self, step: Step) -> None:
        match step:
            case ("input",):
                for task in self.trace.configuration.tasks:
                    if task.name not in self.tasks:
                        self.tasks[task.name] = task_made(self.lake, task)
                        self.names[self.tasks[task.name]] = task.name
            case ("foreign", version):
                entry = self.lake.root / log_entry_path(str(self.location.relative_to(self.lake.root)), version)
                entry.write_text(json.dumps({"commitInfo": {"operation": "WRITE"}}) + "\n")
            case ("claim", task):
                self._claim(task)
            case ("decide", task, answer):
                self._decide(self._task(task), answer)
            case ("crash", task, "before decide"):
                self._lose(task)
            case ("crash", committer, _):
                assert self.committers.pop(committer).crash() == KILLED
            case ("freeze", committer, members):
                [entry] = self._committer(committer).ask(step="freeze")["entries"]
                assert self._members(entry["first_place"], entry["last_place"]) == list(members)
            case ("take", committer, version):
                assert [entry["delta_version"] for entry in self._committer(committer).ask(step="freeze")["entries"]] == [version]
            case ("put", committer, _, outcome):
                self._put(committer, outcome)
            case ("record", committer, _, outcome):
                recorded = self.committers[committer].ask(step="record")["recorded"]
                assert (recorded > 0) == (outcome == "recorded")
            case _:
                raise AssertionError(step)

    def _task(self, name: str) -> Task:
        return next(task for task in self.trace.configuration.tasks if task.name == name)

    def _committer(self, name: str) -> CommitterProcess:
        if name not in self.committers:
            committer = self.committers[name] = self.crew.hire()
            committer.ask(open={"database": self.lake.database.service_url, "lake": str(self.lake.root), "generation": str(self.generation)})
        return self.committers[name]

    def _put(self, committer: str, outcome: str) -> None:
        lost = {"lost answer": "answer", "lost request": "request"}.get(outcome)
        heard = {"created": "created", "same bytes": "same", "other bytes": "other"}.get(outcome, "unknown")
        assert self.committers[committer].ask(step="put", lost=lost)["put"] == heard

    def _claim(self, name: str) -> None:
        if not self.salted:
            self.lake.bring("salt")
            self.salted = True
        claimed = self.held[name] = self.lake.claim_task(self.tasks[name])
        staged = claimed.payload.outputs[0].staged
        assert staged is not None
        self.bases[name] = claimed.payload.base
        self.seen[name] = self._keys(file.path for file in staged.current)

    def _lose(self, name: str) -> None:
        """Its worker is gone, and its lease runs out."""
        self.connection.execute("UPDATE task SET lease_expires_at = now() - interval '1 second' WHERE id = %s", [self.tasks[name]])
        self.lake.services.tasks.reaper.run_once()

    def _decide(self, task: Task, expected: str) -> None:
        claimed = self.held[task.name]
        staged = claimed.payload.outputs[0].staged
        assert staged is not None
        self.reports += 1
        if self.trace.configuration.appends:
            report = self._appended(task, claimed)
        else:
            files: list[StagedFile] = []
            for scope in staged.scopes:
                assert isinstance(scope, RangeScope)
                rows = [(scope.start, f"{task.name}{claimed.fence.attempt}")]
                files.append(self.lake.stage(claimed, rows, scope=scope, name=f"part-{self.reports}"))
            report = self.lake.measured(files, scopes=staged.scopes, outside_scope=1 if task.bad else 0)
        answer = self.lake.report(claimed, report, base=self.bases[task.name])
        assert answer.result == expected, f"{task.name}: {answer}"
        self.salted = self.salted and expected != "committing"
        if expected == "base_moved":
            self.bases[task.name] = answer.base
            self.seen[task.name] |= self._keys(file.path for moved in answer.moved for file in moved.added)

    def _appended(self, task: Task, claimed: ClaimedTask) -> Any:
        there = self.seen[task.name]
        new = sorted(task.keys - there)
        files = [self.lake.stage(claimed, [(key, f"{task.name}{claimed.fence.attempt}") for key in new], name=f"part-{self.reports}")]
        limit = self.trace.configuration.limit
        broken = limit is not None and len(there | task.keys) > limit
        return self.lake.measured(files, rules=measured_rule(self.situation, violations=1 if broken else 0))

    def _keys(self, paths: Iterable[str]) -> set[int]:
        if not self.trace.configuration.appends:
            return set()
        return {row[0] for path in paths for row in self.lake.rows_of(self.location / path)}

    def _members(self, first: int, last: int) -> list[str]:
        rows = self.connection.execute(
            "SELECT task_id FROM change WHERE generation_id = %s AND place BETWEEN %s AND %s ORDER BY place", [self.generation, first, last]
        )
        return [self.names[id] for (id,) in rows]

    # What the model says, and what is there.

    def compare(self, state: State, steps: Iterable[Step | str]) -> None:
        trace_text = "\n".join(map(str, steps))
        frozen = sum(len(entry.members) for entry in state.frozen)
        recorded = sum(len(state.frozen[version].members) for version in state.recorded)
        assert self._line() == (len(state.decided), frozen, recorded, state.stopped), trace_text
        assert self._decided() == [(change.task, change.attempt) for change in state.decided], trace_text
        assert self._states() == {task.name: _real(run.state) for task, run in zip(self.trace.configuration.tasks, state.runs, strict=True) if task.name in self.tasks}, trace_text
        assert self._versions() == [(version, [name for name, _ in state.frozen[version].members]) for version in state.recorded], trace_text
        assert self._log() == [number for number, entry in enumerate(state.log) if entry is not None], trace_text
        assert self._table() == {(file.task, file.attempt, file.scope, file.keys) for file in table_of(state.log)}, trace_text
        tasks = self.trace.configuration.tasks
        holder, reserved = self._waited_for()
        assert state.turn is None or holder == tasks[state.turn].name, trace_text
        assert reserved == (None if state.reserved is None else tasks[state.reserved].name), trace_text

    def compare_end(self) -> None:
        trace = self.trace
        attempts = self.connection.execute("SELECT id, attempt FROM task WHERE id = ANY(%s)", [list(self.tasks.values())]).fetchall()
        assert {self.names[id]: attempt for id, attempt in attempts if self.names[id] != START} == trace.attempts
        assert [members for _, members in self._versions()] == trace.versions
        assert sorted((name, attempt, "".join(sorted(scope)), sorted(keys)) for name, attempt, scope, keys in self._table()) == trace.table

    def _line(self) -> tuple[int, int, int, bool]:
        row = self.connection.execute("SELECT decided, frozen, recorded, stopped_at IS NOT NULL FROM line WHERE generation_id = %s", [self.generation]).fetchone()
        assert row is not None
        return row[0], row[1], row[2], row[3]

    def _waited_for(self) -> tuple[str | None, str | None]:
        row = self.connection.execute("SELECT turn_task_id, reserved_task_id FROM line WHERE generation_id = %s", [self.generation]).fetchone()
        assert row is not None
        return self.names.get(row[0]), self.names.get(row[1])

    def _decided(self) -> list[tuple[str, int]]:
        rows = self.connection.execute("SELECT task_id, attempt FROM change WHERE generation_id = %s ORDER BY place", [self.generation])
        return [(self.names[id], attempt) for id, attempt in rows]

    def _states(self) -> dict[str, str]:
        rows = self.connection.execute("SELECT id, state::text FROM task WHERE id = ANY(%s)", [list(self.tasks.values())])
        return {self.names[id]: state for id, state in rows if self.names[id] != START}

    def _versions(self) -> list[tuple[int, list[str]]]:
        """Of each version, in order, its Delta version and the tasks whose changes it carries; versions are counted without gaps."""
        rows = self.connection.execute(
            "SELECT version.version, version.delta_version, array_agg(change.task_id ORDER BY change.place)"
            " FROM data_version AS version JOIN data_version_member AS member USING (dataset_id, version)"
            " JOIN change ON change.generation_id = member.generation_id AND change.place = member.place"
            " WHERE member.generation_id = %s GROUP BY version.version, version.delta_version ORDER BY version.version",
            [self.generation],
        ).fetchall()
        assert [number for number, _, _ in rows] == list(range(1, len(rows) + 1))
        return [(delta_version, [self.names[id] for id in members]) for _, delta_version, members in rows]

    def _log(self) -> list[int]:
        return sorted(int(entry.stem) for entry in (self.location / "_delta_log").glob("[0-9]*.json"))

    def _table(self) -> set[tuple[str, int, frozenset[str], frozenset[int]]]:
        """What a Delta reader sees."""
        if not self._log():
            return set()
        found: set[tuple[str, int, frozenset[str], frozenset[int]]] = set()
        for uri in DeltaTable(str(self.location)).file_uris():
            path = Path(uri.removeprefix("file://"))
            attempt_folder, scope, _ = path.relative_to(self.location).parts
            task, _, attempt = attempt_folder.rpartition("-")
            found.add((self.names[UUID(task)], int(attempt), _FOLDERS[scope], frozenset(self._keys([str(path.relative_to(self.location))]))))
        return found


def _real(state: str) -> str:
    return "failed" if state == BLOCKED else state


@contextmanager
def copied(situation: Situation, postgres: EmbeddedPostgres, folder: Path) -> Iterator[Hands]:
    with fresh_database(postgres, situation.database.name) as database:
        shutil.copytree(situation.home, folder / "home")
        with lake_of(database, folder / "home") as lake:
            yield lake
