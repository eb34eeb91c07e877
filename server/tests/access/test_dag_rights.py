"""Rights on one DAG: granted to roles by admins, held by whoever created it, asked by every act."""

import pytest
from support.controls import NOOP, Desk
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


def acts(desk: Desk, caller: Caller, dag: str, attempts: int) -> dict[str, str]:
    """Every act on a DAG, tried by a caller."""
    services = desk.services
    task = services.tasks.requests.run(desk.admin, dag, "start", {}, idempotency_key=None)
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


def test_rights_say_who_does_what_on_a_dag(desk: Desk):
    wanda, walter = user(desk, "wanda", "writer"), user(desk, "walter", "writer", "night_shift")
    desk.services.deploys.deploy(wanda, text("hers"))
    assert acts(desk, wanda, "hers", 4) == EVERYTHING, "the creator has both rights"
    assert acts(desk, walter, "hers", 5) == NOTHING, "writer gives no right on another's DAG"
    assert acts(desk, desk.admin, "hers", 6) == EVERYTHING
    assert acts(desk, user(desk, "rex", "reader"), "hers", 7) == NOTHING
    assert acts(desk, user(desk, "otto", "auditor"), "hers", 8) == LOOKS, "an auditor sees and does nothing"
    granting = desk.services.granting
    granting.grant(desk.admin, "hers", DagRight.TRIGGER, "night_shift")
    assert acts(desk, walter, "hers", 9) == TRIGGERS
    granting.revoke(desk.admin, "hers", DagRight.TRIGGER, Holder(role="night_shift"))
    assert acts(desk, walter, "hers", 10) == NOTHING
    granting.grant(desk.admin, "hers", DagRight.DEPLOY, "night_shift")
    assert acts(desk, walter, "hers", 11) == DEPLOYS
    granting.revoke(desk.admin, "hers", DagRight.DEPLOY, Holder(user="wanda"))
    assert acts(desk, wanda, "hers", 12) == TRIGGERS, "also the creator's rights are an admin's to take"


def test_lists_show_what_a_caller_has_a_right_on(desk: Desk):
    wanda = user(desk, "wanda", "writer")
    desk.services.deploys.deploy(wanda, text("hers"))
    desk.deploy(name="admins")
    for dag in ("hers", "admins"):
        desk.ask(dag)
    views = desk.services.tasks.views

    def seen(caller: Caller) -> tuple[set[str], set[str]]:
        tasks = views.tasks(caller, dag=None, job=None, state=None, limit=10, before=None).items
        return {dag.name for dag in views.status(caller, None)}, {task.dag for task in tasks}

    assert seen(wanda) == ({"hers"}, {"hers"})
    assert seen(desk.admin) == seen(user(desk, "otto", "auditor")) == ({"hers", "admins"}, {"hers", "admins"})
    assert seen(user(desk, "rex", "reader")) == (set(), set())
    assert views.tasks(wanda, dag="admins", job=None, state=None, limit=10, before=None).items == []


def test_writers_and_admins_create_dags_and_nobody_else(desk: Desk):
    for name, caller, answer in (
        ("a", user(desk, "wanda", "writer"), "yes"),
        ("b", desk.admin, "yes"),
        ("c", user(desk, "rex", "reader", "auditor", "friends"), "forbidden"),
        ("d", service(desk, "s1", scopes=("deploy",), roles=("writer",)), "yes"),
        ("e", service(desk, "s2", scopes=("deploy",), roles=("friends",)), "forbidden"),
        ("f", service(desk, "s3", scopes=("read",), roles=("writer",)), "forbidden"),
    ):
        assert may(desk.services.deploys.deploy, caller, text(name)) == answer, name
    assert {dag for (dag,) in desk.query("SELECT name FROM dag")} == {"a", "b", "d"}


def test_a_service_that_created_a_dag_has_both_rights_within_its_scopes(desk: Desk):
    made = service(desk, "ci", scopes=("deploy", "operate", "read"), roles=("writer",))
    desk.services.deploys.deploy(made, text("built"))
    assert acts(desk, made, "built", 4) == EVERYTHING
    grants = desk.services.granting.list_grants(desk.admin, "built")
    assert {(grant.right, grant.service, grant.user, grant.role) for grant in grants} == {(right, "ci", None, None) for right in DagRight}
    narrow = Caller(made.org_id, made.org, made.kind, made.name, made.roles, frozenset({"read"}), token_id=made.token_id)
    with pytest.raises(Forbidden):
        desk.services.tasks.requests.run(narrow, "built", "start", {}, idempotency_key=None)
    desk.services.granting.revoke(desk.admin, "built", DagRight.TRIGGER, Holder(service="ci"))
    with pytest.raises(Forbidden):
        desk.services.tasks.requests.run(made, "built", "start", {}, idempotency_key=None)


def test_a_role_that_is_lost_takes_its_rights_with_it(desk: Desk):
    walter = user(desk, "walter", "night_shift", "reader")
    desk.deploy()
    desk.services.granting.grant(desk.admin, "sample", DagRight.TRIGGER, "night_shift")
    desk.services.tasks.requests.run(walter, "sample", "start", {}, idempotency_key=None)
    desk.services.administration.remove_member(desk.admin, "night_shift", "walter")
    with pytest.raises(NotFound):
        desk.services.tasks.requests.run(again(desk, walter), "sample", "start", {}, idempotency_key=None)


def test_grants_are_listed_audited_and_granted_twice_are_granted_once(desk: Desk):
    granting = desk.services.granting
    desk.services.administration.create_role(desk.admin, "night_shift")
    desk.deploy()
    first = granting.grant(desk.admin, "sample", DagRight.TRIGGER, "night_shift")
    assert granting.grant(desk.admin, "sample", DagRight.TRIGGER, "night_shift") == first
    assert {(grant.right.value, grant.role, grant.user) for grant in first} == {
        ("deploy", None, "admin"), ("trigger", None, "admin"), ("trigger", "night_shift", None),
    }  # fmt: skip
    assert granting.grant(desk.admin, "sample", DagRight.DEPLOY, "night_shift", dry_run=True) == first
    assert granting.revoke(desk.admin, "sample", DagRight.TRIGGER, Holder(role="night_shift"), dry_run=True) == first
    assert len(granting.revoke(desk.admin, "sample", DagRight.TRIGGER, Holder(role="night_shift"))) == 2
    assert desk.query("SELECT action, object, detail ->> 'holder' FROM audit WHERE action LIKE '%%grant' ORDER BY id") == [
        ("grant", "sample", "role night_shift"), ("revoke_grant", "sample", "role night_shift"),
    ]  # fmt: skip
    for refused, act in (
        (NotFound, lambda: granting.revoke(desk.admin, "sample", DagRight.TRIGGER, Holder(role="night_shift"))),
        (NotFound, lambda: granting.grant(desk.admin, "none", DagRight.TRIGGER, "night_shift")),
        (NotFound, lambda: granting.grant(desk.admin, "sample", DagRight.TRIGGER, "nobodys")),
        (Invalid, lambda: granting.revoke(desk.admin, "sample", DagRight.TRIGGER, Holder())),
        (Invalid, lambda: granting.revoke(desk.admin, "sample", DagRight.TRIGGER, Holder(role="a", user="b"))),
    ):
        with pytest.raises(refused):
            act()
