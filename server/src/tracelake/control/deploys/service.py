"""Deploy: a definition is validated and activated in one transaction under the org's lock, or refused without storing anything."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.access import store as access
from tracelake.control.access.callers import Caller, Permission
from tracelake.control.dags import permissions
from tracelake.control.dags import store as dags
from tracelake.control.dags.lapsed_permissions import lapsed_permissions
from tracelake.control.dags.location_paths import locations_of_jobs
from tracelake.control.dags.store import Dag
from tracelake.control.database.transactions import Database, DatabaseRole, Transaction
from tracelake.control.deploys.activating import Deployment, FirstVersion
from tracelake.control.deploys.dag_file import parse_dag
from tracelake.control.deploys.dag_hashes import spec_hash
from tracelake.control.deploys.dag_rules import ReadableDataset
from tracelake.control.deploys.redeploying import Redeploy
from tracelake.control.locations import store as locations
from tracelake.control.locations.permissions import usable_locations
from tracelake.control.pools import store as pools
from tracelake.control.registry import store as registry
from tracelake.control.registry.reading import readable
from tracelake.control.tasks.notifications import WakePools
from tracelake_sdk.access import DagRight
from tracelake_sdk.dags import Layer
from tracelake_sdk.dags.status import Deployed
from tracelake_sdk.errors import Forbidden, NameTaken


def _nobody_waits(pools: Iterable[UUID]) -> None:
    """For deploys outside a control process: its workers poll every second anyway."""


@dataclass(frozen=True)
class Deploys:
    database: Database
    wake: WakePools = _nobody_waits

    def deploy(self, caller: Caller, text: str, *, dry_run: bool = False) -> Deployed:
        """An equal definition changes nothing, one that produces different rows is refused, any other is activated. A dry run only validates."""
        caller.require(Permission.DEPLOY)
        with self.database.transaction("deploy", role=DatabaseRole.DEFINE) as tx:
            registry.lock_org(tx, caller.org_id)
            deploying = self._read(tx, caller, text)
            dag = dags.find_dag(tx, org=caller.org_id, name=deploying.spec.name)
            if dag is not None and dag.spec_hash == deploying.spec_hash:
                return _same(deploying, dag, dry_run=dry_run)
            _names_are_free(deploying, dag)
            done, woken = _activate(deploying, dag, dry_run=dry_run)
            if not dry_run:
                detail = {"spec_hash": deploying.spec_hash, "version": done.version}
                access.append_audit(tx, org=caller.org_id, actor=caller.name, action="deploy", object=done.dag, detail=detail)
        self.wake(woken)
        return done

    def _read(self, tx: Transaction, caller: Caller, text: str) -> Deployment:
        named = {dataset.name: dataset for dataset in registry.named(tx, org=caller.org_id)}
        allowed = readable(tx, caller, [dataset.id for dataset in named.values()])
        datasets = {name: ReadableDataset(Layer(dataset.layer), dataset.has_files) for name, dataset in named.items() if dataset.id in allowed}
        unreadable = named.keys() - datasets.keys()
        places = locations.locations(tx, caller.org_id)
        may_use = usable_locations(caller, places)
        spec = parse_dag(
            text,
            datasets=datasets,
            unreadable=unreadable,
            locations=may_use,
            barred_locations=places.keys() - may_use,
            pools=pools.names(tx, org=caller.org_id),
            authorize=lambda name: _authorize(tx, caller, dags.find_dag(tx, org=caller.org_id, name=name), name),
        )
        return Deployment(tx, caller, spec, spec_hash(spec), named)


def _authorize(tx: Transaction, caller: Caller, dag: Dag | None, name: str) -> None:
    if dag is None:
        caller.require(Permission.CREATE)
        return
    if not permissions.is_visible(tx, caller, dag.id):
        # Names are shared by the whole org, so the caller learns that the name is taken.
        raise Forbidden(f"DAG {name!r} already exists in this org and you have no permission on it; choose another name, or ask an admin.")
    permissions.require(tx, caller, dag.id, DagRight.DEPLOY)


def _names_are_free(deploying: Deployment, dag: Dag | None) -> None:
    taken = {name for name, dataset in deploying.named.items() if dag is None or dataset.dag_id != dag.id}
    taken |= set(registry.snapshot_names(deploying.tx, org=deploying.caller.org_id, names=list(deploying.spec.publish)))
    for name in deploying.spec.publish:
        if name in taken:
            raise NameTaken(f"The name {name!r} is already used by another dataset or snapshot of this org; publish under another name.")


def _activate(deploying: Deployment, dag: Dag | None, *, dry_run: bool) -> tuple[Deployed, set[UUID]]:
    """The version that was or would be deployed, and the pools in which a task may have become claimable."""
    if dag is not None and dag.active_version_id is not None:
        redeploy = Redeploy(deploying, dag, dag.active_version_id)
        redeploy.check()
        return (redeploy.would_be(), set()) if dry_run else redeploy.activate()
    published = {} if dry_run else FirstVersion(deploying).activate()
    spec = deploying.spec
    return Deployed(dag=spec.name, version=1, created=True, jobs=[job.name for job in spec.jobs], published=published), set()


def _same(deploying: Deployment, dag: Dag, *, dry_run: bool) -> Deployed:
    """Changes nothing, unless the activator lost a permission that the DAG needs: then the caller, who has it, becomes the activator."""
    tx, spec, caller = deploying.tx, deploying.spec, deploying.caller
    if not dry_run and dag.active_version_id is not None:
        jobs = dags.jobs_of_generations(tx, [job.generation_id for job in dags.built_jobs(tx, dag.active_version_id)])
        inputs = dags.inputs_of_jobs(tx, [job.id for job in jobs.values()])
        if lapsed_permissions(tx, jobs.values(), inputs, locations_of_jobs(tx, jobs.values())):
            before = dags.newest_activation(tx, dag.active_version_id)
            dags.lock_routing(tx, [dag.id])
            deploying.activate(dag.id, dag.active_version_id, pointer_set_hash=before.pointer_set_hash, previous=before.id)
            access.append_audit(tx, org=caller.org_id, actor=caller.name, action="take_on", object=spec.name)
    published = {name: str(dataset.id) for name, dataset in deploying.named.items() if name in spec.publish}
    return Deployed(dag=spec.name, version=dag.number or 1, created=False, jobs=[job.name for job in spec.jobs], published=published)
