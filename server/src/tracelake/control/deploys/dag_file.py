"""The DAG file: text in, the canonical DAG out, or the first error by line.

A file is checked in three steps, each only if the previous one found nothing: YAML and shape, the
rules between its parts, and whether this release can run its jobs. A step checks everything.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tracelake.control.deploys.dag_findings import DagFindings
from tracelake.control.deploys.dag_operators import check_operators
from tracelake.control.deploys.dag_rules import DagCheck, ReadableDataset, check_rules, positions_of
from tracelake.control.deploys.dag_shape import check_shape
from tracelake.control.deploys.dag_yaml import plain, read_yaml
from tracelake_sdk.dags import DEFAULT_POOL, DagSpec


def parse_dag(
    text: str,
    *,
    datasets: Mapping[str, ReadableDataset] | None = None,
    unreadable: Collection[str] = (),
    locations: Collection[str] = (),
    barred_locations: Collection[str] = (),
    pools: Collection[str] = (DEFAULT_POOL,),
    authorize: Callable[[str], None] = lambda name: None,
) -> DagSpec:
    """The DAG that the file defines; raises the first `DagInvalid` by line.

    `datasets` are those, by name, that other DAGs publish and this one may read; `unreadable` names those that it may
    not. `locations` names those that the caller may use, `barred_locations` the org's other ones. `authorize` is called
    with the DAG's name before an error can reveal what the org has.
    """
    findings = DagFindings()
    root = read_yaml(text, findings)
    check_shape(root, findings)
    findings.raise_first()
    spec = DagSpec.model_validate(_filled(plain(root)))
    authorize(spec.name)
    dag = DagCheck(spec, positions_of(root), datasets or {}, unreadable, locations, barred_locations, pools, findings)
    check_rules(dag)
    findings.raise_first()
    jobs = check_operators(dag)
    findings.raise_first()
    return spec.model_copy(update={"jobs": jobs})


def _filled(dag: dict[str, Any]) -> dict[str, Any]:
    """The file's values with `defaults` given to the jobs."""
    defaults: dict[str, Any] = dag.pop("defaults", {})
    attempts = {key: defaults[key] for key in ("max_attempts", "timeout_seconds") if key in defaults}
    owned = {key: defaults[key] for key in ("domain", "owner") if key in defaults}
    return dag | {"jobs": [attempts | job | _parts(job, owned) for job in dag["jobs"]]}


def _parts(job: dict[str, Any], owned: dict[str, Any]) -> dict[str, Any]:
    # `scaling.mode` is accepted and ignored: definitions written for other schedulers name one.
    scaling = {key: value for key, value in job.get("scaling", {}).items() if key != "mode"}
    outputs = [owned | output for output in job.get("outputs", [])]
    inputs = [given | ({"where": _where(given["where"])} if "where" in given else {}) for given in job.get("inputs", [])]
    return {"scaling": scaling, "outputs": outputs, "inputs": inputs}


def _where(where: dict[str, Any]) -> dict[str, Any]:
    """One partition is a list of one; their order does not count."""
    if "partition" not in where:
        return where
    partition = where["partition"]
    return {"partition": sorted({partition} if isinstance(partition, str) else set(partition))}
