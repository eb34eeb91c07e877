"""Permissions on one DAG: granted to roles by admins, given to its creator, checked by every action."""

import pytest
from support.controls import NOOP, ControlPlane
from support.people import again, service, user

from tracelake.control.access.callers import Caller
from tracelake.control.dags.granting import Holder
from tracelake_sdk.access import DagRight
from tracelake_sdk.errors import Forbidden, Invalid, NotFound, TracelakeError

pytestmark = pytest.mark.proves("T5.3")


def text(name: str, attempts: int = 3) -> str:
    return NOOP.format(name=name, max_attempts=attempts)


def may(act, *arguments) -> str:
    """`yes`, or the code of the refusal."""
    try:
        act(*arguments)
    except TracelakeError as error:
        return error.code
    return "yes"


def acts(control_plane: ControlPlane, caller: Caller, dag: str, attempts: int) -> dict[str, str]:
    """Every act on a DAG, tried by a caller."""
    services = control_plane.services
    task = services.tasks.requests.run(control_plane.admin, dag, "start", {}, idempotency_key=None)
    return {
        "see": may(services.tasks.views.status, caller, dag),
        "task": may(services.tasks.views.task, caller, task),
        "run": may(lambda: services.tasks.requests.run(caller, dag, "start", {}, idempotency_key=None)),
        "pause": may(services.tasks.pauses.pause, caller, dag, None),
        "resume": may(services.tasks.pauses.resume, caller, dag, None),
        "pause job": may(services.tasks.pauses.pause, caller, dag, "end"),
        "resume job": may(services.tasks.pauses.resume, caller, dag, "end"),
        "cancel": may(services.tasks.cancels.cancel, caller, task),
        "deploy": may(services.deploys.deploy, caller, text(dag, attempts)),
    }


NOTHING = dict.fromkeys(("see", "task", "run", "pause", "resume", "pause job", "resume job", "cancel"), "not_found") | {"deploy": "forbidden"}
EVERYTHING = dict.fromkeys(NOTHING, "yes")
TRIGGERS = EVERYTHING | {"deploy": "forbidden"}
DEPLOYS = dict.fromkeys(NOTHING, "forbidden") | {"see": "yes", "task": "yes", "deploy": "yes"}
LOOKS = dict.fromkeys(NOTHING, "forbidden") | {"see": "yes", "task": "yes"}


def test_permissions_decide_who_deploys_and_triggers_a_dag(control_plane: ControlPlane):
    wanda, walter = user(control_plane, "wanda", "writer"), user(control_plane, "walter", "writer", "night_shift")
    control_plane.services.deploys.deploy(wanda, text("hers"))
    assert acts(control_plane, wanda, "hers", 4) == EVERYTHING, "the creator has both rights"
    assert acts(control_plane, walter, "hers", 5) == NOTHING, "writer gives no right on another's DAG"
    assert acts(control_plane, control_plane.admin, "hers", 6) == EVERYTHING
    assert acts(control_plane, user(control_plane, "rex", "reader"), "hers", 7) == NOTHING
    assert acts(control_plane, user(control_plane, "otto", "auditor"), "hers", 8) == LOOKS, "an auditor sees and does nothing"
    granting = control_plane.services.granting
    granting.grant(control_plane.admin, "hers", DagRight.TRIGGER, "night_shift")
    assert acts(control_plane, walter, "hers", 9) == TRIGGERS
    granting.revoke(control_plane.admin, "hers", DagRight.TRIGGER, Holder(role="night_shift"))
    assert acts(control_plane, walter, "hers", 10) == NOTHING
    granting.grant(control_plane.admin, "hers", DagRight.DEPLOY, "night_shift")
    assert acts(control_plane, walter, "hers", 11) == DEPLOYS
    granting.revoke(control_plane.admin, "hers", DagRight.DEPLOY, Holder(user="wanda"))
    assert acts(control_plane, wanda, "hers", 12) == TRIGGERS, "also the creator's rights are an admin's to take"


def test_lists_show_only_dags_with_a_permission(control_plane: ControlPlane):
    wanda = user(control_plane, "wanda", "writer")
    control_plane.services.deploys.deploy(wanda, text("hers"))
    control_plane.deploy(name="admins")
    for dag in ("hers", "admins"):
        control_plane.run_source(dag)
    views = control_plane.services.tasks.views

    def seen(caller: Caller) -> tuple[set[str], set[str]]:
        tasks = views.tasks(caller, dag=None, job=None, state=None, limit=10, before=None).items
        return {dag.name for dag in views.status(caller, None)}, {task.dag for task in tasks}

    assert seen(wanda) == ({"hers"}, {"hers"})
    assert seen(control_plane.admin) == seen(user(control_plane, "otto", "auditor")) == ({"hers", "admins"}, {"hers", "admins"})
    assert seen(user(control_plane, "rex", "reader")) == (set(), set())
    assert views.tasks(wanda, dag="admins", job=None, state=None, limit=10, before=None).items == []


def test_only_writers_and_admins_create_dags(control_plane: ControlPlane):
    for name, caller, answer in (
        ("a", user(control_plane, "wanda", "writer"), "yes"),
        ("b", control_plane.admin, "yes"),
        ("c", user(control_plane, "rex", "reader", "auditor", "friends"), "forbidden"),
        ("d", service(control_plane, "s1", scopes=("deploy",), roles=("writer",)), "yes"),
        ("e", service(control_plane, "s2", scopes=("deploy",), roles=("friends",)), "forbidden"),
        ("f", service(control_plane, "s3", scopes=("read",), roles=("writer",)), "forbidden"),
    ):
        assert may(control_plane.services.deploys.deploy, caller, text(name)) == answer, name
    assert {dag for (dag,) in control_plane.query("SELECT name FROM dag")} == {"a", "b", "d"}


def test_a_service_that_created_a_dag_has_both_rights_within_its_scopes(control_plane: ControlPlane):
    made = service(control_plane, "ci", scopes=("deploy", "operate", "read"), roles=("writer",))
    control_plane.services.deploys.deploy(made, text("built"))
    assert acts(control_plane, made, "built", 4) == EVERYTHING
    grants = control_plane.services.granting.list_grants(control_plane.admin, "built")
    assert {(grant.right, grant.service, grant.user, grant.role) for grant in grants} == {(right, "ci", None, None) for right in DagRight}
    narrow = Caller(made.org_id, made.org, made.kind, made.name, made.roles, frozenset({"read"}), token_id=made.token_id)
    with pytest.raises(Forbidden):
        control_plane.services.tasks.requests.run(narrow, "built", "start", {}, idempotency_key=None)
    control_plane.services.granting.revoke(control_plane.admin, "built", DagRight.TRIGGER, Holder(service="ci"))
    with pytest.raises(Forbidden):
        control_plane.services.tasks.requests.run(made, "built", "start", {}, idempotency_key=None)


def test_a_role_that_is_lost_takes_its_rights_with_it(control_plane: ControlPlane):
    walter = user(control_plane, "walter", "night_shift", "reader")
    control_plane.deploy()
    control_plane.services.granting.grant(control_plane.admin, "sample", DagRight.TRIGGER, "night_shift")
    control_plane.services.tasks.requests.run(walter, "sample", "start", {}, idempotency_key=None)
    control_plane.services.administration.remove_member(control_plane.admin, "night_shift", "walter")
    with pytest.raises(NotFound):
        control_plane.services.tasks.requests.run(again(control_plane, walter), "sample", "start", {}, idempotency_key=None)


def test_grants_are_listed_audited_and_granted_twice_are_granted_once(control_plane: ControlPlane):
    granting = control_plane.services.granting
    control_plane.services.administration.create_role(control_plane.admin, "night_shift")
    control_plane.deploy()
    first = granting.grant(control_plane.admin, "sample", DagRight.TRIGGER, "night_shift")
    assert granting.grant(control_plane.admin, "sample", DagRight.TRIGGER, "night_shift") == first
    assert {(grant.right.value, grant.role, grant.user) for grant in first} == {
        ("deploy", None, "admin"), ("trigger", None, "admin"), ("trigger", "night_shift", None),
    }  # fmt: skip
    assert granting.grant(control_plane.admin, "sample", DagRight.DEPLOY, "night_shift", dry_run=True) == first
    assert granting.revoke(control_plane.admin, "sample", DagRight.TRIGGER, Holder(role="night_shift"), dry_run=True) == first
    assert len(granting.revoke(control_plane.admin, "sample", DagRight.TRIGGER, Holder(role="night_shift"))) == 2
    assert control_plane.query("SELECT action, object, detail ->> 'holder' FROM audit WHERE action LIKE '%%grant' ORDER BY id") == [
        ("grant", "sample", "role night_shift"), ("revoke_grant", "sample", "role night_shift"),
    ]  # fmt: skip
    for refused, act in (
        (NotFound, lambda: granting.revoke(control_plane.admin, "sample", DagRight.TRIGGER, Holder(role="night_shift"))),
        (NotFound, lambda: granting.grant(control_plane.admin, "none", DagRight.TRIGGER, "night_shift")),
        (NotFound, lambda: granting.grant(control_plane.admin, "sample", DagRight.TRIGGER, "nobodys")),
        (Invalid, lambda: granting.revoke(control_plane.admin, "sample", DagRight.TRIGGER, Holder())),
        (Invalid, lambda: granting.revoke(control_plane.admin, "sample", DagRight.TRIGGER, Holder(role="a", user="b"))),
    ):
        with pytest.raises(refused):
            act()
