"""`tracelake record` and `tracelake kind` as processes against a real control: the same words as on a folder."""

import json

import pytest
from support.controls import ControlPlane

from .test_cli import Shell

pytestmark = [pytest.mark.proves("M2.3"), pytest.mark.proves("X.1")]

RECORD = json.dumps({
    "target": {"source_id": "wms", "schema": "out", "table": "shipment"}, "kind": "shipment", "producer_id": "dock.v1", "produced_at": "2026-03-01T08:00:00Z",
    "payload": {"kilos": 12.5},
})
KIND = {
    "name": "shipment", "owner": "logistics", "description": "One shipment.",
    "schema": {"type": "object", "properties": {"kilos": {"type": "number"}}, "required": ["kilos"], "additionalProperties": False},
}


@pytest.fixture
def shell(control_plane: ControlPlane, api_url: str) -> Shell:
    return Shell(control_plane.control.settings.home, api_url)


def test_records_and_kinds_of_a_running_system(shell: Shell) -> None:
    assert shell("record", "emit", "-", "--run", "r:0", stdin=RECORD, code=1) == ""
    assert [line["problem"]["code"] for line in shell.json("record", "flush")["set_aside"]] == ["kind_unknown"]
    assert shell("kind", "register", "-", stdin=json.dumps(KIND)) == "shipment version 1 is registered.\n"
    assert shell("record", "emit", "-", "--run", "r:1", stdin=RECORD) == "1 record stored, 0 already known, 0 refused, 0 waiting.\n"
    assert "0 records stored, 1 already known" in shell("record", "emit", "-", "--run", "r:1", stdin=RECORD)
    latest = shell.json("record", "latest", "wms/out/shipment", "shipment")
    assert (latest["record"]["payload"], latest["context"]["tenant"]) == ({"kilos": 12.5}, "main")
    renamed = KIND | {"renames": {"kilos": "weight"}, "schema": KIND["schema"] | {"properties": {"weight": {"type": "number"}}, "required": ["weight"]}}
    assert "may be registered" in shell("kind", "evolve", "-", "--check", stdin=json.dumps(renamed))
    assert shell("kind", "evolve", "-", stdin=json.dumps(renamed)) == "shipment version 2 is registered.\n"
    assert shell.json("record", "history", "wms/out/shipment", "shipment")["items"][0]["record"]["payload"] == {"weight": 12.5}
    assert shell("kind", "evolve", "-", "--check", stdin=json.dumps(KIND), code=1) == ""
    assert shell.json("kind", "show", "shipment")["version"] == 2
    assert shell.json("record", "query", "--where", "payload.weight>12", "--metric", "count")[0]["value"] == 1
    assert [target["table"] for target in shell.json("record", "targets")] == ["shipment"]
    assert len(json.loads(shell("record", "tail", "-o", "json"))["items"]) == 1
    assert "error [tenant_mismatch]" in shell("record", "targets", "--tenant", "another", code=1)


def test_what_was_emitted_while_nothing_answered_is_flushed_when_it_does(shell: Shell) -> None:
    shell("kind", "register", "-", stdin=json.dumps(KIND))
    address = shell.environment["TRACELAKE_API_URL"]
    shell.environment["TRACELAKE_API_URL"] = "http://127.0.0.1:9"
    assert "0 refused, 1 waiting." in shell("record", "emit", "-", "--run", "r:1", "--tenant", "main", "--wait", "0.2", stdin=RECORD)
    shell.environment["TRACELAKE_API_URL"] = address
    assert shell("record", "flush") == "1 record stored, 0 already known, 0 refused.\n"
    assert len(shell.json("record", "query", "--run", "r:1")["items"]) == 1


def test_what_the_service_refused_is_sent_again_when_its_kind_is_registered(shell: Shell) -> None:
    shell("record", "emit", "-", "--run", "r:0", stdin=RECORD, code=1)
    listed = shell.json("record", "refused")
    assert [(line["problem"]["code"], line["record"]["kind"]) for line in listed["items"]] == [("kind_unknown", "shipment")]
    shell("record", "flush", "--refused", code=1)
    assert shell.json("record", "refused")["refused"] == 1
    shell("kind", "register", "-", stdin=json.dumps(KIND))
    assert "1 record stored, 0 already known, 0 refused again." in shell("record", "flush", "--refused")
    assert "No records were refused." in shell("record", "flush", "--refused")
    assert [item["record"]["payload"] for item in shell.json("record", "query", "--run", "r:0")["items"]] == [{"kilos": 12.5}]
