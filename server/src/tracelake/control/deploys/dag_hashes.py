"""Hashes of a DAG and its jobs: whether two definitions are the same, and which jobs must be rebuilt.

Values that equal their default are omitted, so that a field of a later release does not change a hash.
"""

import graphlib
import hashlib
import json
from typing import Any

from tracelake_sdk.dags import DagSpec, JobOutput, JobSpec, NamedDataset
from tracelake_sdk.dags.operators import OPERATORS

# The fields that affect a job's rows. Attempts, timeouts, scaling and publishing do not.
_MATERIALIZATION = {"runtime", "operator", "config", "inputs", "execution_strategy", "update_strategy", "unique_key", "null_keys"}


def spec_hash(spec: DagSpec) -> str:
    """Equal for two files exactly when they define the same; the order of jobs, keys and key columns does not count."""
    jobs = sorted((_plain(job) for job in spec.jobs), key=lambda job: job["name"])
    return _hash(spec.model_dump(mode="json", exclude_defaults=True) | {"jobs": jobs})


def config_hash(job: JobSpec) -> str:
    """Equal as long as the job makes the same rows; of its outputs, number, layers and partitions count; descriptions do not."""
    affecting = {key: value for key, value in _plain(job).items() if key in _MATERIALIZATION}
    partitions = [output.partition_by and output.partition_by.model_dump(mode="json", exclude_defaults=True) for output in job.outputs]
    return _hash(affecting | {"layers": [output.layer for output in job.outputs]} | ({"partition_by": partitions} if any(partitions) else {}))


def lineage_hashes(spec: DagSpec) -> dict[str, str]:
    """By job: its config hash, with the lineage hashes of the jobs it reads and the names of the datasets of other DAGs."""
    jobs = {job.name: job for job in spec.jobs}
    parents = {job.name: [given.reads.job for given in job.inputs if isinstance(given.reads, JobOutput)] for job in spec.jobs}
    hashes: dict[str, str] = {}
    for name in graphlib.TopologicalSorter(parents).static_order():
        reads = [_lineage_read(given.reads, hashes) for given in jobs[name].inputs]
        hashes[name] = _hash({"config": config_hash(jobs[name]), "reads": reads})
    return hashes


def _lineage_read(reads: JobOutput | NamedDataset, hashes: dict[str, str]) -> list[str | int]:
    return ["dataset", reads.dataset] if isinstance(reads, NamedDataset) else ["job", hashes[reads.job], reads.output]


def _plain(job: JobSpec) -> dict[str, Any]:
    return job.model_dump(mode="json", exclude_defaults=True) | {"unique_key": sorted(job.unique_key)} | ({"config": _config(job)} if job.config else {})


def _config(job: JobSpec) -> dict[str, Any]:
    operator = OPERATORS.get((job.runtime, job.operator))
    if operator is None or not operator.writes_files:
        return job.config  # the configs of dispatcher operators have always been hashed in full
    defaults = {field.alias or name: field.get_default() for name, field in operator.config.model_fields.items() if not field.is_required()}
    return {key: value for key, value in job.config.items() if key not in defaults or value != defaults[key]}


def _hash(value: Any) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
