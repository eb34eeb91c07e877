"""`tracelake admin`, `deploy` of another definition, and `dataset pin`, as processes against a real control."""

import json
from pathlib import Path

import pytest
from support.controls import ControlPlane
from support.registries import SAMPLE

from .test_cli import Shell

pytestmark = [pytest.mark.proves("T5.6"), pytest.mark.proves("X.1")]

DEFINITION = SAMPLE.format(name="sample", max_attempts=3)


@pytest.fixture
def shell(control_plane: ControlPlane, api_url: str) -> Shell:
    return Shell(control_plane.control.settings.home, api_url)


def as_somebody(control_plane: ControlPlane, shell: Shell, token: str) -> Shell:
    other = Shell(control_plane.control.settings.home, shell.environment["TRACELAKE_API_URL"])
    other.environment |= {"TRACELAKE_TOKEN": token}
    return other


def test_a_user_is_created_let_in_and_disabled(control_plane: ControlPlane, shell: Shell) -> None:
    assert "would be active, with the role reader. Nothing was changed." in shell("admin", "user", "create", "ada", "--role", "reader", "--dry-run")
    assert [user["name"] for user in shell.json("admin", "user", "list")["items"]] == ["admin"]
    said = shell("admin", "user", "create", "ada", "--role", "reader")
    assert said.startswith("User ada is active, with the role reader.\nCreate a token for this user:\n")
    assert said.splitlines()[2].endswith(" admin token create ada --user ada")
    assert said.splitlines()[3] == "A role reads only the datasets whose read roles name it. Let reader read one:"
    assert said.splitlines()[4].endswith(" admin read-roles set DATASET reader")
    made = shell.json("admin", "token", "create", "laptop", "--user", "ada", "--days", "7")
    assert made["token"].startswith("tl_")
    ada = as_somebody(control_plane, shell, made["token"])
    assert json.loads(ada("dataset", "list", "-o", "json")) == {"items": [], "next": None}
    assert "error [forbidden]" in ada("admin", "user", "list", code=1)
    assert made["token"] not in shell("admin", "token", "list") + shell("admin", "audit") + str(control_plane.query("SELECT * FROM api_token"))
    assert shell.json("admin", "user", "disable", "ada")["disabled_at"] is not None
    control_plane.services.access._remembered.clear()
    assert "error [unauthenticated]" in ada("dataset", "list", code=1)
    assert "is active, with the role reader." in shell("admin", "user", "enable", "ada")
    message, who, how = ada("dataset", "list").splitlines()
    assert message == "You may not read any dataset of org main. A dataset is read by the roles in its read roles, and none names your role (reader)."
    assert who == "An admin lets a role read a dataset:" and how.endswith(" admin read-roles set DATASET reader")
    assert shell("dataset", "list") == "Org main has no datasets yet; deploy a DAG with `tracelake deploy FILE`.\n"
    assert "is revoked" in shell("admin", "token", "revoke", made["id"])
    assert "revoked" in shell("admin", "token", "list", "--all")
    assert made["id"] not in shell("admin", "token", "list")
    assert "error [last_admin]: admin is the only admin" in shell("admin", "user", "disable", "admin", code=1)
    assert "error [last_admin]" in shell("admin", "role", "remove", "admin", "admin", code=1)


def test_an_org_is_created_let_in_and_disabled(control_plane: ControlPlane, shell: Shell) -> None:
    assert shell("admin", "org", "create", "other", "--dry-run") == "Org other would be active, with its admin admin. Nothing was changed.\n"
    made = shell.json("admin", "org", "create", "other", "--admin", "ada")
    assert (made["name"], made["admin"], made["operates"]) == ("other", "ada", False)
    assert shell("admin", "org", "create", "other", "--admin", "ada") == "Org other is active, with its admin ada.\n"
    assert shell("admin", "org", "create", "third").splitlines()[-1].startswith("tl_")
    assert [(org["name"], org["operates"]) for org in shell.json("admin", "org", "list")["items"]] == [("main", True), ("other", False), ("third", False)]
    ada = as_somebody(control_plane, shell, made["token"])
    shell("deploy", "-", stdin=DEFINITION)
    assert "Org other has no datasets yet" in ada("dataset", "list")
    assert "error [not_found]" in ada("dataset", "show", "sample_raw", code=1)
    assert "error [forbidden]" in ada("admin", "org", "list", code=1)
    assert "would be disabled" in shell("admin", "org", "disable", "other", "--dry-run")
    assert "is disabled" in shell("admin", "org", "disable", "other")
    control_plane.services.access._remembered.clear()
    assert "error [unauthenticated]" in ada("dataset", "list", code=1)
    assert "disabled" in shell("admin", "org", "list")
    assert shell("admin", "org", "enable", "other") == "Org other is active.\n"
    assert "Org other has no datasets yet" in ada("dataset", "list")
    assert "error [access_conflict]" in shell("admin", "org", "disable", "main", code=1)
    assert shell.json("admin", "audit")["items"][0]["action"] == "enable_org"


def test_roles_grants_and_read_roles_are_given_shown_and_taken(control_plane: ControlPlane, shell: Shell) -> None:
    shell("deploy", "-", stdin=DEFINITION)
    assert shell("admin", "role", "create", "night_shift") == "Role night_shift is defined.\n"
    shell("admin", "user", "create", "walter")
    assert shell("admin", "role", "add", "night_shift", "walter", "--dry-run") == "User walter would have the role night_shift. Nothing was changed.\n"
    assert shell("admin", "role", "add", "night_shift", "walter").startswith("User walter has the role night_shift.\nA role reads only the datasets whose read roles name it")
    roles = {role["name"]: role for role in shell.json("admin", "role", "list")}
    assert roles["night_shift"] == {"name": "night_shift", "reserved": False, "members": ["walter"]}
    assert {name for name, role in roles.items() if role["reserved"]} == {"admin", "writer", "reader", "auditor"}
    assert shell("admin", "grant", "add", "sample", "trigger", "night_shift", "--dry-run").endswith("Nothing was changed.\n")
    granted = shell("admin", "grant", "add", "sample", "trigger", "night_shift")
    assert granted.startswith("Role night_shift holds the permission trigger on DAG sample.\n")
    assert "user admin (creator)" in granted
    assert [grant["role"] for grant in shell.json("admin", "grant", "list", "sample") if grant["role"]] == ["night_shift"]
    assert "no longer holds" in shell("admin", "grant", "remove", "sample", "trigger", "--role", "night_shift")
    assert "error [not_found]: The role night_shift does not have" in shell("admin", "grant", "remove", "sample", "trigger", "--role", "night_shift", code=1)
    assert shell("admin", "read-roles", "show", "sample_raw") == "sample_raw is read by those who deploy or trigger its DAG, and the admins alone.\n"
    assert "and by the roles night_shift, reader." in shell("admin", "read-roles", "set", "sample_raw", "reader", "night_shift")
    assert shell.json("admin", "read-roles", "show", "sample_raw")["roles"] == ["night_shift", "reader"]
    assert shell.json("admin", "read-roles", "set", "sample_raw")["roles"] == []
    actions = [entry["action"] for entry in shell.json("admin", "audit", "--limit", "4")["items"]]
    assert actions == ["set_read_roles", "set_read_roles", "revoke_grant", "grant"]


WRONG: list[tuple[list[str], int, str]] = [
    (["admin", "user", "create", "no spaces"], 1, "error [malformed]: The request is wrong at name: use a letter or digit, then at most"),
    (["admin", "user", "create", "eve", "--role", "nobodys"], 1, "error [not_found]: Role 'nobodys' was not found"),
    (["admin", "user", "create", "eve", "--issuer", "x"], 1, "error [invalid]: Issuer and subject"),
    (["admin", "user", "disable", "nobody"], 1, "error [not_found]: User 'nobody' was not found"),
    (["admin", "role", "create", "Capital"], 1, "error [malformed]: The request is wrong at name: use a lowercase letter, then at most 62 lowercase"),
    (["admin", "role", "add", "reader", "nobody"], 1, "error [not_found]"),
    (["admin", "token", "create", "x"], 2, "say whose token it is"),
    (["admin", "token", "create", "x", "--user", "admin", "--service"], 2, "say whose token it is"),
    (["admin", "token", "create", "x", "--service"], 1, "error [invalid]: A service's token has one or more scopes"),
    (["admin", "token", "create", "x", "--service", "--scope", "administer"], 1, "error [invalid]: 'administer' is not a valid scope"),
    (["admin", "token", "create", "x", "--worker", "--scope", "read"], 1, "error [invalid]: A worker's token"),
    (["admin", "token", "revoke", "7"], 2, "valid UUID"),
    (["admin", "grant", "add", "none", "trigger", "reader"], 1, "error [not_found]: DAG 'none' was not found"),
    (["admin", "grant", "add", "none", "own", "reader"], 2, "RIGHT"),
    (["admin", "grant", "remove", "none", "trigger"], 2, "name one holder: --role ROLE, --user USER or --service LABEL"),
    (["admin", "grant", "remove", "none", "trigger", "--role", "reader", "--user", "admin"], 2, "name one holder"),
    (["admin", "read-roles", "show", "none"], 1, "error [not_found]: Dataset 'none' was not found"),
    (["admin", "audit", "--token", "x"], 1, "error [malformed]: The page token is not valid"),
    (["dataset", "pin", "none", "--as", "then"], 1, "error [not_found]"),
    (["dataset", "pin", "none", "--as", "Then-1"], 1, "error [malformed]: The request is wrong at name: use a lowercase letter"),
    (["dataset", "unpin", "none"], 1, "error [not_found]: Snapshot 'none' was not found"),
]


def test_an_error_is_one_sentence_with_the_right_exit_code(control_plane: ControlPlane, shell: Shell) -> None:
    before = control_plane.one("SELECT count(*) FROM audit")
    for words, code, said in WRONG:
        assert said in shell(*words, code=code), words
    assert control_plane.one("SELECT count(*) FROM audit") == before


def test_tokens_of_services_and_workers_say_what_they_may(control_plane: ControlPlane, shell: Shell) -> None:
    dry = shell("admin", "token", "create", "board", "--service", "--scope", "read", "--role", "reader", "--dry-run")
    assert dry == "A token board would be created, of a service that may read with the role reader. Nothing was changed.\n"
    said = shell("admin", "token", "create", "board", "--service", "--scope", "read", "--role", "reader").splitlines()
    assert said[0].endswith("(board), of a service that may read with the role reader. It is shown only once:")
    board = as_somebody(control_plane, shell, said[-1])
    assert json.loads(board("dataset", "list", "-o", "json"))["items"] == []
    worker = shell.json("admin", "token", "create", "digger", "--worker", "--pool", "default")
    assert (worker["kind"], worker["pools"]) == ("worker", ["default"])
    assert "of a worker of pool default" in shell("admin", "token", "list")
    words = ("admin", "token", "create", "w", "--worker", "--idempotency-key", "k")
    first = shell.json(*words)
    assert f"error [token_shown_once]: Token {first['id']} was created" in shell(*words, code=1)


def test_datasets_are_searched_and_a_definition_that_makes_the_same_rows_is_the_next_version(control_plane: ControlPlane, shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "dag.yaml"
    file.write_text(DEFINITION)
    shell("deploy", str(file))
    assert [found["name"] for found in shell.json("dataset", "list", "--search", "clean ROWS")["items"]] == ["sample_clean"]
    assert [found["name"] for found in shell.json("dataset", "list", "--layer", "bronze", "--domain", "test", "--owner", "test", "--dag", "sample")["items"]] == ["sample_raw"]
    assert shell("dataset", "list", "--search", "nothing like it") == "No datasets match, or you have no permission to read them.\n"
    page = shell("dataset", "list", "--search", "sample", "--limit", "1")
    message, command = page.splitlines()[-2:]
    assert message == "Next page:"
    assert "--search sample --limit 1 --token" in command
    assert shell("dataset", "snapshots").startswith("No snapshots found")
    file.write_text(DEFINITION.replace("max_attempts: 3", "max_attempts: 5").replace("sample_clean:", "cleansed:"))
    assert "would activate DAG sample as version 2" in shell("deploy", str(file), "--dry-run")
    assert "DAG sample is active as version 2 with 2 jobs." in shell("deploy", str(file))
    assert [found["name"] for found in shell.json("dataset", "list", "--layer", "silver")["items"]] == ["cleansed"]
    file.write_text(DEFINITION.replace("SELECT * FROM input_0", "SELECT id FROM input_0"))
    said = shell("deploy", str(file), code=1)
    assert said.startswith("error [rebuild_needed]: DAG 'sample' is active as version 2, and this definition changes the rows of clean (edited);")
    assert said.count("\n") == 1
