"""Payloads: everything an operator may know of its task; the same object for fetch and claim."""

from collections.abc import Sequence
from uuid import UUID

from tracelake.control.dags import store as dags
from tracelake.control.dags.store import Input, Job, Output
from tracelake.control.database.transactions import Transaction
from tracelake.control.operator_state import store as operator_state
from tracelake.control.operator_state.store import StateRow
from tracelake.control.tasks import store
from tracelake.control.tasks.store import TaskFacts, TriggerEvent
from tracelake_sdk.dags import JobSpec
from tracelake_sdk.operators import OPERATORS
from tracelake_sdk.tasks import (
    MAX_EVENTS,
    DagOfTask,
    IdempotencyOfTask,
    InputOfTask,
    JobOfTask,
    LimitsOfTask,
    OperatorState,
    OutputOfTask,
    SlotOfTask,
    TaskPayload,
    TaskState,
    TriggerKind,
    TriggerOfTask,
)


class PayloadMaker:
    """Reads in one go what the payloads of some tasks need."""

    def __init__(self, tx: Transaction, facts: Sequence[TaskFacts], *, lease_seconds: float) -> None:
        self._lease_seconds: float = lease_seconds
        generations = sorted({fact.generation_id for fact in facts})
        self.jobs: dict[UUID, Job] = dags.jobs_of_generations(tx, generations)
        self.outputs: dict[UUID, list[Output]] = dags.outputs_of_generations(tx, generations)
        self._inputs: dict[UUID, list[Input]] = dags.inputs_of_jobs(tx, [job.id for job in self.jobs.values()])
        self.specs: dict[UUID, JobSpec] = {generation: JobSpec.model_validate(job.spec) for generation, job in self.jobs.items()}
        stateful = [generation for generation, spec in self.specs.items() if _keeps_state(spec)]
        self.states: dict[UUID, StateRow] = operator_state.get(tx, stateful) if stateful else {}
        self._stateful: frozenset[UUID] = frozenset(stateful)
        told = [fact.trigger_id for fact in facts if fact.trigger_kind == TriggerKind.EVENT.value]
        self._events: dict[UUID, TriggerEvent] = store.events_of_triggers(tx, told) if told else {}
        in_order = [fact.id for fact in facts if self.jobs[fact.generation_id].ordered]
        self._seen: set[UUID] = store.seen_scopes(tx, in_order) if in_order else set()

    def state_revision(self, generation: UUID) -> int | None:
        """The base of an attempt that starts now; None for a job without state."""
        if generation not in self._stateful:
            return None
        return self.states[generation].revision if generation in self.states else 0

    def payload(self, fact: TaskFacts, *, claimed: bool) -> TaskPayload:
        job, spec = self.jobs[fact.generation_id], self.specs[fact.generation_id]
        return TaskPayload.model_construct(
            schema_version=1,
            task_id=fact.id,
            attempt=fact.attempt if claimed else None,
            status=TaskState.RUNNING if claimed else TaskState(fact.state),
            org_id=fact.org_id,
            dag=DagOfTask.model_construct(name=job.dag, version=job.dag_version),
            job=_job(job, spec),
            trigger=self._trigger(fact),
            inputs=[
                InputOfTask.model_construct(
                    index=i.index, dataset_uuid=i.dataset_id, dataset_version=i.dataset_version_id, trigger=i.trigger, where=i.filter
                )
                for i in self._inputs[job.id]
            ],
            outputs=[
                OutputOfTask.model_construct(index=o.output_index, dataset_uuid=o.dataset_id, dataset_version=o.dataset_version_id, layer=o.layer)
                for o in self.outputs[fact.generation_id]
            ],
            state=self._state(fact.generation_id) if claimed else None,
            idempotency=IdempotencyOfTask.model_construct(producer_task_id=fact.id, key_prefix=str(fact.id)),
            slot=SlotOfTask.model_construct(pool=job.pool) if claimed else None,
            limits=LimitsOfTask.model_construct(lease_seconds=self._lease_seconds, max_events=MAX_EVENTS),
        )

    def _state(self, generation: UUID) -> OperatorState | None:
        revision = self.state_revision(generation)
        if revision is None:
            return None
        return OperatorState.model_construct(revision=revision, value=self.states[generation].value if revision else None)

    def _trigger(self, fact: TaskFacts) -> TriggerOfTask:
        event = self._events.get(fact.trigger_id)
        return TriggerOfTask.model_validate(
            {
                "kind": fact.trigger_kind,
                "id": fact.trigger_id,
                "event_kind": event.kind if event else None,
                "scope": fact.scope,
                "event_time": event.event_time if event else None,
                "payload": event.payload if event else fact.request or {},
                "seen_before": fact.id in self._seen,
            }
        )


def _job(job: Job, spec: JobSpec) -> JobOfTask:
    return JobOfTask.model_construct(
        key=job.key,
        name=job.name,
        operator=spec.operator,
        runtime=spec.runtime.value,
        config=spec.config,
        config_hash=job.config_hash,
        update_strategy=spec.update_strategy.value if spec.update_strategy else None,
        unique_key=list(spec.unique_key),
        execution_strategy=spec.execution_strategy.value if spec.execution_strategy else None,
        timeout_seconds=spec.timeout_seconds,
    )


def _keeps_state(spec: JobSpec) -> bool:
    return OPERATORS[spec.runtime.value, spec.operator].keeps_state
