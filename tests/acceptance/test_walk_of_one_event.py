"""The walk of one event, on real parts: a file arrives, Spark reads it, the gate decides, Delta readers see it, and the next job hears of it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.databases import StateDatabase
from support.processes import Processes, running_processes, wait_until

from tracelake_sdk.tasks import TaskState

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("systems")]

DAG = """
name: shop
defaults: {domain: sales, owner: data, max_attempts: 2}
jobs:
  - name: ingest_orders
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: landing/orders, format: csv, columns: "order_id BIGINT, customer STRING, amount DECIMAL(10,2)"}
    outputs: [{layer: bronze, description: Orders as they arrived}]
    update_strategy: append
    unique_key: [order_id]
  - name: clean_orders
    activation: reactive
    inputs: [{from: {job: ingest_orders, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: "SELECT order_id, upper(customer) AS customer, amount FROM input_0 WHERE amount > 0"}
    outputs: [{layer: silver, description: One clean row per order}]
    update_strategy: replace
  - name: revenue
    activation: reactive
    inputs: [{from: {job: clean_orders, output: 0}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: "SELECT customer, sum(amount) AS amount, count(*) AS orders FROM orders GROUP BY customer"}
    outputs: [{layer: gold, description: Revenue by customer}]
    update_strategy: replace
publish:
  orders_raw: {job: ingest_orders, output_index: 0}
  orders: {job: clean_orders, output_index: 0}
  revenue: {job: revenue, output_index: 0}
"""


@pytest.fixture
def shop(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    landing = tmp_path / "landing" / "orders"
    landing.mkdir(parents=True)
    settings = {
        "TRACELAKE__LOCATIONS": f'{{"landing": "{tmp_path}/landing"}}',
        "TRACELAKE__TASKS__LEASE_SECONDS": "30",
        "TRACELAKE__WORKER__RUNTIMES": '["dispatcher", "spark"]',
    }
    with running_processes(database, tmp_path, settings) as processes:
        yield processes


def rows(processes: Processes, dataset: str, version: int | None = None) -> list[dict[str, object]]:
    """The table as a Delta reader sees it that knows only its path."""
    with processes.client() as client:
        found = client.datasets.versions(dataset).items
    table = next(one for one in found if version is None or one.version == version)
    id, _, delta_version = table.snapshot_ref.removeprefix("delta:").partition("@")
    [location] = (processes.home / "lake").glob(f"org/*/dataset/*/version/{id}")
    files = DeltaTable(str(location), version=int(delta_version)).file_uris()
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def settled(processes: Processes) -> bool:
    """Whether all is quiet; a task that failed without the gate is a failure of the test."""
    with processes.client() as client:
        tasks = client.tasks.list(limit=200).items
        for task in tasks:
            errors = [attempt.error_message for attempt in client.tasks.get(task.id).attempts if attempt.error_class not in (None, "blocked")]
            assert not errors, f"{task.job}: {errors}"
    return all(task.state in (TaskState.COMPLETED, TaskState.FAILED) for task in tasks)


@pytest.mark.proves("G3.1")
@pytest.mark.proves("T2.2")
def test_a_file_becomes_three_versions_each_allowed_before_it_is_seen(shop: Processes, tmp_path: Path):
    (tmp_path / "landing/orders/1.csv").write_text("order_id,customer,amount\n1,ann,10.00\n2,bob,5.50\n3,ann,-1.00\n")
    shop.control()
    shop.worker()
    with shop.client() as client:
        client.dags.deploy(DAG)
        client.dags.run("shop", "ingest_orders")
        wait_until(lambda: settled(shop) and client.datasets.get("revenue").version == 1, "gold has its first version", longest=400)
        assert [client.datasets.get(name).row_count for name in ("orders_raw", "orders", "revenue")] == [3, 2, 2]
        assert sorted((row["customer"], str(row["amount"]), row["orders"]) for row in rows(shop, "revenue")) == [("ANN", "10.00", 1), ("BOB", "5.50", 1)]

        # The same file again and a second one: one row is new.
        (tmp_path / "landing/orders/2.csv").write_text("order_id,customer,amount\n2,bob,5.50\n4,cat,7.00\n")
        client.dags.run("shop", "ingest_orders")
        wait_until(lambda: settled(shop) and client.datasets.get("revenue").version == 2, "gold has its second version", longest=400)
        assert sorted(row["order_id"] for row in rows(shop, "orders_raw")) == [1, 2, 3, 4]
        assert sorted(row["customer"] for row in rows(shop, "revenue")) == ["ANN", "BOB", "CAT"]
        assert sorted(row["customer"] for row in rows(shop, "revenue", version=1)) == ["ANN", "BOB"]
        [part] = client.datasets.version("revenue", 2).parts
        assert [(pin.name, pin.version) for pin in part.inputs] == [("orders", 2)]

        # A rule blocks the next file, and nobody sees anything of it.
        client.rules.add("orders_raw", "NOT_NULL", "customer")
        (tmp_path / "landing/orders/3.csv").write_text("order_id,customer,amount\n5,,3.00\n6,dan,1.00\n")
        client.dags.run("shop", "ingest_orders")
        wait_until(lambda: settled(shop) and any(not one.allowed for one in client.promotions.list(dataset="orders_raw").items), "the gate has refused", longest=400)
        assert client.datasets.get("orders_raw").version == 2
        assert sorted(row["order_id"] for row in rows(shop, "orders_raw")) == [1, 2, 3, 4]
        reasons = client.datasets.explain("orders_raw").reasons
        assert any(reason.code == "blocked" and "customer" in reason.sentence for reason in reasons)
        assert any(reason.code == "paused" for reason in reasons)

        # Corrected, resumed, run: it continues where it stopped.
        (tmp_path / "landing/orders/3.csv").write_text("order_id,customer,amount\n5,eve,3.00\n6,dan,1.00\n")
        client.dags.resume("shop", "ingest_orders")
        client.dags.run("shop", "ingest_orders")
        wait_until(lambda: settled(shop) and client.datasets.get("revenue").version == 3, "gold has its third version", longest=400)
        assert sorted(row["order_id"] for row in rows(shop, "orders_raw")) == [1, 2, 3, 4, 5, 6]
