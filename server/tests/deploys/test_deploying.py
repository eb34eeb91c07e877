"""Deploy: a first version is activated, the same one again makes nothing, and a refused one leaves nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.controls import EMIT, NOOP, ControlPlane
from support.sizes import full

from tracelake_sdk.errors import Forbidden, NameTaken, TracelakeError
from tracelake_sdk.errors.dags import OperatorInputsWrong

from .malformed_dags import by_hand, generated
from .test_dag_file import WITH_ROWS

TABLES = (
    "dag", "dag_version", "job_key", "generation", "line", "job", "job_input", "dataset", "dataset_revision", "dataset_name", "dataset_version", "pointer",
    "dag_activation", "task", "dataset_event",
)  # fmt: skip
PUBLISHED = NOOP + "publish: {{cursors: {{job: start, output_index: 0}}}}\n"


# The sample with rows; `customers` comes from a DAG of its own.
CUSTOMERS = """
name: crm
defaults: {{domain: sales, owner: data-eng, max_attempts: {max_attempts}}}
jobs:
  - name: ingest_customers
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: landing/customers, format: json}}
    outputs: [{{layer: bronze, partition_by: {{column: country}}}}]
    update_strategy: append
    unique_key: [customer_id]
  - name: clean_customers
    activation: reactive
    inputs: [{{from: {{job: ingest_customers, output: 0}}}}]
    execution_strategy: PerPartition
    runtime: spark
    operator: sql
    config: {{query: SELECT * FROM input_0}}
    outputs: [{{layer: silver, partition_by: {{column: country}}}}]
    update_strategy: replace
publish:
  customers: {{job: clean_customers, output_index: 0}}
"""


def counts(control_plane: ControlPlane) -> dict[str, int]:
    return {table: control_plane.one(f"SELECT count(*) FROM {table}") for table in TABLES}


@pytest.mark.proves("T4.1")
def test_a_first_deploy_registers_every_output_and_points_at_its_first_version(control_plane: ControlPlane):
    deployed = control_plane.services.deploys.deploy(control_plane.admin, PUBLISHED.format(name="sample", max_attempts=3))
    assert (deployed.version, deployed.created, deployed.jobs) == (1, True, ["start", "end"])
    [(uuid, layer, version)] = control_plane.query(
        "SELECT dataset.id, layer, pointer.dataset_version_id FROM dataset JOIN pointer ON pointer.dataset_id = dataset.id JOIN dag ON dag.active_version_id = pointer.dag_version_id"
    )
    assert deployed.published == {"cursors": str(uuid)}
    assert layer == "bronze"
    assert control_plane.one("SELECT generation_id FROM dataset_version WHERE id = %s", version) == control_plane.one(
        "SELECT generation_id FROM job JOIN job_key ON job_key.id = job_key_id WHERE name = 'start'"
    )
    assert control_plane.query("SELECT domain, owner, active, actor FROM dataset_revision") == [("test", "test", True, "admin")]
    assert control_plane.query("SELECT kind, previous_id, actor FROM dag_activation") == [("deploy", None, "admin")]
    assert control_plane.one("SELECT count(*) FROM task") == 0  # naming and activating make no work


@pytest.mark.proves("T7.2")
def test_the_same_definition_makes_nothing_whatever_it_looks_like(control_plane: ControlPlane):
    text = PUBLISHED.format(name="sample", max_attempts=3)
    first = control_plane.services.deploys.deploy(control_plane.admin, text)
    before = counts(control_plane)
    again = control_plane.services.deploys.deploy(control_plane.admin, "# a comment\n" + text.replace("  - name: end", "\n\n  - name: end # another"))
    assert again.created is False
    assert again.model_copy(update={"created": True}) == first
    assert counts(control_plane) == before


def test_a_dry_run_judges_and_changes_nothing(control_plane: ControlPlane):
    before = counts(control_plane)
    assert control_plane.services.deploys.deploy(control_plane.admin, NOOP.format(name="sample", max_attempts=3), dry_run=True).created
    assert counts(control_plane) == before


@pytest.mark.proves("T4.1")
def test_a_name_that_another_dag_has_published_is_taken(control_plane: ControlPlane):
    control_plane.deploy(PUBLISHED)
    before = counts(control_plane)
    with pytest.raises(NameTaken):
        control_plane.deploy(PUBLISHED, name="other")
    assert counts(control_plane) == before


def test_equal_deploys_at_once_make_one_version(control_plane: ControlPlane):
    with ThreadPoolExecutor(4) as pool:
        text = EMIT.format(name="sample", max_attempts=3)
        created = [done.result().created for done in [pool.submit(control_plane.services.deploys.deploy, control_plane.admin, text) for _ in range(8)]]
    assert sorted(created) == [False] * 7 + [True]
    assert counts(control_plane)["dag_version"] == 1


def test_a_worker_may_not_deploy(control_plane: ControlPlane):
    with pytest.raises(Forbidden):
        control_plane.services.deploys.deploy(control_plane.worker, NOOP.format(name="sample", max_attempts=3))


def test_every_malformed_file_is_refused_with_one_error_and_nothing_is_stored(control_plane: ControlPlane):
    before = counts(control_plane)
    files = [*by_hand(), *generated()]
    codes: set[str] = set()
    for malformed in files:
        with pytest.raises(TracelakeError) as refused:
            control_plane.services.deploys.deploy(control_plane.admin, malformed.text)
        codes.add(refused.value.code)
        assert refused.value.detail
        assert refused.value.status == 422
    assert len(files) >= (300 if full() else 100)
    assert len(codes) >= 30
    assert counts(control_plane) == before


@pytest.mark.proves("T4.5")
def test_the_sample_with_rows_is_deployed_and_its_outputs_are_tables(control_plane: ControlPlane):
    control_plane.deploy(CUSTOMERS)
    deployed = control_plane.services.deploys.deploy(control_plane.admin, WITH_ROWS)
    assert (deployed.created, deployed.jobs, sorted(deployed.published)) == (True, ["ingest_orders", "clean_orders"], ["orders", "orders_raw"])
    registered = "SELECT job_key.name, layer, has_files FROM dataset JOIN job_key ON job_key.id = job_key_id JOIN dag ON dag.id = dag_id WHERE dag.name = 'orders'"
    assert sorted(control_plane.query(registered)) == [("clean_orders", "silver", True), ("ingest_orders", "bronze", True)]
    jobs = control_plane.query(
        "SELECT job_key.name, job.ordered, job.turns, pool.runtime, pool.name FROM job JOIN job_key ON job_key.id = job_key_id "
        "JOIN worker_pool AS pool ON pool.id = pool_id JOIN dag ON dag.id = dag_id WHERE dag.name = 'orders' ORDER BY 1"
    )
    assert jobs == [("clean_orders", False, 2, "spark", "default"), ("ingest_orders", True, 1, "spark", "default")]
    config = control_plane.one("SELECT job.spec->'config' FROM job JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'ingest_orders'")
    assert config["path"] == "landing/orders"
    control_plane.services.locations.set(control_plane.admin, "landing", "s3://elsewhere")
    assert control_plane.services.deploys.deploy(control_plane.admin, WITH_ROWS).created is False, "a location that has moved is the same definition"


def test_datasets_of_the_dispatcher_have_no_files_and_cannot_be_all_that_sql_reads(control_plane: ControlPlane):
    control_plane.deploy(PUBLISHED)
    assert control_plane.query("SELECT has_files FROM dataset") == [(False,)]
    alone = WITH_ROWS.replace("{dataset: customers}, trigger: false", "{dataset: cursors}").replace("{from: {job: ingest_orders, output: 0}}, ", "")
    with pytest.raises(OperatorInputsWrong) as refused:
        control_plane.services.deploys.deploy(control_plane.admin, alone)
    assert refused.value.extra["place"] == "jobs[1].inputs"
