"""Rules, policies and promotions over HTTP, from the client and from the command line."""

import json
from collections.abc import Iterator
from uuid import UUID, uuid4

import httpx2
import pytest
from support.controls import served
from support.lakes import Lake
from typer.testing import CliRunner

from tracelake_sdk.cli.main import app
from tracelake_sdk.client import Client
from tracelake_sdk.dags import Layer
from tracelake_sdk.errors import Forbidden, Malformed, NotFound, PolicyInvalid, RuleInvalid, TracelakeError
from tracelake_sdk.home import HomeFiles
from tracelake_sdk.rules import RuleMeasurement, RuleScope, Severity
from tracelake_sdk.rules.promotions import Enforcement

DATASET = "sample_raw"


@pytest.fixture
def client(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    token = HomeFiles(lake.control.settings.home).admin_token() or ""
    with served(lake.control) as url, Client(url, token) as client:
        monkeypatch.setenv("TRACELAKE_API_URL", url)
        monkeypatch.setenv("TRACELAKE_TOKEN", token)
        yield client


@pytest.mark.proves("X.1")
def test_the_client_defines_and_reads_what_the_service_has(lake: Lake, client: Client):
    rule = client.rules.add(DATASET, "RANGE", "id in [0, 100)", severity=Severity.WARN, scope=RuleScope.TABLE)
    assert client.rules.list(dataset=DATASET).items == [rule]
    assert client.rules.revise(rule.id, expression="id >= 0").revision == 2
    assert client.rules.deactivate(rule.id).active is False
    assert client.rules.list().items == []
    assert [one.revision for one in client.rules.list(inactive=True).items] == [3]
    [policy] = client.policies.list(layer=Layer.GOLD).items
    assert client.policies.revise(policy.id, enforcement=Enforcement.ALERT).enforcement is Enforcement.ALERT
    assert client.policies.deactivate(policy.id).active is False
    assert client.policies.add(Layer.GOLD, "SCHEMA", "no breaking change").revision == 1
    lake.run()
    lake.write(lake.take_one(), [(1, "a")])
    [decision] = client.promotions.list(dataset=DATASET, allowed=True).items
    assert client.promotions.get(decision.run_id) == client.promotions.get(decision.id) == decision
    assert client.promotions.list(allowed=False).items == []


@pytest.mark.proves("X.1")
def test_what_is_refused_arrives_as_the_class_that_was_raised(lake: Lake, client: Client):
    for error, call in [
        (RuleInvalid, lambda: client.rules.add(DATASET, "RANGE", "id = 5")),
        (RuleInvalid, lambda: client.rules.add(DATASET, "SUM", "id")),
        (PolicyInvalid, lambda: client.policies.add(Layer.GOLD, "PII", "none")),
        (NotFound, lambda: client.rules.add("nowhere", "NOT_NULL", "id")),
        (NotFound, lambda: client.rules.deactivate(uuid4())),
        (NotFound, lambda: client.promotions.get("nothing")),
        (NotFound, lambda: client.promotions.get("a/b?c")),
    ]:
        with pytest.raises(error):
            call()
    worker = HomeFiles(lake.control.settings.home).worker_token()
    with Client(client.api_url, worker) as other, pytest.raises(Forbidden):
        other.rules.list()


MALFORMED: list[tuple[str, str, dict[str, object] | None]] = [
    ("POST", "/v1/rules", {"dataset": DATASET, "type": "NOT_NULL", "expression": "id", "severity": "LOUD"}),
    ("POST", "/v1/rules", {"dataset": DATASET, "type": "NOT_NULL"}),
    ("POST", "/v1/rules", {"dataset": DATASET, "type": "NOT_NULL", "expression": "id", "force": True}),
    ("POST", "/v1/policies", {"layer": "platinum", "type": "SCHEMA", "expression": "no breaking change"}),
    ("POST", "/v1/rules/not-an-id/revise", {}),
    ("GET", "/v1/rules?token=x", None),
    ("GET", "/v1/promotions?token=x", None),
    ("GET", "/v1/promotions?token=99999999999999999999", None),
    ("GET", "/v1/promotions?limit=0", None),
]


@pytest.mark.proves("G2.2")
def test_a_request_that_does_not_fit_is_a_problem_and_no_force_flag_exists(lake: Lake, client: Client):
    token = HomeFiles(lake.control.settings.home).admin_token()
    for method, path, body in MALFORMED:
        answer = httpx2.request(method, client.api_url + path, json=body, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=60)
        assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json"), path
        assert isinstance(TracelakeError.of(answer.json()), Malformed)
    assert client.rules.list().items == []


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.proves("X.1")
def test_the_command_line_walks_a_rule_from_its_first_revision_to_its_last(lake: Lake, client: Client):
    would = run("rule", "add", DATASET, "NOT_NULL", "id", "--dry-run")
    assert would == f"A rule of {DATASET} would be active as revision 1: NOT_NULL id, FAIL, on the batch. Nothing was changed.\n"
    assert "No rules match." in run("rule", "list")
    rule = json.loads(run("rule", "add", DATASET, "NOT_NULL", "id", "-o", "json"))
    assert (rule["dry_run"], rule["dataset_name"], rule["revision"]) == (False, DATASET, 1)
    id = rule["id"]
    assert f"Rule {id} of {DATASET} is active as revision 2: NOT_NULL id, WARN, on the table." in run(
        "rule", "revise", id, "--severity", "WARN", "--scope", "table"
    )
    listed = run("rule", "list", DATASET)
    assert id in listed
    assert "WARN" in listed
    assert f"Rule {id} of {DATASET} is off as revision 3" in run("rule", "off", id)
    assert "No rules match." in run("rule", "list")
    assert id in run("rule", "list", "--all")
    assert isinstance(CliRunner().invoke(app, ["rule", "add", DATASET, "RANGE", "id ="]).exception, RuleInvalid)
    run("rule", "add", DATASET, "SUM", "id", code=2)
    lake.run()
    lake.write(lake.take_one(), [(1, "a")])
    lake.move()
    output = run("rule", "add", DATASET, "UNIQUE", "id, valeu", "--dry-run")
    assert output.endswith(f"The newest version of {DATASET} has no column valeu: a run without this column cannot be measured and is blocked. Did you mean value?\n")


def test_the_command_line_lists_pages_and_prints_the_next_command(client: Client):
    for number in range(3):
        client.rules.add(DATASET, "ROW_COUNT", f">= {number}")
    assert "rule list sample_raw --limit 2 --token " in run("rule", "list", DATASET, "--limit", "2")
    [policy] = json.loads(run("policy", "list", "silver", "-o", "json"))["items"]
    assert "is active as revision 2: SCHEMA no breaking change, ALERT." in run("policy", "revise", policy["id"], "--enforcement", "ALERT")
    assert "would be off as revision 3" in run("policy", "off", policy["id"], "--dry-run")
    assert "is off as revision 3" in run("policy", "off", policy["id"])
    assert "is active as revision 1" in run("policy", "add", "silver", "SCHEMA", "no breaking change")


def test_the_command_line_shows_a_decision_with_what_it_rests_on(lake: Lake, client: Client):
    assert "No decisions match." in run("promotion", "list")
    lake.run()
    task = lake.take_one()
    lake.report(task, lake.measured([lake.stage(task, [(1, "a")])], outside_scope=1))
    listed = run("promotion", "list", DATASET, "--blocked")
    assert "Blocked: 1 of 1 row is outside the declared scope." in listed
    shown = run("promotion", "show", f"{task.payload.task_id}:1")
    for words in ("blocked", "execution", "SCOPE", "fail", "SCHEMA", "not evaluated", "Blocked: 1 of 1 row is outside the declared scope."):
        assert words in shown
    assert "among them" not in shown
    shown = json.loads(run("promotion", "show", f"{task.payload.task_id}:1", "-o", "json"))
    assert (UUID(shown["id"]), shown["allowed"]) == (client.promotions.list().items[0].id, False)


def test_the_command_line_names_some_of_the_rows_that_broke_a_rule(lake: Lake, client: Client):
    rule = client.rules.add(DATASET, "NOT_NULL", "value")
    lake.run()
    task = lake.take_one()
    found = RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=2, examined=2, method="scan", samples=["id=1", "id=2"])
    assert lake.report(task, lake.measured([lake.stage(task, [(1, None), (2, None)])], rules=[found])).result == "blocked"
    shown = run("promotion", "show", f"{task.payload.task_id}:1").splitlines()
    assert shown[-1].endswith("  id=1, id=2")
    assert any(line.endswith("among them") for line in shown)
