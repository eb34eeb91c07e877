"""Location paths: which locations the jobs of a DAG name in their configs."""

from collections.abc import Iterable
from uuid import UUID

from tracelake.control.dags.store import Job
from tracelake.control.database.transactions import Transaction
from tracelake.control.locations import store as locations
from tracelake.control.locations.store import LocationRow
from tracelake_sdk.dags.locations import named_location


def location_names(job: Job) -> list[str]:
    """In the order of the operator's keys. A stored config is not validated again: a path without a location gives a name that no location has."""
    config = job.stored.config
    return [named_location(str(config[key])) for key in job.stored.operator_spec.location_keys if config.get(key) is not None]


def locations_of_jobs(tx: Transaction, jobs: Iterable[Job]) -> dict[UUID, dict[str, LocationRow]]:
    """By org, for orgs with a job that names a location."""
    return {org: locations.locations(tx, org) for org in {job.org_id for job in jobs if location_names(job)}}
