"""The repository of files under kills: nothing acknowledged is lost, nothing is torn, nothing is there twice, and the index is what a rebuild makes."""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest
from support import record_nursery
from support.processes import LONGEST
from support.record_nursery import CONTEXT, MOMENTS, record_of
from support.sizes import seed, size

from tracelake_sdk.records import Aggregation, RecordFilters, StoredRecord
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

KILLS = size(50, 500)


def _tail(repository: EmbeddedRepository, offset: str | None = None) -> tuple[list[StoredRecord], str]:
    found: list[StoredRecord] = []
    while True:
        page = repository.tail(CONTEXT, offset, limit=500)
        found += page.items
        offset = page.offset
        if not page.items:
            return found, offset


def _everything_holds(folder: Path, acknowledged: list[tuple[int, UUID]]) -> int:
    """What must be true of a folder whose writers have all died; how many records it has."""
    before = EmbeddedRepository(folder, tenant="main")
    tailed_records, _ = _tail(before)
    ids = {stored.record.payload["number"]: stored.id for stored in tailed_records}
    assert len(ids) == len(tailed_records), "something is stored twice"
    lost = [number for number, id in acknowledged if ids.get(number) != id]
    assert not lost, "something acknowledged is lost, or has another id"
    for stored in tailed_records:
        assert stored.record.payload == record_of(stored.record.payload["number"]).payload
    newest = {target.key: before.latest(target, "note", CONTEXT) for target in before.targets(CONTEXT)}

    rebuilt = EmbeddedRepository(folder, tenant="main").rebuild()
    assert rebuilt.as_indexed, "the index is not what a rebuild makes of the files"
    assert (rebuilt.records, rebuilt.logged, rebuilt.repaired) == (len(tailed_records), 0, 0)
    after = EmbeddedRepository(folder, tenant="main")
    assert [stored.id for stored in _tail(after)[0]] == [stored.id for stored in tailed_records]
    assert {target.key: after.latest(target, "note", CONTEXT) for target in after.targets(CONTEXT)} == newest
    files = [path for path in (folder / "records").rglob("*") if path.is_file()]
    assert len(files) == len(tailed_records)
    assert not list(folder.rglob(".*"))
    [counted] = after.aggregate(RecordFilters(), Aggregation(), CONTEXT)
    assert counted.value == len(tailed_records)
    assert {result.result for result in after.bulk_store([stored.record for stored in tailed_records], CONTEXT)} <= {"same"}
    return len(tailed_records)


@pytest.mark.proves("M2.2", "M2.5")
@pytest.mark.timeout(size(300, 2400))
def test_kills_lose_nothing_tear_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    folder, acknowledged = tmp_path / "records", tmp_path / "acknowledged"
    nursery = [sys.executable, record_nursery.__file__, str(folder), str(acknowledged), str(KILLS), str(seed())]
    tailer, tailed, offset = EmbeddedRepository(folder, tenant="main"), [], None
    with subprocess.Popen(nursery, stderr=subprocess.PIPE, text=True) as running:
        while running.poll() is None:  # in parallel: a tailer sees each record once, whichever process dies
            found, offset = _tail(tailer, offset)
            tailed += [stored.id for stored in found]
            time.sleep(0.02)
        errors = running.stderr.read() if running.stderr else ""
    assert (running.returncode, errors) == (0, ""), f"seed {seed()}"
    found, offset = _tail(tailer, offset)
    tailed += [stored.id for stored in found]
    answered = [(int(line.split()[0]), UUID(line.split()[1])) for line in acknowledged.read_text().splitlines()]
    records = _everything_holds(folder, answered)
    print(f"seed {seed()}: {KILLS} kills, {len(answered)} acknowledged, {records} records")
    assert len(answered) > KILLS
    assert max(Counter(tailed).values()) == 1
    assert len(tailed) == records


@pytest.mark.proves("M2.2")
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_named_moment_leaves_a_whole_folder(tmp_path: Path, moment: str) -> None:
    """In the middle of rotation and of writing a snapshot too."""
    folder, acknowledged = tmp_path / "records", tmp_path / "acknowledged"
    with record_nursery.opened(str(folder)) as first:
        first.register(record_nursery.KIND)
    program = f"import random; from pathlib import Path; from support import record_nursery as it; it.live({str(folder)!r}, Path({str(acknowledged)!r}), 1, random.Random({seed()}), {moment!r})"
    ended = subprocess.run([sys.executable, "-c", program], cwd=Path(record_nursery.__file__).parents[1], timeout=LONGEST, check=False, capture_output=True)
    assert ended.returncode == -9, ended.stderr
    answered = [(int(line.split()[0]), UUID(line.split()[1])) for line in acknowledged.read_text().splitlines()] if acknowledged.exists() else []
    assert _everything_holds(folder, answered) >= len({number for number, _ in answered})
