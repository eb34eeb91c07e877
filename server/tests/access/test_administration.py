"""Users, roles and tokens: made, listed, disabled and audited by admins, and by nobody else."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from support.controls import ControlPlane
from support.people import again, begun_and_waiting, service, user

from tracelake.control.access import store
from tracelake.control.access.administration import AccessAdministration, NewTokenRequest
from tracelake.control.access.callers import RESERVED_ROLES
from tracelake.control.database.transactions import DatabaseRole
from tracelake_sdk.access import TokenKind
from tracelake_sdk.errors import (
    AccessConflict,
    Forbidden,
    IdempotencyConflict,
    Invalid,
    LastAdmin,
    NotFound,
    TokenShownOnce,
    TracelakeError,
    Unauthenticated,
)

pytestmark = pytest.mark.proves("T5.6")


@pytest.fixture
def administration(control_plane: ControlPlane) -> AccessAdministration:
    return control_plane.services.administration


def test_the_reserved_roles_are_in_every_org(control_plane: ControlPlane, administration: AccessAdministration):
    roles = administration.list_roles(control_plane.admin)
    assert {role.name for role in roles if role.reserved} == {role.name for role in roles} == set(RESERVED_ROLES)
    assert next(role for role in roles if role.name == "admin").members == ["admin"]


def test_a_user_has_the_rights_of_its_roles_and_no_other(control_plane: ControlPlane, administration: AccessAdministration):
    ada = user(control_plane, "ada", "analysts")
    assert (ada.name, ada.roles, ada.kind) == ("ada", {"analysts"}, TokenKind.USER)
    administration.add_member(control_plane.admin, "writer", "ada")
    administration.remove_member(control_plane.admin, "analysts", "ada")
    assert again(control_plane, ada).roles == {"writer"}
    assert [(one.name, one.roles) for one in administration.list_users(control_plane.admin).items] == [("admin", ["admin"]), ("ada", ["writer"])]


def test_creating_an_existing_one_changes_nothing_and_other_facts_are_refused(control_plane: ControlPlane, administration: AccessAdministration):
    first = administration.create_user(control_plane.admin, "ada", issuer="login.test", subject="a-1", roles=["reader"])
    audited = control_plane.one("SELECT count(*) FROM audit")
    assert administration.create_user(control_plane.admin, "ada", issuer="login.test", subject="a-1", roles=["reader"]) == first
    assert administration.create_role(control_plane.admin, "reader").reserved
    administration.add_member(control_plane.admin, "reader", "ada")
    assert control_plane.one("SELECT count(*) FROM audit") == audited
    for other in ({"issuer": "login.test", "subject": "a-2"}, {}, {"issuer": "login.test", "subject": "a-1", "roles": ["writer"]}):
        with pytest.raises(AccessConflict):
            administration.create_user(control_plane.admin, "ada", **other)
    with pytest.raises(AccessConflict):
        administration.create_user(control_plane.admin, "eve", issuer="login.test", subject="a-1")
    with pytest.raises(Invalid):
        administration.create_user(control_plane.admin, "eve", issuer="login.test")
    with pytest.raises(NotFound):
        administration.create_user(control_plane.admin, "eve", roles=["nobodys"])


def test_a_disabled_user_is_refused_and_an_enabled_one_is_let_in_again(control_plane: ControlPlane, administration: AccessAdministration):
    administration.create_user(control_plane.admin, "ada", roles=["reader"])
    token = administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.USER, "laptop", user="ada")).token or ""
    access = control_plane.services.access
    assert access.authenticate(token).name == "ada"
    assert administration.disable_user(control_plane.admin, "ada").disabled_at is not None
    access._remembered.clear()
    with pytest.raises(Unauthenticated):
        access.authenticate(token)
    assert administration.enable_user(control_plane.admin, "ada").disabled_at is None
    assert access.authenticate(token).name == "ada"


def test_an_org_keeps_an_admin(control_plane: ControlPlane, administration: AccessAdministration):
    for act in (administration.disable_user, lambda caller, name: administration.remove_member(caller, "admin", name)):
        with pytest.raises(LastAdmin):
            act(control_plane.admin, "admin")
    user(control_plane, "ada", "admin")
    administration.disable_user(control_plane.admin, "ada")
    with pytest.raises(LastAdmin):  # a disabled one does not count
        administration.remove_member(control_plane.admin, "admin", "admin")
    administration.enable_user(control_plane.admin, "ada")
    administration.remove_member(control_plane.admin, "admin", "admin")
    assert control_plane.query("SELECT app_user.name FROM role_member JOIN role ON role.id = role_id JOIN app_user ON app_user.id = user_id WHERE role.name = 'admin'") == [("ada",)]


def test_two_admins_who_disable_each_other_leave_one(control_plane: ControlPlane, administration: AccessAdministration):
    ada = user(control_plane, "ada", "admin")
    with ThreadPoolExecutor(1) as pool:
        with control_plane.control.database.transaction("test", role=DatabaseRole.DEFINE) as tx:
            store.lock_access(tx, control_plane.admin.org_id)
            store.disable_user(tx, control_plane.admin.user_id or uuid4())
            other = begun_and_waiting(control_plane, tx, pool, lambda: administration.disable_user(control_plane.admin, ada.name))
        with pytest.raises(LastAdmin):
            other.result(timeout=30)
    assert control_plane.query("SELECT name FROM app_user WHERE disabled_at IS NULL") == [("ada",)]


def test_a_token_is_shown_once_and_stored_as_its_hash(control_plane: ControlPlane, administration: AccessAdministration):
    made = administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.WORKER, "line 1", pools=("default",), expires_in_days=7))
    assert made.token is not None
    assert made.expires_at is not None
    assert control_plane.services.access.authenticate(made.token).pools == {"default"}
    everywhere = str([control_plane.query(f"SELECT * FROM {table}") for table in ("api_token", "audit", "idempotency", "token_role")])
    assert made.token not in everywhere
    listed = administration.list_tokens(control_plane.admin).items
    assert next(one for one in listed if one.id == made.id).pools == ["default"]
    assert not any(hasattr(one, "token") for one in listed)


def test_a_repeated_request_gets_the_id_of_its_token(control_plane: ControlPlane, administration: AccessAdministration):
    wanted = NewTokenRequest(TokenKind.WORKER, "line 1")
    made = administration.create_token(control_plane.admin, wanted, idempotency_key="k")
    with pytest.raises(TokenShownOnce, match=str(made.id)):
        administration.create_token(control_plane.admin, wanted, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.WORKER, "line 2"), idempotency_key="k")
    assert control_plane.one("SELECT count(*) FROM api_token WHERE label LIKE 'line%%'") == 1


def test_a_revoked_token_is_refused_and_listed_only_on_request(control_plane: ControlPlane, administration: AccessAdministration):
    made = administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.USER, "old", user="admin"))
    assert administration.revoke_token(control_plane.admin, made.id).revoked_at is not None
    with pytest.raises(Unauthenticated):
        control_plane.services.access.authenticate(made.token or "")
    assert made.id not in {one.id for one in administration.list_tokens(control_plane.admin).items}
    assert made.id in {one.id for one in administration.list_tokens(control_plane.admin, revoked=True).items}
    with pytest.raises(NotFound):
        administration.revoke_token(control_plane.admin, uuid4())


@pytest.mark.parametrize(
    "wanted",
    [
        NewTokenRequest(TokenKind.USER, "x"),
        NewTokenRequest(TokenKind.USER, "x", user="admin", scopes=("read",)),
        NewTokenRequest(TokenKind.USER, "x", user="admin", roles=("reader",)),
        NewTokenRequest(TokenKind.USER, "x", user="nobody"),
        NewTokenRequest(TokenKind.SERVICE, "x"),
        NewTokenRequest(TokenKind.SERVICE, "x", scopes=("administer",)),
        NewTokenRequest(TokenKind.SERVICE, "x", scopes=("read",), pools=("default",)),
        NewTokenRequest(TokenKind.SERVICE, "x", scopes=("read",), roles=("nobodys",)),
        NewTokenRequest(TokenKind.WORKER, "x", scopes=("read",)),
        NewTokenRequest(TokenKind.WORKER, "x", user="admin"),
    ],
)
def test_a_token_has_what_belongs_to_its_kind_and_nothing_else(control_plane: ControlPlane, administration: AccessAdministration, wanted: NewTokenRequest):
    with pytest.raises((Invalid, NotFound)):
        administration.create_token(control_plane.admin, wanted)


def test_a_dry_run_judges_and_changes_nothing(control_plane: ControlPlane, administration: AccessAdministration):
    user(control_plane, "ada", "reader")
    token = administration.list_tokens(control_plane.admin).items[-1].id
    tables = ("app_user", "role", "role_member", "api_token", "token_role", "audit", "idempotency")
    before = [control_plane.query(f"SELECT * FROM {table}") for table in tables]
    assert administration.create_user(control_plane.admin, "eve", roles=["writer"], dry_run=True).roles == ["writer"]
    assert administration.disable_user(control_plane.admin, "ada", dry_run=True).disabled_at is not None
    assert administration.create_role(control_plane.admin, "friends", dry_run=True).name == "friends"
    assert administration.add_member(control_plane.admin, "writer", "ada", dry_run=True).roles == ["reader", "writer"]
    assert administration.remove_member(control_plane.admin, "reader", "ada", dry_run=True).roles == []
    assert administration.create_token(control_plane.admin, NewTokenRequest(TokenKind.WORKER, "w"), dry_run=True, idempotency_key="k").token is None
    assert administration.revoke_token(control_plane.admin, token, dry_run=True).revoked_at is not None
    with pytest.raises(LastAdmin):
        administration.disable_user(control_plane.admin, "admin", dry_run=True)
    assert [control_plane.query(f"SELECT * FROM {table}") for table in tables] == before


def test_only_admins_administer_and_only_they_and_auditors_read_the_audit_log(control_plane: ControlPlane, administration: AccessAdministration):
    callers = [
        user(control_plane, "wanda", "writer"), user(control_plane, "rex", "reader", "friends"), user(control_plane, "otto", "auditor"),
        service(control_plane, "s", scopes=("read", "operate", "deploy", "define"), roles=("admin",)), control_plane.worker,
    ]  # fmt: skip
    token = administration.list_tokens(control_plane.admin).items[0].id
    before = control_plane.one("SELECT count(*) FROM audit")
    for caller in callers:
        for act in (
            lambda c: administration.create_user(c, "eve"),
            administration.list_users,
            lambda c: administration.disable_user(c, "wanda"),
            lambda c: administration.enable_user(c, "wanda"),
            lambda c: administration.create_role(c, "mine"),
            administration.list_roles,
            lambda c: administration.add_member(c, "admin", c.name),
            lambda c: administration.remove_member(c, "admin", "admin"),
            lambda c: administration.create_token(c, NewTokenRequest(TokenKind.WORKER, "w")),
            administration.list_tokens,
            lambda c: administration.revoke_token(c, token),
            control_plane.services.granting.list_grants,
            lambda c: control_plane.services.reading.read_roles(c, "x"),
        ):
            with pytest.raises(Forbidden):
                act(caller)
    assert control_plane.one("SELECT count(*) FROM audit") == before
    assert administration.audit(callers[2]).items[0].action == "create_token"
    for caller in callers[:2]:
        with pytest.raises(Forbidden):
            administration.audit(caller)


def test_every_act_is_audited_with_who_and_what(control_plane: ControlPlane, administration: AccessAdministration):
    user(control_plane, "ada", "friends")
    administration.add_member(control_plane.admin, "reader", "ada")
    administration.remove_member(control_plane.admin, "reader", "ada")
    administration.disable_user(control_plane.admin, "ada")
    administration.enable_user(control_plane.admin, "ada")
    administration.revoke_token(control_plane.admin, administration.list_tokens(control_plane.admin).items[-1].id)
    first = administration.audit(control_plane.admin, limit=4)
    second = administration.audit(control_plane.admin, limit=4, before=first.items[-1].id)
    assert [entry.action for entry in [*first.items, *second.items]] == [
        "revoke_token", "enable_user", "disable_user", "remove_member", "add_member", "create_token", "create_user", "create_role",
    ]  # fmt: skip
    assert {entry.actor for entry in first.items} == {"admin"}
    assert first.items[3].object == "ada"
    assert first.items[3].detail == {"role": "reader"}


def test_another_org_is_not_administered(control_plane: ControlPlane, administration: AccessAdministration):
    other = uuid4()
    control_plane.query("INSERT INTO org (id, name) VALUES (%s, 'other')", other)
    control_plane.query("INSERT INTO app_user (id, org_id, name, issuer, subject) VALUES (%s, %s, 'eve', 'x', 'eve')", uuid4(), other)
    assert "eve" not in {one.name for one in administration.list_users(control_plane.admin).items}
    for act in (administration.disable_user, lambda caller, name: administration.add_member(caller, "reader", name)):
        with pytest.raises(NotFound):
            act(control_plane.admin, "eve")


def test_a_service_reads_with_its_roles_as_far_as_its_scopes_go(control_plane: ControlPlane):
    reading = service(control_plane, "loader", scopes=("read",), roles=("friends",))
    assert (reading.kind, reading.roles, reading.scopes, reading.user_id) == (TokenKind.SERVICE, {"friends"}, {"read"}, None)
    assert reading.token_id is not None
    with pytest.raises(TracelakeError):
        control_plane.services.deploys.deploy(reading, "name: x")
