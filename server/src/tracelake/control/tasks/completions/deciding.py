"""Decide: measured outputs pass the gate or are refused, and an allowed change takes its place in the line.

Everything happens in the transaction of the report, under the line's lock: removed files, overlaps and the rows of the
table are checked as of the decided place, so that nothing can fail once a place is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Output
from tracelake.control.database.transactions import Pending, Transaction
from tracelake.control.promotion import store as promotion
from tracelake.control.promotion.gate import Decision, judge_all
from tracelake.control.promotion.store import Decided
from tracelake.control.promotion.table_rules import TableRules
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.completions import store
from tracelake.control.tasks.completions.answers import Answer, Blocked, Committed, Moved, Superseded, Unchanged, Unmeasured, Wait
from tracelake.control.tasks.completions.candidates import Gathered, gather
from tracelake.control.tasks.completions.operator_states import OperatorStates
from tracelake.control.tasks.completions.reported import Reported, adds_nothing, checked_outputs
from tracelake.control.tasks.completions.rows import LostBatch
from tracelake.control.tasks.completions.tables import Plan, Tables
from tracelake.control.tasks.fingerprints import fingerprint
from tracelake.control.tasks.judgement import STATE_CHANGED
from tracelake.control.versions import store as versions
from tracelake.control.versions.bases import BaseVerdict, Since, judge_base
from tracelake.control.versions.store import Line, NewChange, NewChangeOutput
from tracelake_sdk.dags import UpdateStrategy
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.datasets.scopes import Scope
from tracelake_sdk.errors import BatchesDiffer, Invalid
from tracelake_sdk.tasks import Completion, MissingRules, MovedOutput, TaskState

REBASES_BEFORE_A_TURN = 2

BatchStates = dict[UUID, TaskState]  # by batch that a task posted: the state of the task that adopts it


@dataclass
class Deciding:
    """The lines of one transaction's reports: each is decided on the result of the ones before it, and only `write` stores the changes."""

    tx: Transaction
    decided_at: datetime
    lines: dict[UUID, Line]
    gathered: Gathered
    tables: Tables
    table_rules: TableRules
    states: OperatorStates
    batches: dict[UUID, BatchStates]  # by task
    _places: dict[UUID, int] = field(default_factory=dict)
    _changes: list[NewChange] = field(default_factory=list)
    _outputs: list[NewChangeOutput] = field(default_factory=list)
    _decided: list[Decided] = field(default_factory=list)
    _turns: dict[UUID, tuple[UUID, int] | None] = field(default_factory=dict)

    @staticmethod
    def load(
        tx: Transaction, org: UUID, reports: Sequence[tuple[Completion, list[Output]]], states: Pending[OperatorStates], *, now: datetime | None
    ) -> Pending["Deciding"]:
        """Sends the queries that deciding these reports usually needs; it may still be unknown whether they will be decided."""
        outputs = [output for _, written in reports for output in written]
        lines = versions.send_lines(tx, sorted({output.generation_id for output in outputs}))
        clock = store.send_clock(tx, now=now)
        gathered = gather(tx, org, outputs, [(report.fence.task_id, report.fence.attempt) for report, _ in reports])
        tables = Tables.load(tx, lines, _scopes_by_table(reports))
        known = TableRules.load(tx, sorted({output.dataset_version_id for output in outputs}))
        batches = store.send_states_of_batches(tx, [report.fence.task_id for report, _ in reports])
        return batches.then(
            lambda found: Deciding(tx, clock.result(), lines.result(), gathered.result(), tables.result(), known.result(), states.result(), found)
        )

    def answer(self, given: Reported) -> Answer:
        """Raises Invalid or BatchesDiffer if the report does not fit its attempt; writes nothing."""
        return self._after_batches(given) or self._decide(given)

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
        """The decided place, including decisions of this transaction."""
        return self._places.get(generation, self.lines[generation].decided)

    def _after_batches(self, given: Reported) -> Blocked | Wait | None:
        """A task is decided after its batches: each must be visible before its state moves past them."""
        states = self.batches[given.task.id]
        _check_batches(self.tx, given, states)
        if any(state in (TaskState.FAILED, TaskState.CANCELED) for state in states.values()):
            return self._refuse(given, store.lost_batches(self.tx, given.task.id))
        return None if all(state in (TaskState.COMMITTING, TaskState.COMPLETED) for state in states.values()) else Wait()

    def _decide(self, given: Reported) -> Answer:
        measured = checked_outputs(given)
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

    def _refuse(self, given: Reported, lost: Sequence[LostBatch]) -> Blocked:
        """A run builds on its batches: if one was refused or failed, the run is blocked by a decision that names it."""
        measured = checked_outputs(given)
        plans = {output.output_index: self.tables.plan(given, output, measured[output.output_index]) for output in given.outputs}
        facts = tuple(batch.fact for batch in lost)
        decisions = judge_all([replace(candidate, refused_batches=facts) for candidate in self.gathered.candidates(given, measured, plans)])
        self._remember(given, decisions, self.place(given.task.generation_id) + 1, batches=[batch.evidence for batch in lost])
        self._end_turn(given)
        return Blocked(decisions[0].reason)

    def _base(self, given: Reported, measured: dict[int, OutputMeasured]) -> Moved | Superseded | None:
        """None: the base is still valid."""
        since = {output.output_index: self.tables.since(output, given.base) for output in given.outputs}
        verdicts = {
            index: judge_base(
                given.strategy,
                given.rewritten(measured[index]),
                measured[index].files,
                moved,
                table_rules=self.gathered.has_table_rules(given.outputs[index]),
            )
            for index, moved in since.items()
        }
        if BaseVerdict.SUPERSEDED in verdicts.values() or not self.tables.covers_whole_scopes(given, measured):
            return Superseded("The result was out of date: another task had written to the same scope meanwhile.")
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
        if allowed and not self.states.swap(given.task.generation_id, given.attempt.state_revision, given.report.state):
            return Superseded(STATE_CHANGED)
        if allowed and adds_nothing(given, measured):
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
        facts = {"place": place, "base": given.base, "pins": self.gathered.noted_pins(given)} | more
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
                continue  # the decision is final, without changes
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


def _check_batches(tx: Transaction, given: Reported, states: BatchStates) -> None:
    """The report must list exactly the posted batches, and none of their files."""
    listed, posted = set(given.report.posted), set(states)
    if listed != posted:
        difference = f"Posted and not listed: {sorted(map(str, posted - listed))}; listed and not posted: {sorted(map(str, listed - posted))}."
        raise BatchesDiffer(difference, posted=list(states))
    if states:
        files = {path for batch in task_store.batches_of_task(tx, given.task.id) for path in batch.files}
        if any(file.path in files for output in given.report.outputs for file in output.files):
            raise Invalid("The report names a file that was posted in a batch; batches are decided separately.")


def _scopes_by_table(reports: Sequence[tuple[Completion, list[Output]]]) -> dict[UUID, set[Scope]]:
    """The scopes that the reports write, by dataset version; unknown outputs are ignored."""
    tables: dict[UUID, set[Scope]] = {output.dataset_version_id: set() for _, outputs in reports for output in outputs}
    for report, outputs in reports:
        by_index = {output.output_index: output.dataset_version_id for output in outputs}
        for measured in report.outputs:
            if measured.index in by_index:
                tables[by_index[measured.index]].update([*measured.scopes, *(file.scope for file in measured.files)])
    return tables
