"""Lapsed permissions: jobs that may not run because the activator of their DAG no longer has a permission they need.

A DAG reads other DAGs' datasets and uses locations with the current permissions of its activator. A disabled user
and a revoked token have none.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller
from tracelake.control.dags import store
from tracelake.control.dags.location_paths import location_names
from tracelake.control.dags.store import Input, Job
from tracelake.control.database.transactions import Transaction
from tracelake.control.locations.permissions import usable_locations
from tracelake.control.locations.store import LocationRow
from tracelake.control.registry.reading import readable
from tracelake_sdk.errors.dags import InputNotReadable, LocationNotAllowed, LocationUnknown


@dataclass(frozen=True)
class Lapse:
    """Why a job may not run; `code` is the error code that a deploy would get."""

    code: str
    why: str


def lapsed_permissions(
    tx: Transaction, jobs: Iterable[Job], inputs: Mapping[UUID, Sequence[Input]], locations: Mapping[UUID, Mapping[str, LocationRow]]
) -> dict[UUID, Lapse]:
    """By job: the first permission that lapsed; `inputs` are those of each job, `locations` those of each org."""
    needing = {job.id: job for job in jobs if location_names(job) or _foreign(job, inputs)}
    if not needing:
        return {}
    by_activator: dict[tuple[UUID | None, UUID | None], list[Job]] = defaultdict(list)
    for activator in store.activators_of_jobs(tx, list(needing)):
        by_activator[activator.user_id, activator.token_id].append(needing[activator.job_id])
    found: dict[UUID, Lapse] = {}
    for (user, token), activated in by_activator.items():
        row = access.caller_of_user(tx, user) if user else access.caller_of_service(tx, token) if token else None
        caller = row.caller() if row else None
        datasets = {input.dataset_id for job in activated for input in _foreign(job, inputs)}
        allowed = readable(tx, caller, datasets) if caller else set()
        for job in activated:
            lapse = _lapsed_input(job, inputs, allowed) or _lapsed_location(job, caller, locations.get(job.org_id, {}))
            if lapse is not None:
                found[job.id] = lapse
    return found


def _foreign(job: Job, inputs: Mapping[UUID, Sequence[Input]]) -> list[Input]:
    return [input for input in inputs[job.id] if input.dag_id != job.dag_id]


def _lapsed_input(job: Job, inputs: Mapping[UUID, Sequence[Input]], allowed: set[UUID]) -> Lapse | None:
    barred = next((input for input in _foreign(job, inputs) if input.dataset_id not in allowed), None)
    if barred is None:
        return None
    return Lapse(
        InputNotReadable.code,
        f"The user or service that activated the DAG can no longer read input {barred.name or barred.dataset_id}. Ask an admin to grant read access, or redeploy as a user who has it.",
    )


def _lapsed_location(job: Job, caller: Caller | None, locations: Mapping[str, LocationRow]) -> Lapse | None:
    allowed = usable_locations(caller, locations) if caller else set[str]()
    barred = next((name for name in location_names(job) if name not in allowed), None)
    if barred is None:
        return None
    if barred not in locations:
        return Lapse(LocationUnknown.code, f"Location `{barred}` was removed. Ask an admin to add it again with `tracelake admin location add {barred} URL`.")
    return Lapse(
        LocationNotAllowed.code,
        f"The user or service that activated the DAG can no longer use location `{barred}`. Ask an admin to grant it to one of their roles with"
        f" `tracelake admin location grant {barred} ROLE`, or redeploy as a user who may use it.",
    )
