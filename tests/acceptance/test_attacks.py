"""Attacks by somebody who may deploy, through the real platform: a token stolen by ingest, a folder overwritten by SQL. Each ends in a clear refusal.

The third attack, a stall by a body without a token, is in server/tests/api/test_unread_bodies.py.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.databases import StateDatabase
from support.processes import Processes, running_processes, wait_until

from tracelake_sdk.access import TokenKind
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Forbidden, LocationRefused
from tracelake_sdk.errors.dags import DagInvalid
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.tasks import Task, TaskState

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("systems")]

SHOP = """
name: shop
defaults: {domain: sales, owner: data}
jobs:
  - name: ingest_orders
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: landing/orders, format: csv, schema: "order_id BIGINT"}
    outputs: [{layer: bronze, description: Orders as they arrived}]
    update_strategy: append
    unique_key: [order_id]
publish:
  orders_raw: {job: ingest_orders, output_index: 0}
"""
STEAL = """
name: steal
defaults: {{domain: sales, owner: wanda, max_attempts: 3}}
jobs:
  - name: ingest
    activation: source
    source: {{kind: manual}}
    runtime: spark
    operator: ingest_files
    config: {{path: "{path}", format: json}}
    outputs: [{{layer: bronze, description: Nothing}}]
    update_strategy: replace
"""
OVERWRITE = """
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
        (tmp_path / "landing" / "orders").mkdir(parents=True)
        processes.control()
        processes.worker()
        yield processes


@pytest.fixture
def wanda(shop: Processes) -> Iterator[Client]:
    """A user who may deploy and is not an admin."""
    with shop.client() as admin:
        admin.admin.create_user("wanda", roles=["writer"])
        token = admin.admin.create_token(TokenKind.USER, "wanda", user="wanda").token
    with Client(shop.api_url, token) as client:
        yield client


def failed(client: Client, job: str) -> Task:
    """The job's only task, once it has failed."""
    wait_until(lambda: any(task.job == job and task.state is TaskState.FAILED for task in client.tasks.list(limit=50).items), f"{job} has failed", longest=300)
    [task] = [client.tasks.get(task.id) for task in client.tasks.list(limit=50).items if task.job == job]
    return task


@pytest.mark.proves("T3.12")
def test_ingest_cannot_read_the_tokens_of_the_home(shop: Processes, wanda: Client, tmp_path: Path):
    tokens = HomeFiles(shop.home).credentials
    assert tokens.exists()
    for path in (str(tokens), tokens.as_uri(), "../home/credentials.json", "landing/../home/credentials.json", f"landing/{tokens}", "~/credentials.json"):
        with pytest.raises(DagInvalid) as refused:
            wanda.dags.deploy(STEAL.format(path=path))
        assert refused.value.code == "location_path_invalid", path
    with pytest.raises(DagInvalid, match="landing"):
        wanda.dags.deploy(STEAL.format(path="landin/home"))
    with pytest.raises(Forbidden):
        wanda.admin.add_location("mine", str(shop.home))
    with shop.client() as admin:
        for root in (shop.home, shop.home / "lake", shop.home.parent, Path("/")):
            with pytest.raises(LocationRefused):
                admin.admin.add_location("mine", str(root))

    (tmp_path / "landing" / "orders" / "tokens.json").symlink_to(tokens)
    wanda.dags.deploy(STEAL.format(path="landing/orders"))
    wanda.dags.run("steal", "ingest")
    task = failed(wanda, "ingest")
    assert [attempt.error_class for attempt in task.attempts] == ["link_refused"]
    assert "landing/orders/tokens.json" in (task.attempts[0].error_message or "")
    assert str(tmp_path) not in (task.attempts[0].error_message or "")


def test_sql_that_overwrites_a_folder_is_refused_at_the_first_attempt_and_the_folder_stays(shop: Processes, wanda: Client, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "kept.txt").write_text("kept")
    (tmp_path / "landing" / "orders" / "1.csv").write_text("order_id\n1\n2\n")
    with shop.client() as admin:
        admin.dags.deploy(SHOP)
        admin.admin.set_read_roles("orders_raw", ["writer"])
        wanda.dags.deploy(OVERWRITE.format(folder=precious))
        admin.dags.run("shop", "ingest_orders")
        task = failed(wanda, "overwrite")
    assert [attempt.error_class for attempt in task.attempts] == ["sql_refused"]
    assert (task.attempts[0].error_message or "").startswith("Line 2, column 1: `InsertIntoDir` is not allowed.")
    assert [path.name for path in precious.iterdir()] == ["kept.txt"]
    assert (precious / "kept.txt").read_text() == "kept"
    assert "OVERWRITE" not in shop.log()
