"""The bytes of a log entry: the same change, the same bytes; everything a reader needs, and nothing that needs a newer one."""

import dataclasses
import json
import random
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from tracelake.control.commits.log_entries import AddAction, LogChange, LogPart, LogTable, RemoveAction, entry
from tracelake_sdk.datasets.measurements import FileStatistics

DECIDED = datetime(2024, 1, 10, 5, 0, 0, 123456, tzinfo=UTC)
SCHEMA: dict[str, Any] = {"type": "struct", "fields": [
    {"name": "n", "type": "long", "nullable": True, "metadata": {}},
    {"name": "who", "type": {"type": "struct", "fields": [{"name": "name", "type": "string", "nullable": True, "metadata": {}}]}, "nullable": True, "metadata": {}},
    {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}, "nullable": True, "metadata": {}},
    {"name": "raw", "type": "binary", "nullable": True, "metadata": {}},
]}
TABLE = LogTable(UUID(int=7), datetime(2024, 1, 1, tzinfo=UTC), "orders", "Grüße\nund “mehr”")
ADDED = AddAction("t-1/full/1.parquet", 500, 3, FileStatistics(min={"n": 1, "raw": "a"}, max={"n": 9, "raw": "b"}, nulls={"n": 0, "who": 1, "tags": 2, "raw": 0}), DECIDED)
OTHER = AddAction("t-1/full/0.parquet", 10, 0, FileStatistics(), DECIDED)


def change(**parts: Any) -> LogChange:
    given: dict[str, Any] = {
        "table": TABLE, "delta_version": 0, "table_schema": SCHEMA, "schema_changed": False, "adds": (ADDED,), "removes": (), "decided_at": DECIDED,
        "parts": (LogPart(1, "run-1", "decision-1"),),
    }
    return LogChange(**(given | parts))


def actions(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    assert body.endswith(b"\n")
    return [next(iter(json.loads(line).items())) for line in body.decode().splitlines()]


def test_the_first_entry_word_for_word():
    expected = (
        '{"commitInfo":{"engineInfo":"tracelake","isBlindAppend":false,"operation":"WRITE","operationParameters":{"mode":"Append"},"timestamp":1704862800123,'
        '"userMetadata":"{\\"parts\\":[{\\"decision\\":\\"decision-1\\",\\"place\\":1,\\"run\\":\\"run-1\\"}]}"}}\n'
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
        '{"metaData":{"configuration":{"delta.columnMapping.mode":"none","delta.deletedFileRetentionDuration":"interval 36500 days",'
        '"delta.enableDeletionVectors":"false","delta.enableExpiredLogCleanup":"false","delta.logRetentionDuration":"interval 36500 days"},"createdTime":1704067200000,'
        '"format":{"options":{},"provider":"parquet"},"id":"00000000-0000-0000-0000-000000000007","partitionColumns":[],'
        '"schemaString":"{\\"fields\\":[{\\"metadata\\":{},\\"name\\":\\"n\\",\\"nullable\\":true,\\"type\\":\\"long\\"}],\\"type\\":\\"struct\\"}"}}\n'
        '{"add":{"dataChange":true,"modificationTime":1704862800123,"partitionValues":{},"path":"t-1/full/1.parquet","size":500,'
        '"stats":"{\\"maxValues\\":{\\"n\\":9},\\"minValues\\":{\\"n\\":1},\\"nullCount\\":{\\"n\\":0},\\"numRecords\\":3}"}}\n'
    )
    small = {"type": "struct", "fields": SCHEMA["fields"][:1]}
    assert entry(change(table=LogTable(TABLE.id, TABLE.created_at), table_schema=small)).decode() == expected


@pytest.mark.proves("G3.2")
def test_the_same_change_is_the_same_bytes_however_it_was_put_together():
    removes = tuple(RemoveAction(f"t-0/full/{number}.parquet", number) for number in range(9))
    adds = tuple(dataclasses.replace(ADDED, path=f"t-1/full/{number}.parquet") for number in range(9))
    parts = tuple(LogPart(place, f"run-{place}", f"decision-{place}") for place in range(1, 5))
    meant = entry(change(adds=adds, removes=removes, parts=parts))
    chance = random.Random(1)
    for _ in range(20):
        shuffled = {name: tuple(chance.sample(given, len(given))) for name, given in (("adds", adds), ("removes", removes), ("parts", parts))}
        turned = json.loads(json.dumps(SCHEMA), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        elsewhere = DECIDED.astimezone(timezone(timedelta(hours=9)))
        assert entry(change(**shuffled, table_schema=turned, decided_at=elsewhere)) == meant


def test_schema_and_protocol_are_written_only_when_they_change():
    names = [name for name, _ in actions(entry(change()))]
    assert names == ["commitInfo", "protocol", "metaData", "add"]
    assert [name for name, _ in actions(entry(change(delta_version=1)))] == ["commitInfo", "add"]
    assert [name for name, _ in actions(entry(change(delta_version=1, schema_changed=True)))] == ["commitInfo", "metaData", "add"]


def test_an_empty_change_is_an_entry_too():
    assert [name for name, _ in actions(entry(change(delta_version=4, adds=())))] == ["commitInfo"]


def test_rows_are_always_counted_and_a_struct_has_no_statistics_of_its_own():
    found = [json.loads(body["stats"]) for name, body in actions(entry(change(adds=(ADDED, OTHER)))) if name == "add"]
    assert found == [{"numRecords": 0}, {"numRecords": 3, "minValues": {"n": 1}, "maxValues": {"n": 9}, "nullCount": {"n": 0, "tags": 2, "raw": 0}}]


def test_removing_says_when_and_that_the_rows_changed():
    removed = dict(actions(entry(change(delta_version=1, adds=(), removes=(RemoveAction("t-0/full/a.parquet", 7),), operation="REPLACE"))))["remove"]
    assert removed == {"dataChange": True, "deletionTimestamp": 1704862800123, "extendedFileMetadata": True, "partitionValues": {}, "path": "t-0/full/a.parquet", "size": 7}


def test_other_files_with_the_same_rows_are_no_change_of_data():
    body = entry(change(delta_version=1, removes=(RemoveAction("t-0/full/a.parquet", 7),), data_change=False))
    assert [part["dataChange"] for name, part in actions(body) if name in ("add", "remove")] == [False, False]


@pytest.mark.parametrize("parts", [
    {"adds": (ADDED, ADDED)}, {"removes": (RemoveAction("a", 1), RemoveAction("a", 1))}, {"removes": (RemoveAction(ADDED.path, 1),)},
])
def test_a_file_that_is_named_twice_is_refused(parts: Any):
    with pytest.raises(ValueError, match="each file once"):
        entry(change(**parts))


def test_a_bound_that_json_cannot_say_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        entry(change(adds=(dataclasses.replace(ADDED, statistics=FileStatistics(min={"n": float("nan")}, max={"n": 1})),)))


@pytest.mark.proves("G3.1")
def test_an_entry_names_the_decision_and_the_run_of_every_part():
    info = dict(actions(entry(change(parts=(LogPart(2, "run-2", "decision-2"), LogPart(1, "run-1", "decision-1"))))))["commitInfo"]
    assert json.loads(info["userMetadata"]) == {"parts": [{"decision": "decision-1", "place": 1, "run": "run-1"}, {"decision": "decision-2", "place": 2, "run": "run-2"}]}
