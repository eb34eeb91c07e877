"""Foreign inputs: what jobs read of other DAGs, with the rights that whoever activated their DAG has now."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.dags import store
from tracelake.control.dags.store import Input, Job
from tracelake.control.database.transactions import Transaction
from tracelake.control.registry.reading import readable


def unreadable_inputs(tx: Transaction, jobs: Iterable[Job], inputs: Mapping[UUID, Sequence[Input]]) -> dict[UUID, Input]:
    """By job: its first input that may not be read any more; `inputs` are those of each job."""
    foreign = {job.id: reads for job in jobs if (reads := [input for input in inputs[job.id] if input.dag_id != job.dag_id])}
    if not foreign:
        return {}
    by_activator: dict[tuple[UUID | None, UUID | None], list[UUID]] = defaultdict(list)
    for activator in store.activators_of_jobs(tx, list(foreign)):
        by_activator[activator.user_id, activator.token_id].append(activator.job_id)
    found: dict[UUID, Input] = {}
    for (user, token), reading in by_activator.items():
        allowed = _readable(tx, user, token, {input.dataset_id for job in reading for input in foreign[job]})
        for job in reading:
            barred = next((input for input in foreign[job] if input.dataset_id not in allowed), None)
            if barred is not None:
                found[job] = barred
    return found


def _readable(tx: Transaction, user: UUID | None, token: UUID | None, datasets: set[UUID]) -> set[UUID]:
    """Somebody who is disabled, or whose token was revoked, reads nothing."""
    row = access.caller_of_user(tx, user) if user else access.caller_of_service(tx, token) if token else None
    return readable(tx, row.caller(), datasets) if row else set()
