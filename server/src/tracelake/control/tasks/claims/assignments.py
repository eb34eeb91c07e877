"""Assignments: base, pins and scopes of an attempt that writes files.

The base is read before the pins: the other way round, an attempt could hold an older input than the base it is checked
against, and its result would overwrite a newer one's. Everything is stored with the attempt, and a repeated claim
gets the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from tracelake.control.dags.store import Input, Job, Output
from tracelake.control.database.transactions import Transaction
from tracelake.control.promotion import store as promotion
from tracelake.control.promotion.store import RuleRow
from tracelake.control.promotion.table_rules import TableRules
from tracelake.control.tasks import store as task_store
from tracelake.control.tasks.claims import store
from tracelake.control.tasks.claims.rows import NewAssignment, TaskFacts
from tracelake.control.tasks.fingerprints import Pin, fingerprint
from tracelake.control.tasks.judgement import Announced, AttemptRow
from tracelake.control.tasks.rows import PostedBatch
from tracelake.control.versions import store as versions
from tracelake.control.versions.scope_mapping import cut_alike, wanted, widened
from tracelake.control.versions.spans import scope_of, stored
from tracelake.control.versions.store import CurrentVersion, TableState
from tracelake.storage.paths import staging_folder, table_location
from tracelake_sdk.dags import PartitionSpec, UpdateStrategy
from tracelake_sdk.datasets.measurements import TableFile
from tracelake_sdk.datasets.scopes import FullScope, Scope, overlap
from tracelake_sdk.rules import TableRuleState
from tracelake_sdk.tasks import TriggerKind

Wire = dict[str, Any]


@dataclass(frozen=True)
class Assignment:
    """Base, scopes, pins and batches of one attempt."""

    base: int
    announced: dict[int, Announced]  # by output index
    pins: dict[int, Pin]             # by input index; only inputs that are tables
    batches: list[PostedBatch]       # that earlier attempts posted

    @property
    def scopes(self) -> Wire:
        return {str(index): {"everything": announced.everything, "scopes": [stored(scope) for scope in announced.scopes]} for index, announced in self.announced.items()}


class Assignments:
    """For the claimed tasks of jobs that write files: `plan` and `store` for attempts that start, `stored` for those that did."""

    def __init__(self, tx: Transaction, jobs: dict[UUID, Job], inputs: dict[UUID, list[Input]], outputs: dict[UUID, list[Output]]) -> None:
        self._tx: Transaction = tx
        self._jobs: dict[UUID, Job] = {generation: job for generation, job in jobs.items() if any(output.has_files for output in outputs[generation])}
        self._inputs: dict[UUID, list[Input]] = {generation: inputs[job.id] for generation, job in self._jobs.items()}
        self._outputs: dict[UUID, list[Output]] = outputs
        tables = [output.dataset_version_id for generation in self._jobs for output in outputs[generation]]
        self._bases: dict[UUID, int] = {id: line.decided for id, line in versions.lines(tx, sorted(self._jobs)).items()} if self._jobs else {}
        read = {input.dataset_version_id for given in self._inputs.values() for input in given if input.has_files}
        self._current: dict[UUID, CurrentVersion] = versions.current_versions(tx, sorted(id for id in read if id)) if read else {}
        self._states: dict[UUID, TableState] = versions.table_states(tx, tables) if tables else {}
        datasets = {output.dataset_id for generation in self._jobs for output in outputs[generation]}
        self._rules: dict[UUID, list[RuleRow]] = promotion.rules_of(tx, sorted(datasets)) if datasets else {}
        self._known: TableRules = TableRules.load(tx, tables).result() if tables else TableRules({})
        self._files: dict[tuple[UUID, int, tuple[Scope, ...] | None], list[TableFile]] = {}  # tasks of one job mostly read and append to the same tables

    def writes_files(self, generation: UUID) -> bool:
        return generation in self._jobs

    def plan(self, facts: Sequence[TaskFacts]) -> dict[UUID, Assignment]:
        """By task, for attempts that start now."""
        return {fact.id: self._hand(fact) for fact in facts if self.writes_files(fact.generation_id)}

    def store(self, facts: Sequence[TaskFacts], planned: dict[UUID, Assignment]) -> None:
        """Stores it with the attempts, which are checked against it when they report."""
        if planned:
            attempts = {fact.id: fact.attempt for fact in facts}
            store.store_assignments(
                self._tx, [NewAssignment(id, attempts[id], assignment.base, assignment.scopes, list(assignment.pins.values())) for id, assignment in planned.items()]
            )

    def stored(self, facts: Sequence[TaskFacts]) -> dict[UUID, Assignment]:
        """The stored assignments, for a repeated claim."""
        fences = [(fact.id, fact.attempt) for fact in facts if self.writes_files(fact.generation_id)]
        if not fences:
            return {}
        pins, attempts = store.pins_of_attempts(self._tx, fences), task_store.attempts(self._tx, fences)
        by_id = {fact.id: fact for fact in facts}
        return {task: self._from_attempt(by_id[task], attempts[task, attempt], pins.get((task, attempt), [])) for task, attempt in fences}

    def is_unchanged(self, fact: TaskFacts, assignment: Assignment) -> bool:
        """Whether the task's result already exists: same config, same inputs, same scope."""
        job = self._jobs[fact.generation_id]
        if fact.trigger_kind != TriggerKind.EVENT.value or job.stored.operator_spec.keeps_state or not assignment.pins:
            return False
        return all(self._already_exists(job, output, assignment) for output in self._outputs[fact.generation_id])

    def wire(self, fact: TaskFacts, assignment: Assignment) -> Wire:
        """The parts of the payload that only such tasks have."""
        job = self._jobs[fact.generation_id]
        batch = task_store.batch_to_adopt(self._tx, fact.trigger_id) if fact.trigger_kind == TriggerKind.BATCH.value else None
        return {
            "base": assignment.base,
            "inputs": [self._input(fact, input, assignment) for input in self._inputs[fact.generation_id]],
            "outputs": [self._output(fact, job, output, assignment) for output in self._outputs[fact.generation_id]],
            "batch": batch.wire() if batch else None,
            "posted": [posted.name for posted in assignment.batches],
        }

    def _hand(self, fact: TaskFacts) -> Assignment:
        announced = {output.output_index: self._announce(fact, output) for output in self._outputs[fact.generation_id]}
        pins = {
            input.index: Pin(input.index, input.dataset_id, current.dataset_version_id, current.version)
            for input in self._inputs[fact.generation_id]
            if input.dataset_version_id is not None and (current := self._current.get(input.dataset_version_id)) is not None
        }
        return Assignment(self._bases[fact.generation_id], announced, pins, task_store.batches_of_task(self._tx, fact.id))

    def _from_attempt(self, fact: TaskFacts, attempt: AttemptRow, pins: list[Pin]) -> Assignment:
        announced = {output.output_index: attempt.announced(output.output_index) for output in self._outputs[fact.generation_id]}
        return Assignment(attempt.base or 0, announced, {pin.index: pin for pin in pins}, task_store.batches_of_task(self._tx, fact.id))

    def _announce(self, fact: TaskFacts, output: Output) -> Announced:
        job = self._jobs[fact.generation_id]
        required = wanted(
            job.stored.execution_strategy,
            job.stored.outputs[output.output_index].partition,
            scope_of(fact.scope) if fact.scope else None,
        )
        replaces = job.stored.update_strategy is UpdateStrategy.REPLACE
        touching: Sequence[Scope] = (FullScope(),) if required.everything else required.scopes
        known = output.dataset_version_id in self._states and replaces
        current = [now.scope for now in versions.scopes_now(self._tx, dataset_version=output.dataset_version_id, touching=touching)] if known else []
        if required.everything:
            return Announced(everything=True, scopes=tuple(current))
        # A replace announces whole scopes; an append keeps its own.
        return Announced(everything=False, scopes=widened(required.scopes, current) if replaces else required.scopes)

    def _already_exists(self, job: Job, output: Output, assignment: Assignment) -> bool:
        announced = assignment.announced[output.output_index]
        same = fingerprint(job.config_hash, everything=announced.everything, scopes=announced.scopes, pins=assignment.pins.values())
        touching: Sequence[Scope] = (FullScope(),) if announced.everything else announced.scopes
        if output.dataset_version_id not in self._states:
            return False
        there = versions.fingerprints_now(self._tx, dataset_version=output.dataset_version_id, touching=touching)
        whole = announced.everything or sorted(str(scope) for scope, _ in there) == sorted(str(scope) for scope in announced.scopes)
        return bool(there) and whole and all(found == same for _, found in there)

    def _input(self, fact: TaskFacts, input: Input, assignment: Assignment) -> Wire:
        pin = assignment.pins.get(input.index)
        return unpinned(input) | {"pinned": self._pinned(fact, input, pin, assignment) if pin else None}

    def _pinned(self, fact: TaskFacts, input: Input, pin: Pin, assignment: Assignment) -> Wire:
        scopes = self._restriction(fact, input, assignment)
        files = self._files_of_version(pin)
        kept = [file for file in files if scopes is None or any(overlap(file.scope, scope) for scope in scopes)]
        current = self._current.get(pin.dataset_version_id)
        schema = current.table_schema if current and current.version == pin.version else versions.schema_of_version(self._tx, pin.dataset_id, pin.version)
        return {
            "version": pin.version,
            "table_schema": schema,
            "location": table_location(fact.org_id, pin.dataset_id, pin.dataset_version_id),
            "files": [file.model_dump(mode="json") for file in kept],
            "scopes": None if scopes is None else [stored(scope) for scope in scopes],
            "partition_by": input.partition_by,
        }

    def _files_of_version(self, pin: Pin) -> list[TableFile]:
        key = (pin.dataset_version_id, pin.version, None)
        if key not in self._files:
            self._files[key] = versions.files_of_version(self._tx, dataset_version=pin.dataset_version_id, version=pin.version)
        return self._files[key]

    def _files_at_place(self, dataset_version: UUID, place: int, without: tuple[Scope, ...]) -> list[TableFile]:
        key = (dataset_version, place, without)
        if key not in self._files:
            self._files[key] = versions.files_at_place(self._tx, dataset_version=dataset_version, place=place, without=without)
        return self._files[key]

    def _restriction(self, fact: TaskFacts, input: Input, assignment: Assignment) -> tuple[Scope, ...] | None:
        """Restricts the input to the output's scopes, if both are partitioned the same way."""
        reads = PartitionSpec.model_validate(input.partition_by) if input.partition_by else None
        writes, announced = self._jobs[fact.generation_id].stored.outputs[0].partition, assignment.announced.get(0)
        if announced is None or announced.everything or not cut_alike(reads, writes, trigger=input.trigger):
            return None
        return announced.scopes

    def _output(self, fact: TaskFacts, job: Job, output: Output, assignment: Assignment) -> Wire:
        announced, state = assignment.announced[output.output_index], self._states.get(output.dataset_version_id)
        rules = self._rules[output.dataset_id]
        appends = job.stored.update_strategy is UpdateStrategy.APPEND
        replaced: Sequence[Scope] = () if appends else (FullScope(),) if announced.everything else announced.scopes
        # Independent of the current rules: a table rule may be added while the attempt runs.
        stays = state is not None and (appends or not announced.everything)
        current = self._files_at_place(output.dataset_version_id, assignment.base, tuple(replaced)) if stays else []
        location = table_location(fact.org_id, output.dataset_id, output.dataset_version_id)
        return unstaged(output) | {
            "staged": {
                "location": location,
                "staging": f"{location}/{staging_folder(fact.id, fact.attempt)}",
                "everything": announced.everything,
                "scopes": [stored(scope) for scope in announced.scopes],
                "partition_by": job.stored.outputs[output.output_index].partition_by,
                "table_schema": state.table_schema if state else None,
                "rules": [rule.to_measure().model_dump(mode="json") for rule in rules],
                "current": [file.model_dump(mode="json") for file in current],
                "known": [one.model_dump(mode="json") for one in self._known_at(output, state, assignment.base)],
            }
        }

    def _known_at(self, output: Output, state: TableState | None, base: int) -> list[TableRuleState]:
        """Only counts of the table at the base; a repeated claim may have an older base."""
        return self._known.known(output.dataset_version_id, place=state.place) if state is not None and state.place <= base else []


def unstaged(output: Output) -> Wire:
    """An output before the claim, or without files."""
    return {
        "index": output.output_index,
        "dataset_uuid": output.dataset_id,
        "dataset_version": output.dataset_version_id,
        "layer": output.layer,
        "staged": None,
    }


def unpinned(input: Input) -> Wire:
    """An input before the claim, or without files."""
    return {
        "index": input.index,
        "name": input.name,
        "dataset_uuid": input.dataset_id,
        "dataset_version": input.dataset_version_id,
        "trigger": input.trigger,
        "where": input.filter,
        "pinned": None,
    }
