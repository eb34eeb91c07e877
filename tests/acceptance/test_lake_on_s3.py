"""A lake on a real S3 server, as a team would use it: Spark makes bronze, silver and gold, people query gold, and Delta readers read all of it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.accounting import rows_of, wait_until_quiet
from support.databases import StateDatabase
from support.fetched import SPARK_JARS
from support.ports import free_port
from support.processes import running_processes
from support.s3_servers import S3Server
from support.sizes import size

from tracelake.storage.paths import table_location
from tracelake_sdk.errors import LocationRefused

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("s3")]

DAG = """
name: shop
defaults: {domain: test, owner: test}
jobs:
  - name: bronze
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: landing/orders, format: csv, schema: "id BIGINT, day STRING, amount BIGINT"}
    outputs: [{layer: bronze, description: Orders as they came}]
    update_strategy: append
    unique_key: [id]
  - name: silver
    activation: reactive
    inputs: [{from: {job: bronze, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: SELECT * FROM input_0 WHERE amount > 0}
    outputs: [{layer: silver, description: Orders that count, partition_by: {column: day}}]
    update_strategy: replace
  - name: gold
    activation: reactive
    inputs: [{from: {job: silver, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: "SELECT day, sum(amount) AS amount FROM input_0 GROUP BY day"}
    outputs: [{layer: gold, description: What each day brought}]
    update_strategy: replace
publish:
  orders: {job: silver, output_index: 0}
  orders_by_day: {job: gold, output_index: 0}
"""
ORDERS = (b"id,day,amount\n1,mon,5\n2,mon,7\n3,tue,-1\n4,tue,2\n", b"id,day,amount\n5,wed,1\n")  # what lands before each run
OTHERS = b"id,day,amount\n9,sun,9\n"  # beside what the DAG may read
OVERWRITE = """
name: attack
defaults: {{domain: test, owner: test, max_attempts: 3}}
jobs:
  - name: overwrite
    activation: reactive
    inputs: [{{from: {{dataset: orders}}}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {{query: "FROM input_0 INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT *"}}
    outputs: [{{layer: silver, description: Nothing}}]
    update_strategy: replace
"""


@pytest.mark.proves("T3.4", "T3.12")
def test_spark_makes_a_lake_on_s3_that_people_query_and_delta_readers_read(database: StateDatabase, s3_server: S3Server, tmp_path: Path):
    """Under a second key, which reaches the lake and nothing else of the bucket."""
    runs = size(1, len(ORDERS))
    url, landing, port = s3_server.fresh_limited_url(), s3_server.fresh_limited_url(), free_port()
    settings = s3_server.environment(url) | {
        "TRACELAKE__STORAGE__OPERATOR_ACCESS_KEY_ID": s3_server.limited_access_key_id,
        "TRACELAKE__STORAGE__OPERATOR_SECRET_ACCESS_KEY": s3_server.limited_secret_access_key,
        "TRACELAKE__SPARK__JARS_FOLDER": str(SPARK_JARS), "TRACELAKE__SPARK__CONF": '{"spark.sql.session.timeZone": "Asia/Tokyo"}',
        "TRACELAKE__LOCATIONS": f'{{"landing": "{landing}"}}', "TRACELAKE__WORKER__RUNTIMES": '["spark"]', "TRACELAKE__WORKER__SLOTS": "1",
        "TRACELAKE__TASKS__LEASE_SECONDS": "60", "TRACELAKE__QUERY__URL": f"http://127.0.0.1:{port}", "TRACELAKE__QUERY__PORT": str(port),
    }  # fmt: skip
    s3_server.open(landing).replace("others/1.csv", OTHERS)
    with running_processes(database, tmp_path, settings) as processes:
        processes.control()
        processes.query()
        processes.worker()
        with processes.client() as client:
            client.dags.deploy(DAG)
            client.dags.deploy(OVERWRITE.format(folder=f"{landing.replace('s3:', 's3a:')}/others"))
            for number in range(runs):
                s3_server.open(landing).replace(f"orders/{number}.csv", ORDERS[number])
                client.dags.run("shop", "bronze")
                wait_until_quiet(database, longest=400)
            assert sorted(client.query("SELECT * FROM orders_by_day")) == [("mon", 12), ("tue", 2), ("wed", 1)][: 1 + runs]
            for root in (url, f"{url}/org", url.rpartition("/")[0]):
                with pytest.raises(LocationRefused):
                    client.admin.add_location("mine", root)
            attacks = [client.tasks.get(task.id) for task in client.tasks.list(dag="attack", limit=10).items]
            assert attacks and all([attempt.error_class for attempt in task.attempts] == ["sql_refused"] for task in attacks)
    assert s3_server.open(landing).read("others/1.csv") == OTHERS
    options = {
        "aws_endpoint_url": s3_server.endpoint, "aws_access_key_id": s3_server.access_key_id, "aws_secret_access_key": s3_server.secret_access_key,
        "aws_region": "us-east-1", "aws_allow_http": "true",
    }  # fmt: skip
    tables = rows_of(
        database,
        """
        SELECT job_key.name, dataset.org_id, dataset.id, version.id FROM dataset_version AS version
        JOIN dataset ON dataset.id = version.dataset_id JOIN job_key ON job_key.id = dataset.job_key_id
        WHERE job_key.name <> 'overwrite'
        """,
    )
    counts = {job: sum(DeltaTable(f"{url}/{table_location(*ids)}", storage_options=options).get_add_actions().column("num_records").to_pylist()) for job, *ids in tables}
    assert counts == {"bronze": 3 + runs, "silver": 2 + runs, "gold": 1 + runs}
