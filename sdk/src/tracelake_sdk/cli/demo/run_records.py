"""The chapter about records: those of the run that made the newest gold version."""

import time

from tracelake_sdk.cli.actions.repositories import opened
from tracelake_sdk.cli.demo.printer import Printer
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.client import Client
from tracelake_sdk.errors import Unavailable
from tracelake_sdk.errors.records import RecordsElsewhere
from tracelake_sdk.records import RecordFilters, StoredRecord
from tracelake_sdk.wording import counted

_PATIENCE = 60.0
_ORDER = ("task_run", "gate_result", "promotion_decision")


def show_records(printer: Printer, client: Client, dataset: str, *, newest: int) -> None:
    """Shows the records of this version of the dataset."""
    printer.chapter("Everything is recorded")
    run = client.datasets.version(dataset, newest).parts[-1].run_id
    sentence = "Every run, every gate result and every decision is also a metadata record that any program can read, here or in another system."
    try:
        with printer.busy("waiting for the records …"):
            records = _records_of(run)
    except RecordsElsewhere as error:
        printer.say(sentence, error.detail)
        return
    printer.say(
        sentence,
        f"{counted(len(records), 'record')} of the run that made {dataset} version {newest}:",
    )
    printer.facts([(stored.record.kind, _words(stored)) for stored in records])
    printer.command(again("record", "query", "--run", run), again("record", "history", dataset, "task_run"), again("log", run))


def _records_of(run: str) -> list[StoredRecord]:
    """Waits for the records, which are emitted shortly after the run ends."""
    deadline = time.monotonic() + _PATIENCE
    with opened(None, None) as (repository, context):
        while time.monotonic() < deadline:
            found = repository.query(RecordFilters(run_id=run), context).items
            if {stored.record.kind for stored in found} >= set(_ORDER):
                return sorted(found, key=_place)
            time.sleep(0.1)
    raise Unavailable(f"The records of run {run} did not arrive in {_PATIENCE:.0f} seconds; see `tracelake record query --run {run}`.")


def _place(stored: StoredRecord) -> tuple[int, str, int]:
    payload = stored.record.payload
    return _ORDER.index(stored.record.kind), payload.get("gate", ""), payload.get("number", 0)


def _words(stored: StoredRecord) -> str:
    payload = stored.record.payload
    match stored.record.kind:
        case "task_run":
            return f"{payload['dag']}/{payload['job']}, attempt {payload['attempt']}: {payload['status']}"
        case "gate_result":
            return f"{payload['gate']} {payload['rule_type']}: {payload['verdict']}"
        case _:
            return f"{payload['from_layer']} to {payload['to_layer']}: {payload['reason']}"
