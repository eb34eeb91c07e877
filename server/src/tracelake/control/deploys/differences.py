"""Differences between a DAG version and another definition of the DAG: which jobs would produce different rows. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tracelake.control.deploys.dag_hashes import config_hash, lineage_hashes
from tracelake_sdk.dags import DagSpec


@dataclass(frozen=True)
class Built:
    """What a job of the active version was built from."""

    config_hash: str
    lineage_hash: str


@dataclass(frozen=True)
class Rebuild:
    """The jobs whose rows another definition would change, by reason."""

    new: Sequence[str] = ()
    removed: Sequence[str] = ()
    edited: Sequence[str] = ()      # operator, runtime, config, inputs, outputs, strategies, key
    moved: Sequence[str] = ()       # an input name now refers to another dataset
    downstream: Sequence[str] = ()  # downstream of another changed job

    def __bool__(self) -> bool:
        return any(self.named().values())

    def named(self) -> dict[str, list[str]]:
        return {
            "new": list(self.new), "removed": list(self.removed), "edited": list(self.edited), "moved": list(self.moved), "downstream": list(self.downstream),
        }  # fmt: skip

    def __str__(self) -> str:
        words = {"new": "new", "removed": "removed", "edited": "edited", "moved": "reading another dataset by the same name", "downstream": "downstream of these"}
        return "; ".join(f"{', '.join(jobs)} ({words[reason]})" for reason, jobs in self.named().items() if jobs)


def rebuild(built: Mapping[str, Built], wanted: DagSpec, moved: Collection[str]) -> Rebuild:
    """`moved`: the jobs with an input name that now refers to another dataset."""
    lineage = lineage_hashes(wanted)
    both = [job for job in wanted.jobs if job.name in built]
    edited = [job.name for job in both if config_hash(job) != built[job.name].config_hash]
    return Rebuild(
        new=[job.name for job in wanted.jobs if job.name not in built],
        removed=sorted(set(built) - {job.name for job in wanted.jobs}),
        edited=edited,
        moved=[job.name for job in both if job.name in moved and job.name not in edited],
        downstream=[
            job.name for job in both if job.name not in edited and job.name not in moved and lineage[job.name] != built[job.name].lineage_hash
        ],
    )
