"""The graph of datasets over all DAGs of an org has no cycle."""

from uuid import UUID, uuid4

import pytest
from support.controls import NOOP, ControlPlane

from tracelake.control.deploys.dataset_graph import find_cycle
from tracelake_sdk.errors import DatasetCycle, RebuildNeeded

pytestmark = pytest.mark.proves("T4.4")

A, B, C, D = (uuid4() for _ in range(4))


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ([], None),
        ([(A, B), (B, C), (A, C), (D, C)], None),
        ([(A, A)], {A}),
        ([(A, B), (B, A)], {A, B}),
        ([(A, B), (B, C), (C, A), (D, A)], {A, B, C}),
    ],
)
def test_a_cycle_is_found_and_nothing_else(edges: list[tuple[UUID, UUID]], found: set[UUID] | None):
    cycle = find_cycle(edges)
    assert (set(cycle) if cycle else None) == found
    if cycle:
        assert all((one, next) in edges for one, next in zip(cycle, [*cycle[1:], cycle[0]], strict=True)), "each is made from the next"


PUBLISHED = NOOP + "publish: {{{name}_told: {{job: start, output_index: 0}}}}\n"
READING = """
name: b
jobs:
  - name: listen
    activation: reactive
    inputs: [{from: {dataset: a_told}}]
    execution_strategy: PerUpdate
    runtime: dispatcher
    operator: range_aggregator
    config: {cursor: integer, range_size: 10}
    outputs: [{layer: bronze, domain: d, owner: o}]
publish: {b_told: {job: listen, output_index: 0}}
"""


def test_dags_that_would_read_each_other_are_refused(control_plane: ControlPlane):
    control_plane.deploy(PUBLISHED, name="a")
    control_plane.services.deploys.deploy(control_plane.admin, READING)
    both = PUBLISHED.format(name="a", max_attempts=3).replace("{from: {job: start, output: 0}}", "{from: {dataset: b_told}}")
    with pytest.raises(RebuildNeeded) as refused:
        control_plane.services.deploys.deploy(control_plane.admin, both)
    assert refused.value.extra["jobs"]["edited"] == ["end"]
    # As it would be if somebody had changed an input behind the deploys' back.
    control_plane.query(
        "INSERT INTO job_input (job_id, index, dataset_id, trigger) SELECT job.id, 0, (SELECT dataset_id FROM dataset_name WHERE name = 'b_told'), true"
        " FROM job JOIN job_key ON job_key.id = job_key_id WHERE job_key.name = 'start'"
    )
    with pytest.raises(DatasetCycle):
        control_plane.deploy(name="c")
    assert control_plane.one("SELECT count(*) FROM dag") == 2
