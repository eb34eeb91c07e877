"""Checkpoints are whole or absent, and nothing depends on one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from support.processes import KILLED, LONGEST
from support.s3_servers import S3Server

from tracelake.control.commits.checkpoints import checkpoint, checkpoint_path
from tracelake.control.commits.log_entries import AddAction, LogChange, LogPart, LogTable, RemoveAction, entry
from tracelake.storage.contract import Storage
from tracelake.storage.delta_schemas import delta_schema
from tracelake.storage.local import LocalStorage
from tracelake.storage.paths import log_entry_path, log_folder, table_location
from tracelake_sdk.datasets.measurements import FileStatistics

LOCATION = table_location(UUID(int=1), UUID(int=2), UUID(int=3))
START = datetime(2024, 1, 10, tzinfo=UTC)
SCHEMA = delta_schema(pa.schema([("n", pa.int64())]))
HINT = f"{log_folder(LOCATION)}/_last_checkpoint"

DYING = """
import sys
from pathlib import Path
from tracelake.chaos import watch_for
from tracelake.control.commits.checkpoints import checkpoint
from tracelake.storage.local import LocalStorage
watch = watch_for(sys.argv[4])
print(checkpoint(LocalStorage(Path(sys.argv[1]), watch), sys.argv[2], int(sys.argv[3]), watch))
"""


def quiet(moment: str) -> None:
    """Nobody dies here."""


def name(version: int) -> str:
    return f"t-{version}/full/1.parquet"


def write(storage: Storage, versions: range) -> None:
    """Each version adds a file and removes the one of three versions before."""
    for version in versions:
        at = START + timedelta(minutes=version)
        added = AddAction(name(version), 100, 1, FileStatistics(min={"n": version}, max={"n": version}, nulls={"n": 0}), at)
        removes = (RemoveAction(name(version - 3), 100),) if version >= 3 else ()
        body = entry(LogChange(LogTable(UUID(int=3), START), version, SCHEMA, False, (added,), removes, at, (LogPart(version + 1, "r", "d"),)))
        storage.put_new(log_entry_path(LOCATION, version), body, at)


def live(version: int) -> set[str]:
    return {name(number) for number in range(max(0, version - 2), version + 1)}


def seen(root: Path, version: int | None = None) -> set[str]:
    """What delta-rs takes for the table's files."""
    prefix = f"{(root / LOCATION)}/"
    return {uri.removeprefix(prefix) for uri in DeltaTable(root / LOCATION, version=version).file_uris()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(root, quiet)


def forget(root: Path, versions: range) -> None:
    """So that only a checkpoint knows of these."""
    for version in versions:
        (root / log_entry_path(LOCATION, version)).unlink()


@pytest.mark.proves("G3.3")
def test_a_checkpoint_equals_the_log(root: Path, storage: LocalStorage):
    write(storage, range(12))
    assert checkpoint(storage, LOCATION, 10, quiet)
    assert json.loads(storage.read(HINT) or b"") == {"size": 13, "version": 10}  # protocol, metadata, 3 files, 8 that are gone
    for version in range(12):
        assert seen(root, version) == live(version)
    forget(root, range(11))
    assert seen(root) == live(11)


def test_the_next_checkpoint_builds_on_the_one_before(root: Path, storage: LocalStorage):
    write(storage, range(5))
    assert checkpoint(storage, LOCATION, 4, quiet)
    forget(root, range(5))
    write(storage, range(5, 10))
    assert checkpoint(storage, LOCATION, 8, quiet)
    assert seen(root) == live(9)


@pytest.mark.parametrize("spoil", [
    lambda storage: storage.delete([HINT]),
    lambda storage: storage.replace(HINT, b"{half"),
    lambda storage: storage.replace(HINT, b"[]"),
    lambda storage: storage.replace(HINT, b'{"version": 900}'),
    lambda storage: storage.delete([checkpoint_path(LOCATION, 4)]),
], ids=["no_hint", "half_a_hint", "another_hint", "a_hint_to_nowhere", "no_checkpoint"])
def test_a_lost_or_broken_earlier_checkpoint_does_not_matter_to_the_next(root: Path, storage: LocalStorage, spoil: Callable[[Storage], None]):
    write(storage, range(10))
    checkpoint(storage, LOCATION, 4, quiet)
    spoil(storage)
    assert checkpoint(storage, LOCATION, 8, quiet)
    assert seen(root) == live(9)


def test_a_missing_entry_makes_no_checkpoint(storage: LocalStorage):
    write(storage, range(3))
    assert not checkpoint(storage, LOCATION, 5, quiet)
    assert not any("checkpoint" in file.path for file in storage.list(LOCATION))


def test_a_storage_that_does_not_answer_makes_no_checkpoint_and_no_error(tmp_path: Path):
    (tmp_path / "lake").write_text("a file where a folder should be")
    assert not checkpoint(LocalStorage(tmp_path / "lake", quiet), LOCATION, 5, quiet)


# In the order of a checkpoint's own put: the hint comes after all of these.
@pytest.mark.proves("G3.2")
@pytest.mark.parametrize(("moment", "there"), [
    ("put:before", False), ("put:temporary_written", False), ("put:linked", True), ("put:folder_synced", True), ("put:answered", True), ("checkpoint:half", True),
])
def test_a_crash_leaves_a_whole_checkpoint_or_none_and_readers_do_not_notice(root: Path, storage: LocalStorage, moment: str, there: bool):
    write(storage, range(12))
    checkpoint(storage, LOCATION, 4, quiet)
    dying = subprocess.run([sys.executable, "-c", DYING, str(root), LOCATION, "10", moment], env=os.environ, check=False, stdin=subprocess.DEVNULL, timeout=LONGEST, capture_output=True)
    assert dying.returncode == KILLED
    assert (storage.read(checkpoint_path(LOCATION, 10)) is not None) == there
    assert json.loads(storage.read(HINT) or b"")["version"] == 4
    for version in (3, 4, 9, 10, 11):
        assert seen(root, version) == live(version)
    assert checkpoint(storage, LOCATION, 10, quiet)
    assert json.loads(storage.read(HINT) or b"")["version"] == 10
    assert pq.read_table(root / checkpoint_path(LOCATION, 10)).num_rows == 13
    assert seen(root) == live(11)


def test_many_at_once_make_one_checkpoint(root: Path, storage: LocalStorage):
    write(storage, range(12))
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: checkpoint(storage, LOCATION, 10, quiet), range(4))) == [True] * 4
    assert seen(root) == live(11)


def test_a_late_old_checkpoint_does_no_harm(root: Path, storage: LocalStorage):
    write(storage, range(12))
    checkpoint(storage, LOCATION, 10, quiet)
    checkpoint(storage, LOCATION, 5, quiet)
    for version in range(12):
        assert seen(root, version) == live(version)


@pytest.mark.xdist_group("s3")
def test_a_checkpoint_on_an_object_store(s3_server: S3Server):
    url = s3_server.fresh_url()
    storage = s3_server.open(url)
    write(storage, range(12))
    assert checkpoint(storage, LOCATION, 5, quiet)
    assert checkpoint(storage, LOCATION, 10, quiet)
    storage.delete([log_entry_path(LOCATION, version) for version in range(11)])
    options = {"aws_endpoint": s3_server.endpoint, "aws_access_key_id": s3_server.access_key_id, "aws_secret_access_key": s3_server.secret_access_key,
               "aws_region": "us-east-1", "aws_allow_http": "true"}
    prefix = f"{url}/{LOCATION}/"
    assert {uri.removeprefix(prefix) for uri in DeltaTable(f"{url}/{LOCATION}", storage_options=options).file_uris()} == live(11)
