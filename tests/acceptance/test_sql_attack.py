"""A writer deploys SQL that would overwrite a folder: through the real platform it ends in one refused attempt, and nothing has changed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.processes import Processes, running_processes, wait_until

from tracelake_sdk.access import TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.tasks import TaskState

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SHOP = """
name: shop
defaults: {domain: sales, owner: data}
jobs:
  - name: ingest_orders
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: landing/orders, format: csv, columns: "order_id BIGINT"}
    outputs: [{layer: bronze, description: Orders as they arrived}]
    update_strategy: append
    unique_key: [order_id]
publish:
  orders_raw: {job: ingest_orders, output_index: 0}
"""
ATTACK = """
name: attack
defaults: {{domain: sales, owner: wanda, max_attempts: 3}}
jobs:
  - name: overwrite
    activation: reactive
    inputs: [{{from: {{dataset: orders_raw}}}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config:
      query: |
        WITH wanted AS (SELECT * FROM input_0)
        INSERT OVERWRITE DIRECTORY '{folder}' USING csv SELECT * FROM wanted
    outputs: [{{layer: silver, description: Nothing}}]
    update_strategy: replace
"""


@pytest.fixture
def shop(database: StateDatabase, tmp_path: Path) -> Iterator[Processes]:
    settings = {"TRACELAKE__LOCATIONS": f'{{"landing": {{"url": "{tmp_path}/landing", "roles": ["writer"]}}}}', "TRACELAKE__WORKER__RUNTIMES": '["dispatcher", "spark"]'}
    with running_processes(database, tmp_path, settings) as processes:
        yield processes


def test_sql_that_overwrites_a_folder_is_refused_at_the_first_attempt_and_the_folder_stays(shop: Processes, tmp_path: Path):
    precious, landing = tmp_path / "precious", tmp_path / "landing" / "orders"
    for folder in (precious, landing):
        folder.mkdir(parents=True)
    (precious / "kept.txt").write_text("kept")
    (landing / "1.csv").write_text("order_id\n1\n2\n")
    shop.control()
    shop.worker()
    with shop.client() as admin:
        admin.deploy(SHOP)
        admin.admin.create_user("wanda", roles=["writer"])
        admin.admin.set_read_roles("orders_raw", ["writer"])
        token = admin.admin.create_token(TokenKind.USER, "wanda", user="wanda").token
        with Client(shop.api_url, token) as wanda:
            wanda.deploy(ATTACK.format(folder=precious))
            admin.run("shop", "ingest_orders")
            wait_until(lambda: any(task.job == "overwrite" and task.state is TaskState.FAILED for task in wanda.tasks(limit=50).items), "the attack has failed", longest=300)
            [task] = [wanda.task(task.id) for task in wanda.tasks(limit=50).items if task.job == "overwrite"]
    assert [attempt.error_class for attempt in task.attempts] == ["sql_refused"]
    assert (task.attempts[0].error_message or "").startswith("Line 2, column 1: `InsertIntoDir` is not allowed. Only one SELECT over `input_0`")
    assert [path.name for path in precious.iterdir()] == ["kept.txt"]
    assert (precious / "kept.txt").read_text() == "kept"
    assert "OVERWRITE" not in shop.log()
