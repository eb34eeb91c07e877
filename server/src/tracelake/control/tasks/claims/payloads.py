"""Payloads: everything that an operator needs for its task; the same object for fetch and claim.

They are built in wire format, as in `tracelake_sdk.tasks.TaskPayload`: parts that the tasks of one job
share are encoded once.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from tracelake import wire_json
from tracelake.control.dags import store as dags
from tracelake.control.dags.location_paths import location_names, locations_of_jobs
from tracelake.control.dags.store import Input, Job, Output
from tracelake.control.database.transactions import Transaction
from tracelake.control.locations.store import LocationRow
from tracelake.control.operator_state import store as operator_state
from tracelake.control.operator_state.store import StateRow
from tracelake.control.tasks.claims import store
from tracelake.control.tasks.claims.assignments import Assignment, Assignments, unpinned, unstaged
from tracelake.control.tasks.claims.rows import TaskFacts, TriggerEvent
from tracelake_sdk.tasks import MAX_EVENTS, PAYLOAD_VERSION, TaskState, TriggerKind
from tracelake_sdk.tasks.events import EventKind

Wire = dict[str, Any]

_JOB_FIELDS = {"operator", "runtime", "config", "update_strategy", "unique_key", "execution_strategy", "timeout_seconds"}  # that an operator may know


class PayloadMaker:
    """Reads at once what the payloads of some tasks need."""

    def __init__(self, tx: Transaction, facts: Sequence[TaskFacts], *, lease_seconds: float) -> None:
        generations = sorted({fact.generation_id for fact in facts})
        self.jobs: dict[UUID, Job] = dags.jobs_of_generations(tx, generations)
        self.outputs: dict[UUID, list[Output]] = dags.outputs_of_generations(tx, generations)
        self.inputs: dict[UUID, list[Input]] = dags.inputs_of_jobs(tx, [job.id for job in self.jobs.values()])
        self.locations: dict[UUID, dict[str, LocationRow]] = locations_of_jobs(tx, self.jobs.values())  # by org
        stateful = [generation for generation, job in self.jobs.items() if job.stored.operator_spec.keeps_state]
        self._stateful: frozenset[UUID] = frozenset(stateful)
        # Before the pins, as the base is: an attempt must not hold an older input than the state that it builds on.
        self._states: dict[UUID, StateRow] = operator_state.get(tx, stateful) if stateful else {}
        self.assignments: Assignments = Assignments(tx, self.jobs, self.inputs, self.outputs)
        triggers = [fact.trigger_id for fact in facts if fact.trigger_kind == TriggerKind.EVENT.value]
        self._events: dict[UUID, TriggerEvent] = store.events_of_triggers(tx, triggers) if triggers else {}
        in_order = [fact.id for fact in facts if self.jobs[fact.generation_id].ordered]
        self._seen: set[UUID] = store.seen_scopes(tx, in_order) if in_order else set()
        limits = {"lease_seconds": lease_seconds, "max_events": MAX_EVENTS}
        self._shared: dict[UUID, Wire] = {
            generation: _shared(job, self.inputs[job.id], self.outputs[generation], limits) for generation, job in self.jobs.items()
        }

    def state_revision(self, generation: UUID) -> int | None:
        """The base of an attempt that starts now; None for a job without state."""
        if generation not in self._stateful:
            return None
        return self._states[generation].revision if generation in self._states else 0

    def is_unchanged(self, fact: TaskFacts, assignment: Assignment) -> bool:
        """Whether what the task would write already exists.

        Never after a rewrite of a dataset without rows: it has no versions that could show a change, and the rewrite says there is one.
        """
        event = self._events.get(fact.trigger_id)
        rewritten = event is not None and event.kind == EventKind.REWRITTEN.value and not event.of_a_table
        return not rewritten and self.assignments.is_unchanged(fact, assignment)

    def payload(self, fact: TaskFacts, *, claimed: bool, assignment: Assignment | None = None) -> Wire:
        given = self.assignments.wire(fact, assignment) if assignment else {}
        return self._shared[fact.generation_id] | given | {
            "task_id": fact.id,
            "attempt": fact.attempt if claimed else None,
            "status": TaskState.RUNNING.value if claimed else fact.state,
            "org_id": fact.org_id,
            "locations": self._locations(fact.generation_id) if claimed else {},
            "trigger": self._trigger(fact),
            "state": self._state(fact.generation_id, assignment) if claimed else None,
            "idempotency": {"producer_task_id": fact.id, "key_prefix": str(fact.id)},
            "slot": {"pool": self.jobs[fact.generation_id].pool} if claimed else None,
        }

    def _locations(self, generation: UUID) -> dict[str, str]:
        job = self.jobs[generation]
        known = self.locations.get(job.org_id, {})
        return {name: known[name].url for name in location_names(job) if name in known}

    def _state(self, generation: UUID, assignment: Assignment | None) -> Wire | None:
        revision = self.state_revision(generation)
        if revision is None:
            return None
        # Batches of an earlier attempt are done: the next attempt continues after them.
        posted = [batch.state for batch in assignment.batches if batch.state is not None] if assignment else []
        value = posted[-1] if posted else self._states[generation].value if revision else None
        return {"revision": revision, "value": value}

    def _trigger(self, fact: TaskFacts) -> Wire:
        event = self._events.get(fact.trigger_id)
        return {
            "kind": fact.trigger_kind,
            "id": fact.trigger_id,
            "event_kind": event.kind if event else None,
            "scope": fact.scope,
            "event_time": event.event_time if event else None,
            "payload": event.payload if event else fact.request or {},
            "seen_before": fact.id in self._seen,
        }


def _shared(job: Job, inputs: list[Input], outputs: list[Output], limits: Wire) -> Wire:
    parts = {
        "dag": {"name": job.dag, "version": job.dag_version},
        "job": {
            "key": job.key,
            "name": job.name,
            "config_hash": job.config_hash,
            **job.stored.model_dump(mode="json", include=_JOB_FIELDS),
        },
        "inputs": [unpinned(input) for input in inputs],
        "outputs": [unstaged(output) for output in outputs],
        "base": None,
        "batch": None,
        "posted": [],
        "limits": limits,
    }
    return {"schema_version": PAYLOAD_VERSION} | {name: orjson.Fragment(wire_json.encode(part)) for name, part in parts.items()}
