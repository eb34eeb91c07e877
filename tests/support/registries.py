"""Two DAGs of one org: `sample` makes `sample_raw` and `sample_clean`, `reports` makes `sales` from the second."""

from support.lakes import BRONZE, Lake
from support.lines import APPENDING, load, tasks_of
from tracelake.control.access.callers import Caller

SAMPLE = APPENDING + "  {name}_clean: {{job: clean, output_index: 0}}\n"
REPORTS = """
name: reports
defaults: {domain: finance, owner: controllers, max_attempts: 3}
jobs:
  - name: sum_up
    activation: reactive
    inputs: [{from: {dataset: sample_clean}}]
    execution_strategy: PerUpdate
    runtime: spark
    operator: sql
    config: {query: SELECT * FROM sample_clean}
    outputs: [{layer: gold, description: Turnover by day}]
    update_strategy: append
    unique_key: [id]
publish:
  sales: {job: sum_up, output_index: 0}
"""
LONELY = BRONZE  # one source, `{name}_raw`


def deploy_sample(lake: Lake, caller: Caller | None = None, **words: str) -> None:
    lake.services.deploys.deploy(caller or lake.admin, SAMPLE.format(name="sample", max_attempts=words.get("max_attempts", "3")))


def deploy_reports(lake: Lake, caller: Caller | None = None) -> None:
    lake.services.deploys.deploy(caller or lake.admin, REPORTS)


def fill(lake: Lake, *keys: int) -> None:
    """One version more of every dataset that can be made: bronze, then silver, then gold where `reports` is deployed."""
    load(lake, *keys)
    for job in ("clean", "sum_up"):
        for task in tasks_of(lake, job):
            assert lake.write(task, [(key, "x") for key in keys]).result == "committing"
            lake.move()
