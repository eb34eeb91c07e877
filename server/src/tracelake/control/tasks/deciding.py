"""Decide: measured outputs pass the gate or are refused, and an allowed change takes its place in the line.

All of it happens in the transaction that takes the report, under the line's lock: removes, overlaps and the rows of the
table are judged as of the decided place, so that nothing can fail any more once a place is taken.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Job, Output
from tracelake.control.database.transactions import Asked, Transaction
from tracelake.control.promotion import store as promotion
from tracelake.control.promotion.gate import Decision, judge_all
from tracelake.control.promotion.store import Decided
from tracelake.control.promotion.table_rules import TableRules
from tracelake.control.tasks import store
from tracelake.control.tasks.candidates import Gathered, gather
from tracelake.control.tasks.fingerprints import fingerprint
from tracelake.control.tasks.judgement import AttemptRow, LockedTask
from tracelake.control.tasks.rows import LostBatch
from tracelake.control.tasks.tables import Plan, Tables
from tracelake.control.versions import store as versions
from tracelake.control.versions.bases import BaseVerdict, Since, judge_base
from tracelake.control.versions.store import Line, NewChange, NewChangeOutput
from tracelake.storage.paths import UnsafePath, plain, staging_folder
from tracelake_sdk.dags import NullKeys, UpdateStrategy
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.datasets.scopes import FullScope, Scope, covers
from tracelake_sdk.errors import Invalid
from tracelake_sdk.tasks import Completion, MissingRules, MovedOutput

REBASES_BEFORE_A_TURN = 2
_WRITTEN_AGAIN = re.compile(r"-u[0-9a-f]{16}(?=\.parquet$)")


@dataclass(frozen=True)
class Reported:
    """A successful report of a task that writes files, under the locks of its line and its task."""

    report: Completion
    task: LockedTask
    attempt: AttemptRow
    job: Job
    outputs: list[Output]
    adopted: Sequence[str]          # the files of the batch that the task adopts, where they lie
    swap_state: Callable[[], bool]  # moves the operator's state; False where it had moved already

    @property
    def strategy(self) -> UpdateStrategy:
        return UpdateStrategy(self.job.spec["update_strategy"])

    @property
    def needed_key(self) -> tuple[str, ...]:
        """The columns in which no row of an append may have a null; none where the job says that such rows are distinct."""
        spec = self.job.spec
        needed = self.strategy is UpdateStrategy.APPEND and spec.get("null_keys", NullKeys.BLOCK.value) == NullKeys.BLOCK.value
        return tuple(spec["unique_key"]) if needed else ()

    @property
    def base(self) -> int:
        """What it was measured against: what the attempt was given last, or before an answer that was lost on its way."""
        return self.report.base or 0


@dataclass(frozen=True)
class Committed:
    """Allowed: the change has its place."""

    place: int
    reason: str


@dataclass(frozen=True)
class Blocked:
    reason: str


@dataclass(frozen=True)
class Unchanged:
    """Allowed, and there is nothing to commit."""


@dataclass(frozen=True)
class Moved:
    base: int
    moved: list[MovedOutput]


@dataclass(frozen=True)
class Unmeasured:
    rules: list[MissingRules]


@dataclass(frozen=True)
class Wait:
    """Another attempt of the line has its turn."""


@dataclass(frozen=True)
class Superseded:
    pass


Answer = Committed | Blocked | Unchanged | Moved | Unmeasured | Wait | Superseded


@dataclass
class Deciding:
    """The lines of one transaction's reports; answers come one report after the other, and `write` stores what they did."""

    tx: Transaction
    decided_at: datetime
    lines: dict[UUID, Line]
    gathered: Gathered
    tables: Tables
    table_rules: TableRules
    _places: dict[UUID, int] = field(default_factory=dict)
    _changes: list[NewChange] = field(default_factory=list)
    _outputs: list[NewChangeOutput] = field(default_factory=list)
    _decided: list[Decided] = field(default_factory=list)
    _turns: dict[UUID, tuple[UUID, int] | None] = field(default_factory=dict)

    @staticmethod
    def ask(tx: Transaction, org: UUID, reports: Sequence[tuple[Completion, list[Output]]], *, now: datetime | None) -> Asked["Deciding"]:
        """Everything that deciding these reports of jobs with these outputs needs in most cases; whether they will be decided may be unknown yet."""
        outputs = [output for _, written in reports for output in written]
        lines = versions.ask_lines(tx, sorted({output.generation_id for output in outputs}))
        clock = store.ask_clock(tx, now=now)
        gathered = gather(tx, org, outputs, [(report.fence.task_id, report.fence.attempt) for report, _ in reports])
        tables = Tables.ask(tx, lines, _scopes_by_table(reports))
        known = TableRules.ask(tx, sorted({output.dataset_version_id for output in outputs}))
        return known.then(lambda found: Deciding(tx, clock.answer(), lines.answer(), gathered.answer(), tables.answer(), found))

    def answer(self, given: Reported) -> Answer:
        """Raises Invalid where the report does not fit its attempt; whatever it answers, nothing is written yet."""
        measured = _checked(given)
        line = self.lines[given.task.generation_id]
        holder = self._turns.get(line.generation_id, line.turn)
        if holder is not None and holder != (given.task.id, given.attempt.attempt) and store.holds_lease(self.tx, holder[0], holder[1]):
            return Wait()
        verdict = self._base(given, measured)
        if verdict is not None:
            return verdict
        plans = {output.output_index: self.tables.plan(given, output, measured[output.output_index]) for output in given.outputs}
        missing = self.gathered.unmeasured(given, measured, plans)
        if missing:
            return Unmeasured([MissingRules(index=index, rules=rules) for index, rules in missing.items()])
        return self._gate(given, measured, plans)

    def refuse(self, given: Reported, lost: Sequence[LostBatch]) -> Blocked:
        """A run goes on from its batches: where one of them was refused or failed, the run is blocked by a decision that names it."""
        measured = _checked(given)
        plans = {output.output_index: self.tables.plan(given, output, measured[output.output_index]) for output in given.outputs}
        facts = tuple(batch.fact for batch in lost)
        decisions = judge_all([replace(candidate, refused_batches=facts) for candidate in self.gathered.candidates(given, measured, plans)])
        self._remember(given, decisions, self.place(given.task.generation_id) + 1, batches=[batch.evidence for batch in lost])
        self._end_turn(given)
        return Blocked(decisions[0].reason)

    def write(self) -> None:
        promotion.decide(self.tx, self._decided, now=self.decided_at)
        for generation, place in sorted(self._places.items()):
            versions.move_line(self.tx, generation=generation, decided=place)
        if self._changes:
            versions.add_changes(self.tx, self._changes, decided_at=self.decided_at)
            versions.add_change_outputs(self.tx, self._outputs)
        self.tables.write(self.tx)
        self.table_rules.write(self.tx)
        for generation, turn in sorted(self._turns.items()):
            task, attempt = turn or (None, None)
            versions.give_turn(self.tx, generation=generation, task=task, attempt=attempt)

    def place(self, generation: UUID) -> int:
        """The decided place, with what this transaction has decided."""
        return self._places.get(generation, self.lines[generation].decided)

    def _base(self, given: Reported, measured: dict[int, OutputMeasured]) -> Moved | Superseded | None:
        """None: the base is good."""
        since = {output.output_index: self.tables.since(output, given.base) for output in given.outputs}
        verdicts = {
            index: judge_base(
                given.strategy,
                self.scopes_of(given, measured[index]),
                measured[index].files,
                moved,
                table_rules=self.gathered.has_table_rules(given.outputs[index]),
            )
            for index, moved in since.items()
        }
        if BaseVerdict.SUPERSEDED in verdicts.values() or not self.tables.covers_whole_scopes(given, measured):
            return Superseded()
        if BaseVerdict.MOVED not in verdicts.values():
            return None
        if given.attempt.rebases + 1 >= REBASES_BEFORE_A_TURN:
            self._turns[given.task.generation_id] = (given.task.id, given.attempt.attempt)
        return Moved(self.place(given.task.generation_id), [self._moved(given.outputs[index], moved) for index, moved in since.items()])

    def _moved(self, output: Output, since: Since) -> MovedOutput:
        state = self.tables.states.get(output.dataset_version_id)
        known = self.table_rules.known(output.dataset_version_id, place=state.place) if state else []
        return MovedOutput(index=output.output_index, added=list(since.added), removed=list(since.removed), known=known)

    def _gate(self, given: Reported, measured: dict[int, OutputMeasured], plans: dict[int, Plan]) -> Answer:
        decisions = judge_all(self.gathered.candidates(given, measured, plans))
        allowed = all(decision.allowed for decision in decisions)
        if allowed and not given.swap_state():
            return Superseded()
        if allowed and _adds_nothing(given, measured):
            self._end_turn(given)
            return Unchanged()
        place = self.place(given.task.generation_id) + 1
        ids = self._remember(given, decisions, place)
        if not allowed:
            self._end_turn(given)
            return Blocked(next(decision.reason for decision in decisions if not decision.allowed))
        self._take_place(given, measured, ids)
        return Committed(place, decisions[0].reason)

    def _remember(self, given: Reported, decisions: list[Decision], place: int, **more: Any) -> list[UUID]:
        facts = {"place": place, "base": given.base, "pins": self.gathered.told_pins(given)} | more
        new = [
            Decided(
                org_id=given.task.org_id,
                dataset_id=output.dataset_id,
                dataset_version_id=output.dataset_version_id,
                run_id=store.run_id(given.task.id, given.attempt.attempt, output.output_index, len(given.outputs)),
                task_id=given.task.id,
                attempt=given.attempt.attempt,
                decision=decision,
                evidence=facts | {"table": self.tables.state_of(output.dataset_version_id)},
            )
            for output, decision in zip(given.outputs, decisions, strict=True)
        ]
        self._decided += new
        return [decision.id for decision in new]

    def _take_place(self, given: Reported, measured: dict[int, OutputMeasured], promotions: list[UUID]) -> None:
        generation = given.task.generation_id
        place = self._places[generation] = self.place(generation) + 1
        self._changes.append(NewChange(generation, place, given.task.id, given.attempt.attempt, given.base, given.report.custom))
        for output, promoted in zip(given.outputs, promotions, strict=True):
            written = measured[output.output_index]
            if given.strategy is UpdateStrategy.APPEND and not written.files:
                continue  # it has its decision, and nothing of it changes
            after = self.tables.apply(given, output, written, place)
            for row in self.gathered.counted_on_table(output, written, place):
                self.table_rules.note(row)
            announced = given.attempt.announced(output.output_index)
            same = fingerprint(given.job.config_hash, everything=announced.everything, scopes=announced.scopes, pins=self.gathered.pins_of(given))
            self._outputs.append(
                NewChangeOutput(generation, place, output.dataset_version_id, promoted, after.table_schema, after.schema_hash, after.row_count, same, after.written)
            )
        self._end_turn(given)

    def _end_turn(self, given: Reported) -> None:
        line = self.lines[given.task.generation_id]
        if line.turn_task_id is not None:
            self._turns[line.generation_id] = None

    @staticmethod
    def scopes_of(given: Reported, measured: OutputMeasured) -> Sequence[Scope]:
        """What the report writes anew; everything where everything was announced."""
        return [FullScope()] if given.attempt.announced(measured.index).everything else measured.scopes


def _scopes_by_table(reports: Sequence[tuple[Completion, list[Output]]]) -> dict[UUID, set[Scope]]:
    """What the reports say that they write, by dataset version; none where they name no such output."""
    tables: dict[UUID, set[Scope]] = {output.dataset_version_id: set() for _, outputs in reports for output in outputs}
    for report, outputs in reports:
        by_index = {output.output_index: output.dataset_version_id for output in outputs}
        for measured in report.outputs:
            if measured.index in by_index:
                tables[by_index[measured.index]].update([*measured.scopes, *(file.scope for file in measured.files)])
    return tables


def _checked(given: Reported) -> dict[int, OutputMeasured]:
    """By output index: exactly the outputs of the job, with files of this attempt's own folder alone."""
    measured = {output.index: output for output in given.report.outputs}
    if sorted(measured) != [output.output_index for output in given.outputs] or len(measured) != len(given.report.outputs):
        raise Invalid(f"The report must measure each of the job's {len(given.outputs)} outputs once.")
    _check_base(given.report.base, given.attempt)
    if given.report.events:
        raise Invalid("Events of a dataset with files are emitted when its version is recorded; report none.")
    folder = f"{staging_folder(given.task.id, given.attempt.attempt)}/"
    for output in measured.values():
        if len({file.path for file in output.files}) < len(output.files):
            raise Invalid("The report names a file twice.")
        for path in [path for file in output.files for path in (file.path, file.hashes) if path is not None]:
            _check_path(path, folder, given.adopted)
    return {index: _as_announced(given, output) for index, output in measured.items()}


def _check_base(told: int | None, attempt: AttemptRow) -> None:
    """An earlier base is welcome once the attempt was given a later one: that answer may have been lost, and judged by it more has moved, never less."""
    if told is None or attempt.base is None or told > attempt.base or told < 0 or (told < attempt.base and not attempt.rebases):
        raise Invalid("The outputs were measured against another base than this attempt was given; measure again.")


def _as_announced(given: Reported, output: OutputMeasured) -> OutputMeasured:
    """A replace writes anew what was announced, all of it and nothing else: a scope that the report does not speak of is empty now."""
    announced = given.attempt.announced(output.index)
    if given.strategy is not UpdateStrategy.REPLACE or announced.everything:
        return output
    if not output.outside_scope and not all(any(covers(mine, scope) for mine in announced.scopes) for scope in output.scopes):
        raise Invalid("The report writes a scope that is not one of its attempt.")
    return output.model_copy(update={"scopes": list(announced.scopes)})


def _check_path(path: str, folder: str, adopted: Sequence[str]) -> None:
    try:
        plain(path)
    except UnsafePath as unsafe:
        raise Invalid(f"A file of the report has a name that is not plain: {unsafe}.") from None
    if not path.startswith(folder) and _first_name(path) not in {_first_name(file) for file in adopted}:
        raise Invalid("The report names a file outside its attempt's own staging folder.")


def _first_name(path: str) -> str:
    """Of a file before measuring wrote it again without some rows, and of the file whose keys lie beside it."""
    return _WRITTEN_AGAIN.sub("", path.removesuffix(".keys"))


def _adds_nothing(given: Reported, measured: dict[int, OutputMeasured]) -> bool:
    """An append without a row, or a replace that wrote so little that not even its columns are known: no table can be made of that."""
    if any(output.files for output in measured.values()):
        return False
    return given.strategy is UpdateStrategy.APPEND or not any(output.table_schema["fields"] for output in measured.values())
