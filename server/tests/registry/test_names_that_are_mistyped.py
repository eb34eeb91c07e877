"""A mistyped name is answered with the nearest visible one, and no other."""

from collections.abc import Callable

import pytest
from support.controls import EMIT, ControlPlane
from support.people import user

from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import NotFound


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(NotFound) as caught:
        act()
    return caught.value.detail


def test_a_mistyped_dag_or_job_gets_the_nearest_name_in_every_command(control_plane: ControlPlane):
    control_plane.deploy(EMIT, name="bakery")
    services, admin = control_plane.services, control_plane.admin
    for act in (
        lambda: services.tasks.views.status(admin, "bakry"),
        lambda: services.tasks.pauses.pause(admin, "bakry", None),
        lambda: services.tasks.requests.run(admin, "bakry", "start", {}, idempotency_key=None),
        lambda: services.granting.list_grants(admin, "bakry"),
    ):
        assert refused(act) == "DAG 'bakry' was not found in this org; did you mean bakery?"
    for act in (
        lambda: services.tasks.pauses.pause(admin, "bakery", "strat"),
        lambda: services.tasks.requests.run(admin, "bakery", "strat", {}, idempotency_key=None),
    ):
        assert refused(act) == "Job bakery/strat was not found in this org; did you mean bakery/start?"
    assert refused(lambda: services.granting.grant(admin, "bakery", DagRight.DEPLOY, "writr")).endswith("did you mean writer?")


@pytest.mark.proves("T5.2")
def test_a_name_is_not_shown_without_permission(control_plane: ControlPlane):
    control_plane.deploy(EMIT, name="bakery")
    ann = user(control_plane, "ann", "makers")
    for name in ("bakry", "bakery"):
        assert refused(lambda name=name: control_plane.services.tasks.views.status(ann, name)) == f"DAG {name!r} was not found in this org; `tracelake status` lists them."
    control_plane.services.granting.grant(control_plane.admin, "bakery", DagRight.TRIGGER, "makers")
    assert refused(lambda: control_plane.services.tasks.views.status(ann, "bakry")).endswith("did you mean bakery?")
