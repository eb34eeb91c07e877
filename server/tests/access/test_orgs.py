"""Orgs: made, listed and disabled by the admins of the first one, and nobody of one org reaches another."""

import pytest
from support.controls import ControlPlane
from support.people import service, user

from tracelake.control.access.administration import NewTokenRequest
from tracelake.control.access.callers import RESERVED_ROLES, Caller
from tracelake.control.access.orgs import Orgs
from tracelake_sdk.access import TokenKind
from tracelake_sdk.errors import AccessConflict, Forbidden, Invalid, NotFound, Unauthenticated

pytestmark = [pytest.mark.proves("T5.6"), pytest.mark.proves("T5.4")]

DAG = """
name: theirs
defaults: {domain: d, owner: o}
jobs:
  - name: load
    activation: source
    source: {kind: manual}
    runtime: spark
    operator: ingest_files
    config: {path: nowhere, format: csv}
    outputs: [{layer: bronze, description: Rows as they came}]
    update_strategy: append
    unique_key: [id]
publish:
  theirs_raw: {job: load, output_index: 0}
"""


@pytest.fixture
def orgs(control_plane: ControlPlane) -> Orgs:
    return control_plane.services.orgs


def admin_of(control_plane: ControlPlane, name: str) -> Caller:
    """The first admin of an org that is made here."""
    return control_plane.services.access.authenticate(control_plane.services.orgs.create(control_plane.admin, name, admin="ada").token or "")


def test_a_new_org_has_an_admin_and_everything_that_the_first_one_has(control_plane: ControlPlane, orgs: Orgs):
    ada = admin_of(control_plane, "other")
    assert (ada.org, ada.name, ada.roles) == ("other", "ada", {"admin"})
    administration = control_plane.services.administration
    assert {role.name for role in administration.list_roles(ada)} == set(RESERVED_ROLES)
    assert [one.name for one in administration.list_users(ada).items] == ["ada"]
    policies = [{(policy.policy_type, policy.applies_to_layer) for policy in control_plane.services.guard.list_policies(caller, limit=100).items} for caller in (control_plane.admin, ada)]
    assert policies[0] == policies[1] != set()
    control_plane.services.locations.add(control_plane.admin, "nowhere", "/data/other", org="other")
    assert control_plane.services.deploys.deploy(ada, DAG).version == 1
    assert [org.name for org in orgs.list_orgs(control_plane.admin).items] == ["main", "other"]
    assert [org.operates for org in orgs.list_orgs(control_plane.admin).items] == [True, False]


def test_only_an_admin_of_the_first_org_makes_lists_and_disables_orgs(control_plane: ControlPlane, orgs: Orgs):
    others_admin = admin_of(control_plane, "other")
    nobodies = [others_admin, user(control_plane, "eve", "auditor", "writer"), service(control_plane, "loader", scopes=("read", "define"), roles=("admin",)), control_plane.worker]
    for caller in nobodies:
        for act in (lambda by: orgs.create(by, "third", admin="x"), orgs.list_orgs, lambda by: orgs.disable(by, "other"), lambda by: orgs.enable(by, "other")):
            with pytest.raises(Forbidden):
                act(caller)
    assert [org.name for org in orgs.list_orgs(control_plane.admin).items] == ["main", "other"]


def test_creating_an_existing_one_changes_nothing_and_other_facts_are_refused(control_plane: ControlPlane, orgs: Orgs):
    assert orgs.create(control_plane.admin, "dry", admin="ada", dry_run=True).token is None
    first = orgs.create(control_plane.admin, "other", admin="ada", issuer="login.test", subject="a-1")
    assert first.token is None  # who comes with a JWT needs none
    assert orgs.create(control_plane.admin, "other", admin="ada", issuer="login.test", subject="a-1") == first
    assert [org.name for org in orgs.list_orgs(control_plane.admin).items] == ["main", "other"]
    for other in ({"admin": "ada"}, {"admin": "eve", "issuer": "login.test", "subject": "a-1"}):
        with pytest.raises(AccessConflict):
            orgs.create(control_plane.admin, "other", **other)
    with pytest.raises(Invalid):
        orgs.create(control_plane.admin, "third", admin="ada", issuer="login.test")
    with pytest.raises(NotFound):
        orgs.disable(control_plane.admin, "nowhere")


def test_another_orgs_objects_are_not_there(control_plane: ControlPlane):
    ada = admin_of(control_plane, "other")
    control_plane.services.locations.add(control_plane.admin, "nowhere", "/data/other", org="other")
    control_plane.services.deploys.deploy(ada, DAG)
    asked = (
        lambda caller: control_plane.services.tasks.views.status(caller, "theirs"),
        lambda caller: control_plane.services.explaining.dataset(caller, "theirs_raw"),
        lambda caller: control_plane.services.administration.disable_user(caller, "ada"),
    )
    for ask in asked:
        with pytest.raises(NotFound):
            ask(control_plane.admin)
    for ask in asked[:2]:
        ask(ada)


def test_callers_of_a_disabled_org_are_refused_until_it_is_enabled(control_plane: ControlPlane, orgs: Orgs):
    token = orgs.create(control_plane.admin, "other", admin="ada").token or ""
    access = control_plane.services.access
    ada = access.authenticate(token)
    made = control_plane.services.administration.create_token
    worker = made(ada, NewTokenRequest(TokenKind.WORKER, "theirs")).token or ""
    loader = made(ada, NewTokenRequest(TokenKind.SERVICE, "loader", scopes=("read",))).token or ""
    assert orgs.disable(control_plane.admin, "other", dry_run=True).disabled_at is not None
    assert access.authenticate(worker).org == "other"
    disabled = orgs.disable(control_plane.admin, "other")
    assert disabled.disabled_at is not None
    assert orgs.disable(control_plane.admin, "other") == disabled
    access._remembered.clear()
    for one in (token, worker, loader):
        with pytest.raises(Unauthenticated):
            access.authenticate(one)
    assert access.authenticate(control_plane_token(control_plane)).org == "main"
    assert orgs.enable(control_plane.admin, "other").disabled_at is None
    for one in (token, worker, loader):
        assert access.authenticate(one).org == "other"


def test_the_org_that_operates_is_never_disabled(control_plane: ControlPlane, orgs: Orgs):
    with pytest.raises(AccessConflict, match="operates"):
        orgs.disable(control_plane.admin, "main")


def test_changes_of_an_org_are_audited_in_both_orgs(control_plane: ControlPlane, orgs: Orgs):
    ada = admin_of(control_plane, "other")
    orgs.disable(control_plane.admin, "other")
    orgs.disable(control_plane.admin, "other")
    orgs.enable(control_plane.admin, "other")
    audit = control_plane.services.administration.audit
    wanted = ["enable_org", "disable_org", "create_org"]
    assert [(entry.actor, entry.action, entry.object) for entry in audit(control_plane.admin, limit=3).items] == [("admin", action, "other") for action in wanted]
    assert [(entry.actor, entry.action) for entry in audit(ada).items if entry.action in wanted] == [("main/admin", action) for action in wanted]


def control_plane_token(control_plane: ControlPlane) -> str:
    return control_plane.services.administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.USER, "mine", user="admin")).token or ""
