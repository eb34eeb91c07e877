"""`tracelake record` and `tracelake kind` on a folder of files, without any system."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tracelake_sdk.cli.actions.repositories import condition_of, spool_of, target_of, target_words, window_of
from tracelake_sdk.cli.main import app
from tracelake_sdk.errors import NotRunning, SettingInvalid
from tracelake_sdk.errors.records import KindUnknown, RepositoryUnavailable
from tracelake_sdk.records import Comparison, MetadataTarget
from tracelake_sdk.records.emitter import Emitter
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

RECORD = {
    "target": {"source_id": "erp", "schema": "sales", "table": "orders"}, "kind": "ingestion_volume", "producer_id": "ingest.v1", "produced_at": "2026-03-02T00:10:00Z",
    "payload": {
        "rows": 10, "bytes": 5, "window_start": "2026-03-01T00:00:00Z", "window_end": "2026-03-02T00:00:00Z", "slice_filter": [], "watermark_before": None, "watermark_after": 7,
    },
}
SHIPMENT = {
    "name": "shipment", "owner": "logistics", "description": "One shipment.",
    "schema": {"type": "object", "properties": {"weight": {"type": "number"}}, "required": ["weight"], "additionalProperties": False},
}


class Cli:
    """Calls commands on one folder of records, with a home of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TRACELAKE_HOME", str(folder / "home"))
        monkeypatch.setenv("TRACELAKE__RECORDS__URL", f"file://{folder / 'records'}")
        self.folder = folder

    def types(self, *words: str, ends_with: int = 0, given: Any = None) -> str:
        answer = CliRunner().invoke(app, list(words), input=json.dumps(given) if given is not None else None)
        assert answer.exit_code == ends_with, (answer.output, answer.exception)
        return answer.output

    def json(self, *words: str, ends_with: int = 0, given: Any = None) -> Any:
        return json.loads(self.types(*words, "-o", "json", ends_with=ends_with, given=given))


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path, monkeypatch)


def _told(rows: int, **more: Any) -> dict[str, Any]:
    return RECORD | {"payload": RECORD["payload"] | {"rows": rows}} | more


@pytest.mark.proves("X.1")
def test_records_are_emitted_and_read(cli: Cli) -> None:
    assert "1 record stored, 0 already known, 0 refused, 0 waiting." in cli.types("record", "emit", "-", "--run", "r:1", given=RECORD)
    assert "0 records stored, 1 already known" in cli.types("record", "emit", "-", "--run", "r:1", given=RECORD)
    assert cli.json("record", "emit", "-", "--run", "r:2", given=[_told(20)])["stored"] == 1
    assert cli.json("record", "latest", "erp/sales/orders", "ingestion_volume")["context"]["tenant"] == "main"
    assert "watermark_after" in cli.types("record", "latest", "erp/sales/orders", "ingestion_volume")
    assert "No record of kind" in cli.types("record", "latest", "erp/sales/orders", "recon_result", ends_with=1)
    assert len(cli.json("record", "history", "erp/sales/orders", "ingestion_volume")["items"]) == 2
    assert len(cli.json("record", "history", "erp/sales/orders", "ingestion_volume", "--window", "2026-03-02..")["items"]) == 0
    assert "erp/sales/orders" in cli.types("record", "targets")
    assert cli.json("record", "targets", "--kind", "recon_result") == []


@pytest.mark.proves("X.1")
def test_a_query_takes_conditions_and_prints_the_next_page(cli: Cli) -> None:
    cli.types("record", "emit", "-", given=[{"record": _told(rows, produced_at=f"2026-03-02T00:0{rows}:00Z"), "context": {"cluster": "c", "workspace": "w", "tenant": "main", "run_id": f"r:{rows}"}} for rows in (1, 2, 3)])
    found = cli.json("record", "query", "--kind", "ingestion_volume", "--where", "payload.rows>=2", "--where", "!payload.files", "--target", "erp/sales/orders")
    assert [item["record"]["payload"]["rows"] for item in found["items"]] == [3, 2]
    page = cli.types("record", "query", "--limit", "2", "--cluster", "c")
    assert "record query --cluster c --limit 2 --page " in page
    token = page.split("--page ")[1].split()[0]
    assert len(cli.json("record", "query", "--limit", "2", "--cluster", "c", "--page", token)["items"]) == 1
    assert cli.json("record", "query", "--of", "payload.rows", "--group-by", "kind")[0]["value"] == 6
    assert "3" in cli.types("record", "query", "--metric", "count", "--group-by", "day")
    assert "No records match" in cli.types("record", "query", "--run", "nobody")
    cli.types("record", "query", "--where", "rows=1", ends_with=2)
    cli.types("record", "query", "--metric", "sum", ends_with=2)


@pytest.mark.proves("X.1")
def test_the_log_is_tailed_from_where_it_was_left(cli: Cli) -> None:
    cli.types("record", "emit", "-", "--run", "r:1", given=RECORD)
    first = json.loads(cli.types("record", "tail", "-o", "json"))
    assert len(first["items"]) == 1
    assert json.loads(cli.types("record", "tail", "-o", "json", "--offset", first["offset"]))["items"] == []
    assert f"--offset {first['offset']}" in cli.types("record", "tail")


@pytest.mark.proves("M2.3")
def test_refused_records_are_reported_and_set_aside(cli: Cli) -> None:
    bad = RECORD | {"payload": {"rows": -1}}
    assert "1 record would be accepted, 1 refused" in cli.types("record", "emit", "-", "--run", "r:1", "--dry-run", given=[RECORD, bad], ends_with=1)
    assert cli.json("record", "query")["items"] == []
    answer = cli.json("record", "emit", "-", "--run", "r:1", given=[RECORD, bad], ends_with=1)
    assert (answer["stored"], answer["refused"], answer["set_aside"][0]["problem"]["code"]) == (1, 1, "record_refused")
    assert "1 record set aside" in cli.types("record", "flush")
    cli.types("record", "emit", "-", given={"not": "a record"}, ends_with=2)


@pytest.mark.proves("M2.3")
def test_what_a_repository_does_not_take_now_waits_and_is_flushed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = str(cli.folder / "spool")
    monkeypatch.setenv("TRACELAKE_TOKEN", "none")
    down = ("--repository", "http://127.0.0.1:9", "--tenant", "main", "--spool", spool)
    answer = cli.json("record", "emit", "-", "--run", "r:1", "--wait", "0.1", *down, given=RECORD)
    assert (answer["stored"], answer["waiting"]) == (0, 1)
    assert "stays" in cli.types("record", "flush", *down, ends_with=1)
    assert cli.json("record", "flush", "--spool", spool)["delivered"]["stored"] == 1
    assert len(cli.json("record", "query", "--run", "r:1")["items"]) == 1


@pytest.mark.proves("M2.3")
def test_what_was_refused_is_listed_with_its_reason_and_sent_again_once_it_is_fixed(cli: Cli) -> None:
    assert "No records are set aside." in cli.types("record", "refused")
    assert "No records were refused." in cli.types("record", "flush", "--refused")
    parcel = RECORD | {"kind": "shipment", "payload": {"weight": 2}}
    cli.types("record", "emit", "-", "--run", "r:1", given=[parcel, RECORD], ends_with=1)
    flushed = cli.types("record", "flush")
    assert "1 record set aside" in flushed and flushed.rstrip().endswith(" record refused")
    listed = cli.types("record", "refused")
    assert "shipment" in listed and "erp/sales/orders" in listed and "r:1" in listed and "kind_unknown" in listed
    assert "record flush --refused" in listed
    assert "0 records stored, 0 already known, 1 refused again." in cli.types("record", "flush", "--refused", ends_with=1)
    cli.types("kind", "register", "-", given=SHIPMENT)
    assert "1 record stored, 0 already known, 0 refused again." in cli.types("record", "flush", "--refused")
    assert cli.json("record", "latest", "erp/sales/orders", "shipment")["record"]["payload"] == {"weight": 2}
    assert cli.json("record", "refused") == {"spool": cli.json("record", "flush")["spool"], "refused": 0, "items": [], "damaged": []}


@pytest.mark.proves("M2.3")
def test_of_many_refused_records_the_newest_are_shown_and_none_goes_to_a_repository_that_is_down(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = ("--spool", str(cli.folder / "spool"))
    for number in (1, 2, 3):
        cli.types("record", "emit", "-", "--run", f"r:{number}", *spool, given=RECORD | {"payload": {"rows": -number}}, ends_with=1)
    listed = cli.types("record", "refused", "--limit", "2", *spool)
    assert "newest of 3 records" in listed and "r:3" in listed and "r:2" in listed and "r:1" not in listed
    assert f"record flush --refused --spool {cli.folder / 'spool'}" in listed
    assert [item["record"]["payload"]["rows"] for item in cli.json("record", "refused", *spool)["items"]] == [-3, -2, -1]
    monkeypatch.setenv("TRACELAKE_TOKEN", "none")
    down = ("--repository", "http://127.0.0.1:9", "--tenant", "main")
    assert "The rest stays in the spool: Nothing answers" in cli.types("record", "flush", "--refused", *down, *spool, ends_with=1)
    answer = cli.json("record", "flush", "--refused", *spool, ends_with=1)
    assert (answer["again"]["refused"], len(answer["set_aside"]), answer["problem"]) == (3, 3, None)
    (cli.folder / "spool" / "refused" / "1.spool.16.damaged").write_bytes(b"?")
    assert "1.spool.16.damaged" in cli.types("record", "refused", *spool)


@pytest.mark.proves("M4.2")
def test_kinds_are_listed_shown_registered_and_evolved(cli: Cli) -> None:
    assert "built in" in cli.types("kind", "list")
    assert "may be registered" in cli.types("kind", "register", "-", "--dry-run", given=SHIPMENT)
    assert "shipment" not in cli.types("kind", "list")
    assert "shipment version 1 is registered" in cli.types("kind", "register", "-", given=SHIPMENT)
    assert "shipment version 1 is registered" in cli.types("kind", "register", "-", given=SHIPMENT)
    schema = SHIPMENT["schema"]
    wider = SHIPMENT | {"schema": schema | {"properties": schema["properties"] | {"boxes": {"type": "integer", "default": 1}}}}
    assert "shipment version 2 may be registered" in cli.types("kind", "evolve", "-", "--check", given=wider)
    assert cli.json("kind", "show", "shipment")["version"] == 1
    assert cli.json("kind", "evolve", "-", given=wider)["version"] == 2
    assert "boxes" in cli.types("kind", "show", "shipment")
    assert "boxes" not in cli.types("kind", "show", "shipment", "--version", "1")
    broken = cli.types("kind", "evolve", "-", "--check", given=SHIPMENT, ends_with=1)
    assert "property_removed" in broken and "payload.boxes" in broken
    assert [one["code"] for one in cli.json("kind", "evolve", "-", "--check", given=SHIPMENT, ends_with=1)["findings"]] == ["property_removed"]
    cli.types("kind", "register", "-", given={"name": "Shipment"}, ends_with=2)
    repository = EmbeddedRepository(f"file://{cli.folder / 'records'}", tenant="main")
    assert repository.kind("shipment").version == 2
    repository.close()


def test_a_target_is_spelt_so_that_it_can_be_typed_again() -> None:
    for key in (("erp", "sales", "orders"), ("a/b", "c d", "e%f"), ("é🙂", "..", "x=y")):
        target = MetadataTarget(source_id=key[0], schema=key[1], table=key[2])
        assert target_of(target_words(target)) == target
    for wrong in ("a/b", "", "a//c", "a/b/c/d"):
        with pytest.raises(typer.BadParameter):
            target_of(wrong)


@pytest.mark.parametrize(("text", "path", "op", "value"), [
    ("payload.rows>=10", "payload.rows", Comparison.GE, 10),
    ("payload.rows<10.5", "payload.rows", Comparison.LT, 10.5),
    ("payload.mode=full", "payload.mode", Comparison.EQ, "full"),
    ('payload.mode="7"', "payload.mode", Comparison.EQ, "7"),
    ("payload.mode!=null", "payload.mode", Comparison.NE, None),
    ('payload.mode=["a","b"]', "payload.mode", Comparison.IN, ["a", "b"]),
    ("payload.sql=a>=b", "payload.sql", Comparison.EQ, "a>=b"),
    ("payload.files", "payload.files", Comparison.EXISTS, True),
    ("!payload.files", "payload.files", Comparison.EXISTS, False),
])
def test_a_condition_is_read_as_it_is_meant(text: str, path: str, op: Comparison, value: Any) -> None:
    condition = condition_of(text)
    assert (condition.path, condition.op, condition.value) == (path, op, value)


def test_a_window_is_half_open_and_in_utc_by_default() -> None:
    window = window_of("2026-03-01..2026-03-02T00:00:00+02:00")
    assert window is not None
    assert str(window.start) == "2026-03-01 00:00:00+00:00"
    assert str(window.end) == "2026-03-01 22:00:00+00:00"
    for wrong in ("2026-03-01", "x..y", "2026-03-02..2026-03-01"):
        with pytest.raises(typer.BadParameter):
            window_of(wrong)


@pytest.mark.proves("X.1")
def test_an_unregistered_kind_is_an_error_and_not_an_empty_answer(cli: Cli) -> None:
    for words in (("query", "--kind"), ("query", "--metric", "count", "--kind"), ("targets", "--kind"), ("tail", "--kind"), ("tail", "--follow", "--kind")):
        answer = CliRunner().invoke(app, ["record", *words, "recon_resutl"])
        assert isinstance(answer.exception, KindUnknown), words
        if "--follow" not in words:
            cli.types("record", *words, "recon_result")


def test_a_history_with_more_records_prints_the_next_page(cli: Cli) -> None:
    cli.types("record", "emit", "-", "--run", "r:1", given=[_told(1, produced_at="2026-03-02T00:00:00Z"), _told(2, producer_id="other.v1")])
    shown = cli.types("record", "history", "erp/sales/orders", "ingestion_volume", "--limit", "1", "--window", "2026-03-01..", "--tenant", "main")
    assert "Next page:" in shown
    words = shlex.split(shown.splitlines()[-1])
    rest = cli.json(*words[words.index("record"):])
    assert [item["record"]["payload"]["rows"] for item in rest["items"]] == [1]
    assert "Next page:" not in cli.types("record", "history", "erp/sales/orders", "ingestion_volume", "--limit", "2")


def test_the_command_that_continues_a_tail_names_the_same_repository(cli: Cli) -> None:
    other = f"file://{cli.folder / 'other'}"
    for run in ("r:1", "r:2"):
        cli.types("record", "emit", "-", "--run", run, "--repository", other, "--tenant", "t", given=RECORD)
    words = shlex.split(cli.types("record", "tail", "--limit", "1", "--kind", "ingestion_volume", "--repository", other, "--tenant", "t").splitlines()[-1])
    [second] = json.loads(cli.types(*words[words.index("record"):], "-o", "json"))["items"]
    assert second["context"]["run_id"] == "r:2"


def test_words_that_would_not_be_heard_are_refused(cli: Cli) -> None:
    assert "--target" in cli.types("record", "query", "--target", "a/b/c", "--source", "d", ends_with=2)
    assert "--page" in cli.types("record", "query", "--metric", "count", "--page", "x", ends_with=2)
    assert "does not exist" in cli.types("record", "flush", "--spool", str(cli.folder / "mistyped"), ends_with=2)


@pytest.mark.parametrize(("words", "said"), [
    (("query", "--where", "rows>3"), "a path such as payload.rows"),
    (("query", "--group-by", "color"), "kind, target, producer_id, day"),
    (("query", "--window", "2026-03-01..later"), "'later' is not a valid time"),
    (("query", "--window", "2026-03-02..2026-03-01"), "not a valid window: a window ends after it starts"),
])
def test_mistyped_input_is_reported_in_words_and_not_in_patterns(cli: Cli, words: tuple[str, ...], said: str) -> None:
    assert said in cli.types("record", *words, ends_with=2)


@pytest.mark.parametrize(("text", "said"), [
    ('{"kind": "x"', "not JSON"),
    ("{}\n{\n", "line 2 is not JSON"),
    ('{\n"kind" 1}', "line 2 column"),
    ('"word"', "not a record: a JSON object is expected"),
    ("[" * 100_000, "not JSON"),
    (json.dumps([RECORD, RECORD | {"producer_id": "ingest"}]), "number 2 of 2 is not a record, and none was emitted: producer_id: write a name"),
    (json.dumps(RECORD | {"produced_at": "2026-03-02T00:10:00"}), "produced_at: a time needs its zone"),
    (json.dumps(RECORD | {"produced": 1}), "produced: unknown field"),
])
def test_input_that_cannot_be_emitted_is_reported_with_its_position(cli: Cli, text: str, said: str) -> None:
    answer = CliRunner().invoke(app, ["record", "emit", "-"], input=text)
    assert (answer.exit_code, said in answer.output) == (2, True), answer.output
    assert cli.json("record", "tail")["items"] == []


def test_a_trial_says_no_where_the_repository_would(cli: Cli) -> None:
    large = RECORD | {"extras": {"note": "x" * (1024 * 1024)}}
    assert "larger than 1024 KiB" in cli.types("record", "emit", "-", "--dry-run", given=large, ends_with=1)
    unknown = cli.types("record", "emit", "-", "--dry-run", given=RECORD | {"kind": "shipment"}, ends_with=1)
    assert f"TRACELAKE_HOME={cli.folder / 'home'}" in unknown  # the command that it names can be pasted


@pytest.mark.proves("M2.3")
def test_what_waits_for_one_folder_never_goes_to_another_of_the_same_relative_name(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = cli.folder / "here", cli.folder / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    mine = spool_of("file:records")
    assert mine == spool_of(f"file://{here}/records") == spool_of("records") == spool_of("file:records/")
    monkeypatch.chdir(there)
    assert spool_of("file:records") != mine
    assert spool_of("https://records.example/") == spool_of("https://records.example")


@pytest.mark.proves("M2.3")
def test_without_an_answer_the_tenant_must_be_given_and_an_invalid_address_blames_no_record(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAKE_TOKEN", "none")
    told = CliRunner().invoke(app, ["record", "emit", "-", "--repository", "http://127.0.0.1:9"], input=json.dumps(RECORD)).exception
    assert isinstance(told, RepositoryUnavailable)
    assert "Nothing was emitted" in told.detail and "--tenant" in told.detail
    asked = CliRunner().invoke(app, ["record", "targets", "--repository", "http://127.0.0.1:9"]).exception
    assert isinstance(asked, RepositoryUnavailable) and "--repository" in asked.detail
    a_file = cli.folder / "file"
    a_file.write_text("")
    for wrong in ("http://[", "http://x:99999", "ftp://x", f"file://{a_file}"):
        refused = CliRunner().invoke(app, ["record", "emit", "-", "--tenant", "main", "--repository", wrong], input=json.dumps(RECORD))
        assert isinstance(refused.exception, SettingInvalid), (wrong, refused.output)


def test_an_interrupted_wait_prints_where_the_records_are(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(emitter: Emitter, timeout: float) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Emitter, "flush", interrupted)
    monkeypatch.setenv("TRACELAKE_TOKEN", "none")
    said = cli.types("record", "emit", "-", "--tenant", "main", "--repository", "http://127.0.0.1:9", given=RECORD, ends_with=130)
    assert "1 waiting" in said and "record flush --repository http://127.0.0.1:9 --tenant main" in said


@pytest.mark.proves("M4.2")
def test_a_version_that_says_nothing_new_is_not_registered(cli: Cli) -> None:
    cli.types("kind", "register", "-", given=SHIPMENT)
    renamed = SHIPMENT | {"renames": {"weight": "kilos"}, "schema": SHIPMENT["schema"] | {"properties": {"kilos": {"type": "number"}}, "required": ["kilos"]}}
    assert "shipment version 2 is registered." in cli.types("kind", "evolve", "-", given=renamed)
    assert "shipment version 2 is already registered. Nothing was changed." in cli.types("kind", "evolve", "-", given=renamed)
    assert cli.json("kind", "evolve", "-", "--check", given=renamed)["version"] == 2
    assert cli.json("kind", "show", "shipment")["version"] == 2
    assert "not a kind: name" in cli.types("kind", "evolve", "-", given={}, ends_with=2)


def test_a_kind_is_shown_with_nested_properties_and_choices(cli: Cli) -> None:
    shown = cli.types("kind", "show", "catalog_diff")
    assert "changes.[].breaking" in shown and "One of table_added, table_removed" in shown


def test_a_word_that_is_not_a_dataset_gets_the_format_of_tables(cli: Cli) -> None:
    answer = CliRunner().invoke(app, ["record", "latest", "orders", "ingestion_volume"]).exception
    assert isinstance(answer, NotRunning) and "SOURCE/SCHEMA/TABLE" in answer.detail
