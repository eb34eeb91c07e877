"""Who calls: tokens, JWTs, orgs."""

import json
import stat
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as generate_rsa_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.controls import NOOP, ControlPlane, running_control, settings_for, succeeded
from support.databases import StateDatabase

from tracelake.control.access import store
from tracelake.control.access.callers import Caller, Permission, TokenKind
from tracelake.control.access.signed_tokens import issuer, issuers_of
from tracelake.control.access.tokens import new_token, token_sha256
from tracelake.control.database.transactions import DatabaseRole
from tracelake.settings import AccessSettings
from tracelake_sdk.errors import Forbidden, NotFound, SettingInvalid, Unauthenticated
from tracelake_sdk.home import HomeFiles


def pem(key) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


KEY = Ed25519PrivateKey.generate()


def claims(**changed) -> dict:
    return {"iss": "login.test", "aud": "tracelake", "sub": "ada", "exp": time.time() + 300} | changed


@pytest.fixture
def signed(database: StateDatabase, tmp_path):
    """A control that believes one issuer, whose `ada` is the first admin."""
    access = {
        "issuers": [{"issuer": "login.test", "audience": "tracelake", "public_key": pem(KEY)}],
        "admin_issuer": "login.test",
        "admin_subject": "ada",
    }
    with running_control(settings_for(database, tmp_path / "home", access=access), database) as control_plane:
        yield control_plane


@pytest.mark.proves("T5.4")
def test_a_jwt_says_who_and_postgres_says_org_and_roles(signed: ControlPlane):
    forged_rights = claims(org="other", roles=["auditor"], scope="everything")
    caller = signed.services.access.authenticate(jwt.encode(forged_rights, KEY, algorithm="EdDSA"))
    assert (caller.org, caller.name, caller.roles, caller.kind) == ("main", "ada", frozenset({"admin"}), TokenKind.USER)


@pytest.fixture
def two_orgs(database: StateDatabase, tmp_path) -> Iterator[ControlPlane]:
    """One issuer for two orgs, each with an audience of its own."""
    known = {"issuer": "login.test", "public_key": pem(KEY)}
    access = {"issuers": [known | {"audience": "tracelake"}, known | {"audience": "tracelake-other", "org": "other"}]}
    with running_control(settings_for(database, tmp_path / "home", access=access), database) as control_plane:
        yield control_plane


def comes_as(control_plane: ControlPlane, **changed: object) -> tuple[str, str]:
    caller = control_plane.services.access.authenticate(jwt.encode(claims(**changed), KEY, algorithm="EdDSA"))
    return caller.org, caller.name


@pytest.mark.proves("T5.4")
def test_an_identity_that_an_org_writes_down_first_is_not_taken_from_another(two_orgs: ControlPlane):
    services = two_orgs.services
    eve = services.access.authenticate(services.orgs.create(two_orgs.admin, "other", admin="eve").token or "")
    services.administration.create_user(eve, "mine", issuer="login.test", subject="ada", roles=["reader"])
    with pytest.raises(Unauthenticated):  # the audience is of the org that operates, which does not know ada yet
        comes_as(two_orgs, sub="ada")
    services.administration.create_user(two_orgs.admin, "ada", issuer="login.test", subject="ada", roles=["writer"])
    assert comes_as(two_orgs, sub="ada") == ("main", "ada")
    assert comes_as(two_orgs, sub="ada", aud="tracelake-other") == ("other", "mine")
    with pytest.raises(Unauthenticated, match="several orgs"):
        comes_as(two_orgs, sub="ada", aud=["tracelake", "tracelake-other"])


def test_an_issuer_with_one_audience_is_for_one_org():
    known = {"issuer": "login.test", "audience": "tracelake", "public_key": pem(KEY)}
    with pytest.raises(SettingInvalid, match="its own audience"):
        issuers_of(AccessSettings.model_validate({"issuers": [known, known | {"org": "other"}]}))


@pytest.mark.proves("T5.4")
@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "somebody.else"},
        {"aud": "another"},
        {"exp": 1_700_000_000},
        {"sub": "nobody"},
        {"iss": None},
        {"aud": None},
        {"sub": None},
        {"exp": None},
        {"nbf": 99_999_999_999},
        {"iss": 5},
    ],
)
def test_a_jwt_that_lacks_something_is_refused(signed: ControlPlane, changed: dict):
    body = {key: value for key, value in claims(**changed).items() if value is not None}
    token = jwt.api_jws.encode(json.dumps(body).encode(), KEY, algorithm="EdDSA")
    with pytest.raises(Unauthenticated) as refused:
        signed.services.access.authenticate(token)
    assert token not in refused.value.detail


@pytest.mark.proves("T5.4")
def test_a_jwt_of_another_key_or_algorithm_is_refused(signed: ControlPlane):
    other = Ed25519PrivateKey.generate()
    unsigned = jwt.encode(claims(), key="", algorithm="none")
    confused = jwt.encode(claims(), key="x" * 64, algorithm="HS256")
    for token in (jwt.encode(claims(), other, algorithm="EdDSA"), unsigned, confused):
        with pytest.raises(Unauthenticated):
            signed.services.access.authenticate(token)


def test_weak_and_unknown_keys_are_refused_at_the_start():
    for key in (pem(generate_rsa_key(65537, 1024)), "no key at all"):
        with pytest.raises(SettingInvalid):
            issuer("i", "a", key)
    assert issuer("i", "a", pem(generate_private_key(SECP256R1()))).algorithm == "ES256"
    assert issuer("i", "a", pem(generate_rsa_key(65537, 2048))).algorithm == "RS256"


@pytest.mark.proves("T5.4")
def test_disabled_users_and_revoked_or_expired_tokens_are_refused(control_plane: ControlPlane):
    access = control_plane.services.access
    token = HomeFiles(control_plane.control.settings.home).admin_token() or ""
    for change, undo in (
        ("UPDATE app_user SET disabled_at = now()", "UPDATE app_user SET disabled_at = NULL"),
        ("UPDATE api_token SET revoked_at = now()", "UPDATE api_token SET revoked_at = NULL"),
        ("UPDATE api_token SET expires_at = now() - interval '1 second'", "UPDATE api_token SET expires_at = NULL"),
    ):
        control_plane.query(change)
        access._remembered.clear()
        with pytest.raises(Unauthenticated):
            access.authenticate(token)
        control_plane.query(undo)
        assert access.authenticate(token).name == "admin"


@pytest.mark.proves("T5.4")
def test_another_orgs_objects_do_not_exist(control_plane: ControlPlane):
    control_plane.deploy(NOOP)
    task = control_plane.run_source()
    [claimed] = control_plane.claim()
    token = new_token()
    with control_plane.control.database.transaction("test", role=DatabaseRole.DEFINE) as tx:
        other = store.add_org(tx, "other")
        user = store.add_user(tx, org=other, name="eve", issuer="x", subject="eve")
        store.add_role(tx, org=other, name="admin")
        store.add_member(tx, org=other, role="admin", user=user)
        store.add_token(tx, org=other, kind=TokenKind.USER, user=user, label="eve", sha256=token_sha256(token))
    eve = control_plane.services.access.authenticate(token)
    services = control_plane.services
    for ask in (
        lambda: services.tasks.views.task(eve, task),
        lambda: services.tasks.views.status(eve, "sample"),
        lambda: services.tasks.cancels.cancel(eve, task),
        lambda: services.tasks.pauses.pause(eve, "sample", None),
        lambda: services.tasks.requests.run(eve, "sample", "start", {}, idempotency_key=None),
        lambda: services.tasks.claims.fetch(Caller(other, "other", TokenKind.WORKER, "w"), task),
    ):
        with pytest.raises(NotFound):
            ask()
    for page in (
        services.tasks.views.tasks(eve, dag=None, job=None, state=None, limit=10, before=None),
        services.tasks.views.events(eve, dag=None, job=None, producer=None, limit=10, before=None),
        services.tasks.views.runs(eve, dag=None, job=None, status=None, limit=10, before=None),
    ):
        assert page.items == []
    assert services.tasks.views.status(eve, None) == []
    [stale] = services.tasks.completions.complete(Caller(other, "other", TokenKind.WORKER, "w"), [succeeded(claimed)])
    assert stale.code == "stale_attempt"
    assert control_plane.one("SELECT state FROM task") == "running"


def test_rights_come_from_roles_and_scopes():
    org = uuid4()
    for roles, right, may in (
        ({"reader"}, Permission.READ, True), ({"friends"}, Permission.READ, True), (set(), Permission.READ, False), (set(), Permission.OPERATE, False),
        ({"writer"}, Permission.CREATE, True), ({"admin"}, Permission.CREATE, True), ({"reader", "auditor", "friends"}, Permission.CREATE, False),
        ({"admin"}, Permission.DEFINE, True), ({"writer"}, Permission.DEFINE, False), ({"auditor"}, Permission.AUDIT, True), ({"writer"}, Permission.AUDIT, False),
        ({"admin"}, Permission.ADMINISTER, True), ({"writer", "reader", "auditor"}, Permission.ADMINISTER, False),
    ):  # fmt: skip
        caller = Caller(org, "main", TokenKind.USER, "x", frozenset(roles))
        assert allowed(caller, right) is may
    assert allowed(Caller(org, "main", TokenKind.SERVICE, "x", scopes=frozenset({"read"})), Permission.READ)
    assert not allowed(Caller(org, "main", TokenKind.SERVICE, "x", scopes=frozenset({"read"})), Permission.OPERATE)
    deployer = Caller(org, "main", TokenKind.SERVICE, "x", frozenset({"writer"}), frozenset({"deploy"}))
    assert allowed(deployer, Permission.CREATE)
    assert not allowed(replace(deployer, roles=frozenset({"friends"})), Permission.CREATE)
    assert not allowed(replace(deployer, scopes=frozenset({"read"})), Permission.CREATE)
    assert not allowed(Caller(org, "main", TokenKind.SERVICE, "x", frozenset({"admin"}), frozenset({"define"})), Permission.ADMINISTER)
    assert not allowed(Caller(org, "main", TokenKind.WORKER, "x"), Permission.READ)


def allowed(caller: Caller, right: Permission) -> bool:
    try:
        caller.require(right)
    except Forbidden:
        return False
    return True


@pytest.mark.proves("X.2")
def test_the_first_start_makes_an_admin_and_keeps_the_tokens_to_their_owner(control_plane: ControlPlane, database: StateDatabase):
    files = HomeFiles(control_plane.control.settings.home)
    assert stat.S_IMODE(files.credentials.stat().st_mode) == 0o600
    assert control_plane.admin.roles == {"admin"}
    stored = str(control_plane.query("SELECT * FROM api_token")) + str(control_plane.query("SELECT * FROM audit"))
    assert (files.admin_token() or "x") not in stored
    with running_control(settings_for(database, control_plane.control.settings.home), database) as second:
        assert second.admin == control_plane.admin
    assert control_plane.one("SELECT count(*) FROM org") == 1


def test_tokens_that_a_crash_left_in_the_file_become_valid_at_the_next_start(database: StateDatabase, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    kept = {"admin_token": new_token(), "worker_token": new_token()}
    HomeFiles(home).credentials.write_text(json.dumps(kept))
    with running_control(settings_for(database, home), database) as control_plane:
        assert control_plane.services.access.authenticate(kept["admin_token"]).name == "admin"


def test_a_revoked_token_of_the_query_process_is_replaced_by_the_next_start(database: StateDatabase, tmp_path):
    settings = settings_for(database, tmp_path / "home")
    files = HomeFiles(settings.home)
    with running_control(settings, database) as control_plane:
        revoked = files.query_token() or ""
        control_plane.query("UPDATE api_token SET revoked_at = now() WHERE label = 'query process'")
    with running_control(settings, database) as control_plane:
        token = files.query_token() or ""
        assert token != revoked and control_plane.services.access.authenticate(token).scopes == frozenset({Permission.PIN})
        assert control_plane.services.access.authenticate(files.admin_token() or "").kind is TokenKind.USER
        with pytest.raises(Unauthenticated):
            control_plane.services.access.authenticate(revoked)
