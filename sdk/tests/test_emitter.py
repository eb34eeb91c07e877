"""The emitter: on disk before it returns, in the repository once it answers, and nothing refused is in the way."""

import asyncio
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tracelake_sdk.errors import OutcomeUnknown, TooLarge, TracelakeError, Unauthenticated
from tracelake_sdk.errors.records import RepositoryUnavailable, SpoolFull
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters, StoreResult
from tracelake_sdk.records.builders import RecordBuilder, in_run
from tracelake_sdk.records.emitter import Emitter, flush_folder, set_aside
from tracelake_sdk.records.emitter.delivery import Delivered, Delivery, NotAccepting
from tracelake_sdk.records.emitter.refusals import RefusedFile
from tracelake_sdk.records.emitter.segments import START, Segment, framed
from tracelake_sdk.testing import MemoryRepository

CONTEXT = in_run(MetadataContext(cluster="c", workspace="w", tenant="main"), job="load", run="r", attempt=1)
BUILDER = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")
LONG = 60.0


def _record(number: int) -> MetadataRecord:
    return BUILDER.ingestion_volume(rows=number, bytes=None, conditions=[("n", "eq", number)])


def _poisoned() -> MetadataRecord:
    return BUILDER.record("ingestion_volume", {"rows": -1})


class Faulty(MemoryRepository):
    """A repository that may be down, lose an answer after it stored, or break over a record."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[Sequence[MetadataRecord]], None] = lambda records: None
        self.after: Callable[[], None] = lambda: None
        self.batches: list[int] = []

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        self.before(records)
        results = super().bulk_store(records, context)
        self.batches.append(len(records))
        self.after()
        return results

    def rows(self) -> list[int]:
        """In the order in which they were accepted."""
        return [stored.record.payload["rows"] for stored in self.tail(CONTEXT, limit=100_000).items]


def _down(_: Sequence[MetadataRecord]) -> None:
    raise RepositoryUnavailable


def _nothing(_: Sequence[MetadataRecord]) -> None:
    return None


@pytest.mark.proves("M2.3")
def test_what_is_emitted_arrives_in_order_and_in_batches(tmp_path: Path) -> None:
    repository = Faulty()
    gate = threading.Event()

    def waits(_: Sequence[MetadataRecord]) -> None:
        assert gate.wait(LONG)

    repository.before = waits
    with Emitter(repository, tmp_path) as emitter:
        for number in range(2000):
            emitter.emit(_record(number), CONTEXT)
        gate.set()
        assert emitter.flush(LONG)
        assert emitter.status().stored == 2000
    assert repository.rows() == list(range(2000))
    assert len(repository.batches) <= 6
    assert not list(tmp_path.iterdir())


@pytest.mark.proves("M2.3")
def test_an_emit_neither_waits_for_the_repository_nor_fails_with_it(tmp_path: Path) -> None:
    repository = Faulty()
    repository.before = _down
    emitter = Emitter(repository, tmp_path)
    for number in range(10):
        emitter.emit(_record(number), CONTEXT)
    assert not emitter.flush(0.05)
    until = time.monotonic() + LONG
    while (status := emitter.status()).problem is None and time.monotonic() < until:
        time.sleep(0.01)
    assert (status.waiting, status.stored) == (10, 0)
    assert status.problem is not None
    assert status.problem["code"] == "repository_unavailable"
    repository.before = _nothing
    assert emitter.flush(LONG)
    assert repository.rows() == list(range(10))
    assert emitter.status().problem is None
    emitter.close()


@pytest.mark.proves("M2.3")
@pytest.mark.parametrize("error", [RepositoryUnavailable(), OutcomeUnknown(), Unauthenticated(), OSError("disk"), TracelakeError("internal"), ValueError("a bug")])
def test_a_failure_that_passes_loses_nothing_and_stores_nothing_twice(error: Exception, tmp_path: Path) -> None:
    repository = Faulty()
    failures = iter(range(2))

    def fails_after_storing() -> None:
        if next(failures, None) is not None:
            raise error

    repository.after = fails_after_storing
    emitter = Emitter(repository, tmp_path)
    for number in range(50):
        emitter.emit(_record(number), CONTEXT)
    assert emitter.flush(LONG)
    assert repository.rows() == list(range(50))
    assert not set_aside(tmp_path)
    emitter.close()


@pytest.mark.proves("M2.3")
def test_what_is_refused_or_conflicts_is_set_aside_with_its_problem_and_blocks_nothing(tmp_path: Path) -> None:
    repository = Faulty()
    conflicting = BUILDER.ingestion_volume(rows=3, bytes=999, conditions=[("n", "eq", 3)])
    unknown = BUILDER.record("no_such_kind", {})
    strange = CONTEXT.model_copy(update={"tenant": "another"})
    with Emitter(repository, tmp_path) as emitter:
        for number in range(5):
            emitter.emit(_record(number), CONTEXT)
        for bad, context in ((_poisoned(), CONTEXT), (conflicting, CONTEXT), (unknown, CONTEXT), (_record(99), strange)):
            emitter.emit(bad, context)
        emitter.emit(_record(5), CONTEXT)
        assert emitter.flush(LONG)
        status = emitter.status()
        assert (status.stored, status.refused, status.waiting) == (6, 4, 0)
    assert repository.rows() == list(range(6))
    found = set_aside(tmp_path)
    assert [line.problem["code"] for line in found] == ["record_refused", "record_conflict", "kind_unknown", "tenant_mismatch"]
    assert MetadataRecord.model_validate(found[1].record) == conflicting
    assert MetadataContext.model_validate(found[3].context) == strange


def test_a_record_that_breaks_the_repository_is_found_and_set_aside(tmp_path: Path) -> None:
    repository = Faulty()

    def breaks(records: Sequence[MetadataRecord]) -> None:
        if any(record.payload["rows"] == 7 for record in records):
            raise ValueError("a bug")

    repository.before = breaks
    segment = Segment.create(tmp_path / "x.1.spool", fsync=False)
    for number in range(20):
        segment.append(framed(CONTEXT.model_dump_json().encode(), _record(number).model_dump_json().encode()), fsync=False)
    delivery, total = Delivery(repository, RefusedFile(tmp_path, "x")), Delivered()
    for _ in range(60):
        try:
            total += delivery.run_once(segment)
        except NotAccepting:
            continue
    assert total == Delivered(entries=20, stored=19, refused=1)
    assert [line.record["payload"]["rows"] for line in set_aside(tmp_path)] == [7]


def test_a_record_that_breaks_the_repository_does_not_block_others(tmp_path: Path) -> None:
    repository = Faulty()
    repository.before = _down
    first = Emitter(repository, tmp_path)
    for number in (6, 7, 8):
        first.emit(_record(number), CONTEXT)
    first.close(LONG)

    def breaks(records: Sequence[MetadataRecord]) -> None:
        if any(record.payload["rows"] == 7 for record in records):
            raise ValueError("a bug")

    repository.before = breaks
    with Emitter(repository, tmp_path) as second:
        second.emit(_record(9), CONTEXT)
        assert second.flush(LONG)
    assert repository.rows() == [6, 8, 9]
    assert [line.record["payload"]["rows"] for line in set_aside(tmp_path)] == [7]


def test_a_batch_that_is_too_large_is_sent_in_parts(tmp_path: Path) -> None:
    repository = Faulty()

    def small(records: Sequence[MetadataRecord]) -> None:
        if len(records) > 30:
            raise TooLarge

    repository.before = small
    with Emitter(repository, tmp_path) as emitter:
        for number in range(200):
            emitter.emit(_record(number), CONTEXT)
        assert emitter.flush(LONG)
    assert repository.rows() == list(range(200))
    assert not set_aside(tmp_path)


@pytest.mark.proves("M2.3")
def test_only_a_full_spool_is_the_callers_error_and_room_comes_back(tmp_path: Path) -> None:
    repository = Faulty()
    repository.before = _down
    emitter = Emitter(repository, tmp_path, most_bytes=3000)
    taken = 0
    with pytest.raises(SpoolFull):
        for number in range(100):
            emitter.emit(_record(number), CONTEXT)
            taken += 1
    assert 1 < taken < 10
    repository.before = _nothing
    assert emitter.flush(LONG)
    emitter.emit(_record(taken), CONTEXT)
    assert emitter.flush(LONG)
    assert repository.rows() == list(range(taken + 1))
    emitter.close()


def test_a_folder_that_cannot_be_written_is_a_full_spool(tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    emitter = Emitter(MemoryRepository(), folder, segment_bytes=1)
    emitter.emit(_record(0), CONTEXT)
    assert emitter.flush(LONG)
    shutil.rmtree(folder)
    with pytest.raises(SpoolFull, match="No such file"):
        emitter.emit(_record(1), CONTEXT)
    emitter.close()
    (tmp_path / "file").touch()
    with pytest.raises(SpoolFull, match="File exists"):
        Emitter(MemoryRepository(), tmp_path / "file").emit(_record(1), CONTEXT)


@pytest.mark.proves("M2.3")
def test_segments_rotate_and_are_removed_as_they_are_delivered(tmp_path: Path) -> None:
    repository = Faulty()
    repository.before = _down
    emitter = Emitter(repository, tmp_path, segment_bytes=2000)
    for number in range(50):
        emitter.emit(_record(number), CONTEXT)
    assert len(list(tmp_path.glob("*.spool"))) > 5
    repository.before = _nothing
    assert emitter.flush(LONG)
    assert repository.rows() == list(range(50))
    assert len(list(tmp_path.glob("*.spool"))) == 1
    emitter.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.proves("M2.3")
def test_the_next_emitter_delivers_what_the_one_before_left(tmp_path: Path) -> None:
    repository = Faulty()
    repository.before = _down
    first = Emitter(repository, tmp_path)
    first.emit(_record(0), CONTEXT)
    first.close(LONG)
    assert list(tmp_path.glob("*.spool"))
    repository.before = _nothing
    with Emitter(repository, tmp_path) as second:
        second.emit(_record(1), CONTEXT)
        assert second.flush(LONG)
    assert repository.rows() == [0, 1]
    assert not list(tmp_path.iterdir())


def test_a_living_process_delivers_its_own(tmp_path: Path) -> None:
    repository, other = Faulty(), MemoryRepository()
    repository.before = _down
    emitter = Emitter(repository, tmp_path)
    emitter.emit(_record(0), CONTEXT)
    report = flush_folder(tmp_path, other)
    assert (report.living, report.delivered.entries, report.problem) == (1, 0, None)
    emitter.close(LONG)
    report = flush_folder(tmp_path, other)
    assert (report.living, report.delivered.stored, report.problem) == (0, 1, None)
    assert not list(tmp_path.iterdir())


def test_a_flush_of_a_folder_says_why_something_is_left(tmp_path: Path) -> None:
    repository = Faulty()
    repository.before = _down
    emitter = Emitter(repository, tmp_path)
    emitter.emit(_record(0), CONTEXT)
    emitter.close(LONG)
    report = flush_folder(tmp_path, repository)
    assert report.problem is not None
    assert report.problem["code"] == "repository_unavailable"
    assert flush_folder(tmp_path, MemoryRepository()).delivered.stored == 1


def test_what_was_cut_off_was_never_acknowledged_and_what_is_damaged_is_kept(tmp_path: Path) -> None:
    context, record = CONTEXT.model_dump_json().encode(), _record(1).model_dump_json().encode()
    for owner, tail in (("1", framed(context, record)[:-1]), ("2", b"\0\0"), ("3", framed(context, record)[:-1] + b"!"), ("4", b"")):
        segment = Segment.create(tmp_path / f"{owner}.00000001.spool", fsync=True)
        segment.append(framed(context, _record(int(owner) + 10).model_dump_json().encode()) + tail, fsync=True)
        segment.close()
    (tmp_path / "5.00000001.spool").write_bytes(b"TL")
    repository = Faulty()
    assert flush_folder(tmp_path, repository).delivered.stored == 4
    assert repository.rows() == [11, 12, 13, 14]
    assert [path.name.split(".")[0] for path in (tmp_path / "refused").iterdir()] == ["3"]
    assert not list(tmp_path.glob("*.spool")) and not list(tmp_path.glob("*.lock"))


def test_an_entry_that_is_no_record_is_set_aside_and_one_that_is_large_is_read(tmp_path: Path) -> None:
    context = CONTEXT.model_dump_json().encode()
    large = BUILDER.record("ingestion_volume", {"rows": "x" * 5_000_000})
    segment = Segment.create(tmp_path / "1.00000001.spool", fsync=False)
    for frame in (framed(context, b'{"of": "another version"}'), framed(b"[]", b"{}"), framed(context, large.model_dump_json().encode()), framed(context, _record(1).model_dump_json().encode())):
        segment.append(frame, fsync=False)
    segment.close()
    repository = Faulty()
    assert flush_folder(tmp_path, repository).delivered == Delivered(entries=4, stored=1, refused=3)
    assert [line.problem["code"] for line in set_aside(tmp_path)] == ["invalid", "invalid", "record_refused"]


def test_a_wrong_mark_of_what_is_delivered_delivers_again(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / "1.00000001.spool", fsync=False)
    segment.append(framed(CONTEXT.model_dump_json().encode(), _record(1).model_dump_json().encode()), fsync=False)
    segment.advance(10**9)
    segment.close()
    assert Segment.open(tmp_path / "1.00000001.spool").delivered == START


@pytest.mark.proves("M2.3")
@pytest.mark.proves("M4.3")
def test_threads_and_async_code_may_emit(tmp_path: Path) -> None:
    repository = Faulty()
    with Emitter(repository, tmp_path) as emitter:
        def work(first: int) -> None:
            for number in range(first, first + 200):
                emitter.emit(_record(number), CONTEXT)

        async def also() -> None:
            for number in range(1000, 1200):
                emitter.emit(_record(number), CONTEXT)
                await asyncio.sleep(0)

        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 200, 400)]
        for thread in threads:
            thread.start()
        asyncio.run(also())
        for thread in threads:
            thread.join()
        assert emitter.flush(LONG)
    assert sorted(repository.rows()) == [*range(600), *range(1000, 1200)]


def test_an_emit_beside_a_close_is_not_lost(tmp_path: Path) -> None:
    repository = Faulty()
    emitter = Emitter(repository, tmp_path)
    def work() -> None:
        for number in range(500):
            emitter.emit(_record(number), CONTEXT)
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():
        emitter.close(LONG)
    emitter.close(LONG)
    assert flush_folder(tmp_path, repository).living == 0
    assert sorted(repository.rows()) == list(range(500))
    assert not list(tmp_path.iterdir())


FORKING = """
import os, sys
from pathlib import Path
from tracelake_sdk.records.emitter import Emitter
from tracelake_sdk.records.builders import RecordBuilder
from tracelake_sdk.records import MetadataContext, MetadataTarget
from tracelake_sdk.errors.records import RepositoryUnavailable

class Down:
    def bulk_store(self, records, context):
        raise RepositoryUnavailable

builder = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")
context = MetadataContext(cluster="c", workspace="w", tenant="main", run_id="r:1")
emitter = Emitter(Down(), Path(sys.argv[1]))
def tell(number):
    emitter.emit(builder.ingestion_volume(rows=number, bytes=None, conditions=[("n", "eq", number)]), context)
tell(0)
child = os.fork()
tell(2 if child else 1)
if not child:
    os._exit(0)
os.waitpid(child, 0)
tell(3)
"""


@pytest.mark.proves("M2.3")
def test_a_script_that_forks_and_ends_at_once_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORKING, str(tmp_path)], capture_output=True, text=True, timeout=LONG, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    repository = Faulty()
    assert flush_folder(tmp_path, repository).delivered.stored == 4
    assert sorted(repository.rows()) == [0, 1, 2, 3]


def test_a_closed_emitter_takes_records_again(tmp_path: Path) -> None:
    repository = Faulty()
    emitter = Emitter(repository, tmp_path)
    for number in range(3):
        emitter.emit(_record(number), CONTEXT)
        emitter.close(LONG)
    assert repository.rows() == [0, 1, 2]
    assert emitter.status().stored == 3
    assert len(repository.query(RecordFilters(), CONTEXT)) == 3


def test_a_disk_that_cannot_be_written_while_something_is_set_aside_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "refused").write_text("a file in the way")
    repository = Faulty()
    emitter = Emitter(repository, tmp_path)
    emitter.emit(_poisoned(), CONTEXT)
    emitter.emit(_record(1), CONTEXT)
    until = time.monotonic() + LONG
    while (status := emitter.status()).problem is None and time.monotonic() < until:
        time.sleep(0.01)
    assert status.waiting == 2
    (tmp_path / "refused").unlink()
    assert emitter.flush(LONG)
    assert repository.rows() == [1]
    assert len(set_aside(tmp_path)) == 1
    emitter.close(LONG)


def test_closing_says_what_was_refused_and_where_to_look(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    emitter = Emitter(MemoryRepository(), tmp_path)
    for record in (_record(1), _poisoned(), _poisoned()):
        emitter.emit(record, CONTEXT)
    assert emitter.flush(LONG)
    closed = emitter.close()
    assert (closed.stored, closed.refused, closed.waiting) == (1, 2, 0)
    assert [record.getMessage() for record in caplog.records] == [
        f"2 records were refused and set aside in {tmp_path / 'refused'}; `tracelake record refused --spool {tmp_path}` lists them with the reasons."
    ]
    assert emitter.close() == closed
    assert len(caplog.records) == 1  # once


def test_closing_returns_how_many_records_were_not_delivered(tmp_path: Path) -> None:
    repository = Faulty()

    def away(records: Sequence[MetadataRecord]) -> None:
        raise RepositoryUnavailable

    repository.before = away
    emitter = Emitter(repository, tmp_path)
    emitter.emit(_record(1), CONTEXT)
    assert emitter.close(1.0).waiting == 1
