"""The repository as files: its layout, its log, its snapshots, and what it makes of damage."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.errors.records import OffsetUnknown, RepositoryDamaged, RepositoryUnavailable, TenantMismatch
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters, StoreResult
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.records.repository.embedded.layout import moment, part, record_path

NOON = datetime(2020, 5, 17, 12, 30, 1, 7, tzinfo=UTC)
ORDERS = MetadataTarget(source_id="erp", schema="sales", table="orders")
NOTE = Kind(name="note", owner="tests", description="Something was noted.", schema={"type": "object"})


def context(run_id: str | None = "run-1") -> MetadataContext:
    return MetadataContext(run_id=run_id, cluster="c", workspace="w", tenant="main")


def note(number: int, *, target: MetadataTarget = ORDERS, produced_at: datetime | None = None) -> MetadataRecord:
    return MetadataRecord(
        target=target, kind="note", payload={"number": number, "window_start": f"{number}"}, produced_at=produced_at or NOON + timedelta(seconds=number), producer_id="p.v1"
    )


def opened(folder: Path, **how: Any) -> EmbeddedRepository:
    repository = EmbeddedRepository(folder, tenant="main", **{"segment_bytes": 2000, **how})
    repository.register(NOTE)
    return repository


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "records of ours"


@pytest.fixture
def repository(folder: Path) -> Iterator[EmbeddedRepository]:
    with opened(folder) as found:
        yield found


def tailed(repository: EmbeddedRepository, offset: str | None = None, limit: int = 7) -> tuple[list[int], str]:
    numbers: list[int] = []
    while True:
        page = repository.tail(context(), offset, limit=limit)
        numbers += [stored.record.payload["number"] for stored in page.items]
        offset = page.offset
        if not page.items:
            return numbers, offset


def numbers(repository: EmbeddedRepository) -> list[int]:
    return [stored.record.payload["number"] for stored in repository.query(RecordFilters(limit=10_000), context())]


def files(folder: Path, pattern: str = "records/**/*") -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.is_file())


# Layout
@pytest.mark.proves("M2.2")
def test_the_folder_is_laid_out_as_documented(repository: EmbeddedRepository, folder: Path) -> None:
    result = repository.store(note(1), context())
    repository.rebuild()
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    name = "records/note/erp.sales.orders/20200517T123002000007Z_run-1.json"
    assert found == {name, "kinds/note/1.json", "log/000000000001.jsonl", "log/turn.lock", "index.json", "index/identities"}
    filed = json.loads((folder / name).read_text())
    assert (filed["id"], filed["record"]["payload"], filed["context"]["tenant"]) == (str(result.id), {"number": 1, "window_start": "1"}, "main")
    assert filed["record"]["target"] == {"source_id": "erp", "schema": "sales", "table": "orders", "extras": {}}
    header, line = [json.loads(line) for line in (folder / "log/000000000001.jsonl").read_text().splitlines()]
    assert (header["tenant"], header["segment"]) == ("main", 1)
    assert (line["path"], line["id"], line["kind"], line["target"]) == (name, result.id and result.id.hex, "note", ["erp", "sales", "orders"])
    index = json.loads((folder / "index.json").read_text())
    assert (index["records"], index["tenant"], [pair["path"] for pair in index["newest"]]) == (1, "main", [name])
    assert index["offset"] == repository.tail(context()).offset


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("orders", "orders"), ("a-b_C9", "a-b_C9"), ("x" * 80, "x" * 80), ("x" * 81, f"{'x' * 60}-"), ("../../etc", ""), ("a.b", "a-"), ("a/b", "a-"),
        ("żółw", ""), ("🐢", ""), ("a b", "a-"), ("a:b", "a-"), ("a\nb", "a-"), (".", ""), ("con.", "con-"),
    ],
)  # fmt: skip
def test_a_name_becomes_a_safe_part_of_a_path(name: str, spelt: str) -> None:
    found = part(name)
    assert len(found) <= 80 and found.isascii() and not set(found) & set("./:\\ \n")
    if name == spelt:
        assert found == name
    else:
        assert found.startswith(spelt) and len(found) == len(spelt) + 12
    assert part(name) == found != part(name + "x")


def test_times_are_spelt_without_colons_and_sort_as_they_are() -> None:
    told = [datetime(999, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC), NOON, NOON + timedelta(microseconds=1), datetime(9999, 12, 31, 23, tzinfo=UTC)]
    spelt = [moment(at) for at in told]
    assert spelt == sorted(spelt) and {len(text) for text in spelt} == {22}
    assert record_path("note", ("a", "b", "c"), spelt[1], None) == "records/note/a.b.c/20200101T000000000000Z_no-run.json"


@pytest.mark.proves("M2.2")
def test_records_of_one_run_and_moment_have_files_of_their_own(repository: EmbeddedRepository, folder: Path) -> None:
    told = [note(number, produced_at=NOON) for number in range(5)]
    assert {result.result for result in repository.bulk_store(told[:3], context())} == {"stored"}
    assert {repository.store(record, context()).result for record in told[3:]} == {"stored"}
    assert len(files(folder)) == 5
    assert sorted(numbers(repository)) == [0, 1, 2, 3, 4]
    # Names that a disk may take for one another, and names that lead elsewhere.
    odd = [("Orders",), ("orders",), ("../../..",), ("/",), ("..",)]
    for number, (table,) in enumerate(odd, 10):
        repository.store(note(number, target=MetadataTarget(source_id="..", schema="/etc", table=table), produced_at=NOON), context())
    assert sorted(numbers(repository)) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    assert all(path.is_relative_to(folder) for path in folder.parent.rglob("*") if path.is_file())


def test_one_folder_is_one_tenant(repository: EmbeddedRepository, folder: Path) -> None:
    repository.store(note(1), context())
    stranger = EmbeddedRepository(folder, tenant="stranger")
    with pytest.raises(TenantMismatch):
        stranger.latest(ORDERS, "note", context().model_copy(update={"tenant": "stranger"}))


def test_a_folder_is_named_by_a_path_or_an_address(folder: Path) -> None:
    opened(folder).store(note(1), context())
    for where in (str(folder), folder.as_uri(), f"file:{folder}"):
        assert numbers(EmbeddedRepository(where, tenant="main")) == [1]
    for where in ("", "https://example.com/x", "gs://bucket", "s3://"):
        with pytest.raises(SettingInvalid):
            EmbeddedRepository(where, tenant="main")


# The log
@pytest.mark.proves("M2.5")
def test_a_tailer_gets_each_record_once_over_rotation_and_rebuild(repository: EmbeddedRepository, folder: Path) -> None:
    reader, offset, seen = EmbeddedRepository(folder, tenant="main"), None, []
    for number in range(60):
        repository.store(note(number), context())
        if number % 5 == 0:
            page = reader.tail(context(), offset, limit=3)
            seen += [stored.record.payload["number"] for stored in page.items]
            offset = page.offset
        if number % 20 == 10:
            assert (reader if number % 40 == 10 else repository).rebuild().as_indexed
    assert len(files(folder, "log/*.jsonl")) > 5
    rest, end = tailed(EmbeddedRepository(folder, tenant="main"), offset)
    assert seen + rest == list(range(60))
    assert tailed(reader, end) == ([], end)
    assert tailed(reader, limit=1)[0] == list(range(60))


@pytest.mark.proves("M2.5")
def test_an_offset_of_another_log_or_between_no_lines_is_refused(repository: EmbeddedRepository, tmp_path: Path) -> None:
    repository.store(note(1), context())
    other = opened(tmp_path / "another")
    other.store(note(1), context())
    offset = repository.tail(context()).offset
    log, segment, byte = offset.split(".")
    for wrong in (other.tail(context()).offset, f"{log}.{segment}.{int(byte) - 1}", f"{log}.{segment}.{int(byte) + 1}", f"{log}.9.0"):
        with pytest.raises(OffsetUnknown):
            repository.tail(context(), wrong)


def test_half_a_line_of_a_dead_writer_is_ignored(repository: EmbeddedRepository, folder: Path) -> None:
    repository.store(note(1), context())
    with (folder / "log/000000000001.jsonl").open("ab") as log:
        log.write(b'{"id":"half a li')
    reader = EmbeddedRepository(folder, tenant="main")
    assert numbers(reader) == [1]
    repository.store(note(2), context())
    assert (numbers(reader), tailed(reader)[0]) == ([2, 1], [1, 2])


# Snapshots
@pytest.mark.proves("M2.2")
def test_a_snapshot_spares_a_process_the_log(folder: Path) -> None:
    with opened(folder, segment_bytes=100_000) as writer:
        for number in range(300):
            writer.store(note(number), context())
    snapshot = json.loads((folder / "index.json").read_text())
    assert (snapshot["records"], len(snapshot["newest"])) == (300, 1)
    # A log whose beginning cannot be read: whoever goes by the snapshots does not look at it.
    log = folder / "log/000000000001.jsonl"
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([lines[0], b"x" * len(lines[1]), *lines[2:]]))
    reader = EmbeddedRepository(folder, tenant="main")
    found = reader.latest(ORDERS, "note", context())
    assert found is not None and found.record.payload["number"] == 299
    assert reader.store(note(3), context()).result == "same"
    assert reader.store(note(300), context()).result == "stored"
    with pytest.raises(RepositoryDamaged):
        reader.query(RecordFilters(), context())
    rebuilt = reader.rebuild()
    assert (rebuilt.repaired, rebuilt.logged, rebuilt.records) == (1, 1, 301)
    assert sorted(numbers(reader)) == list(range(301))


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format":1}', b'{"format":1,"offset":"0123456789abcdef.1.10"}', b"[]", b"null\n"])
def test_a_snapshot_that_is_no_good_is_passed_over(repository: EmbeddedRepository, folder: Path, damage: bytes) -> None:
    repository.bulk_store([note(number) for number in range(5)], context())
    repository.rebuild()
    (folder / "index.json").write_bytes(damage)
    (folder / "index/identities").write_bytes(damage)
    reader = EmbeddedRepository(folder, tenant="main")
    found = reader.latest(ORDERS, "note", context())
    assert found is not None and found.record.payload["number"] == 4
    assert reader.store(note(2), context()).result == "same"


# Damage
@pytest.mark.proves("M2.2")
@pytest.mark.parametrize("lost", ["index.json", "index", "log", "everything but the records"])
def test_it_is_rebuilt_from_its_files(repository: EmbeddedRepository, folder: Path, lost: str) -> None:
    results = repository.bulk_store([note(number) for number in range(30)], context())
    before = [stored.model_dump() for stored in repository.query(RecordFilters(), context())]
    repository.rebuild()
    repository.close()
    for path in files(folder, "**/*"):
        name = path.relative_to(folder).as_posix()
        if name.startswith(lost) or (lost.startswith("everything") and not name.startswith("records/")):
            path.unlink()
    with EmbeddedRepository(folder, tenant="main") as again:
        rebuilt = again.rebuild()
        if lost.startswith("everything"):
            again.register(NOTE)
        assert (rebuilt.records, rebuilt.logged) == (30, 0 if lost.startswith("index") else 30)
        assert [stored.model_dump() for stored in again.query(RecordFilters(), context())] == before
        assert tailed(again)[0] == list(range(30))
        assert [result.id for result in again.bulk_store([note(number) for number in range(30)], context())] == [result.id for result in results]


def test_a_record_whose_file_is_gone_is_an_error_and_still_known(repository: EmbeddedRepository, folder: Path) -> None:
    repository.store(note(1), context())
    files(folder)[0].unlink()
    with pytest.raises(RepositoryDamaged):
        repository.latest(ORDERS, "note", context())
    assert repository.store(note(1), context()).result == "same"
    assert EmbeddedRepository(folder, tenant="main").store(note(1), context()).result == "same"


def test_what_was_staged_by_a_dead_writer_is_cleared_away(folder: Path) -> None:
    class Died(Exception):
        pass

    def die_at(dying: str) -> Callable[[str], None]:
        def die(at: str) -> None:
            if at == dying:
                raise Died

        return die

    for number, dying in enumerate(["store:staged", "store:turn", "append:before", "append:done", "store:logged"]):
        writer = EmbeddedRepository(folder, tenant="main", watch=die_at(dying))
        writer.register(NOTE)
        with pytest.raises(Died):
            writer.store(note(number), context())
    reader = EmbeddedRepository(folder, tenant="main")
    assert numbers(reader) == [4, 3]
    assert len(files(folder)) == 5 + 5
    rebuilt = reader.rebuild()
    assert (rebuilt.as_indexed, rebuilt.records, rebuilt.removed, rebuilt.logged) == (True, 2, 3, 0)
    assert (numbers(reader), len(files(folder))) == ([4, 3], 2)
    assert [reader.store(note(number), context()).result for number in range(5)] == ["stored"] * 3 + ["same"] * 2


def test_a_rebuild_beside_a_writer_takes_nothing_from_it(folder: Path) -> None:
    other = opened(folder)

    def rebuild(at: str) -> None:
        if at == "store:staged" and not rebuilt:
            rebuilt.append(other.rebuild())

    rebuilt: list[object] = []
    writer = EmbeddedRepository(folder, tenant="main", watch=rebuild)
    assert [result.result for result in writer.bulk_store([note(1), note(2)], context())] == ["stored", "stored"]
    assert len(rebuilt) == 1
    assert (numbers(other), len(files(folder))) == ([2, 1], 2)


def test_a_folder_that_cannot_be_written_is_an_error_and_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        opened(folder).store(note(1), context())
        program = "\n".join([
            "import os, sys", "from tracelake_sdk.records.repository.embedded import EmbeddedRepository", "from tracelake_sdk.errors.records import RepositoryUnavailable",
            "from tracelake_sdk.records import *", f"repository = EmbeddedRepository({name!r}, tenant='main')",
            "repository.kinds()", "os.geteuid() == 0 and (os.setgid(65534), os.setuid(65534))",
            "context = MetadataContext(cluster='c', workspace='w', tenant='main')",
            "found = repository.query(RecordFilters(), context).items[0]",
            "try: repository.store(found.record, context)",
            "except RepositoryUnavailable: print('refused', len(repository.query(RecordFilters(), context)))",
        ])  # fmt: skip
        _allow(folder, 0o555, 0o444)
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        _allow(folder, 0o755, 0o644)
    assert ran.stdout.split() == ["refused", "1"], ran.stderr


def _allow(folder: Path, folders: int, files: int) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(folders if path.is_dir() else files)


def test_a_folder_below_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RepositoryUnavailable):
        opened(tmp_path / "file" / "records")


# Durability, processes, weight
def test_with_fsync_nothing_is_answered_before_it_is_on_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def note_it(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()).removeprefix(f"{folder}/"))
        real(handle)

    monkeypatch.setattr(os, "fsync", note_it)
    with opened(folder, fsync=True) as durable:
        synced.clear()
        result = durable.store(note(1), context())
        assert result.id is not None
        kept = [name for name in synced if "records/note/erp.sales.orders" in name or name.startswith("log/0")]
        staged = f"records/note/erp.sales.orders/.{result.id.hex}.staged"
        assert kept.index(staged) < kept.index("records/note/erp.sales.orders") < max(place for place, name in enumerate(kept) if name.startswith("log/0"))
    with opened(folder) as quick:
        synced.clear()
        quick.store(note(2), context())
        assert synced == []


def _store_in_a_child(repository: EmbeddedRepository, number: int, answers: Any) -> None:
    answers.put(repository.store(note(number), context()).result)


@pytest.mark.proves("M2.2")
def test_two_processes_on_one_folder_see_each_other(repository: EmbeddedRepository, folder: Path) -> None:
    repository.store(note(1), context())
    program = "\n".join([
        "import sys", "from tracelake_sdk.records.repository.embedded import EmbeddedRepository", "from tracelake_sdk.records import *",
        f"repository = EmbeddedRepository({str(folder)!r}, tenant='main')",
        "for line in sys.stdin:",
        "    record = MetadataRecord.model_validate_json(line)",
        "    context = MetadataContext(run_id='run-1', cluster='c', workspace='w', tenant='main')",
        "    before = repository.latest(record.target, 'note', context).record.payload['number']",
        "    print(before, repository.store(record, context).result, flush=True)",
    ])  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        for number in range(10, 60, 10):
            assert repository.store(note(number), context()).result == "stored"
            other.stdin.write(note(number + 1).model_dump_json() + "\n")
            other.stdin.flush()
            assert other.stdout.readline().split() == [str(number), "stored"]
            found = repository.latest(ORDERS, "note", context())
            assert found is not None and found.record.payload["number"] == number + 1
        other.stdin.close()
    assert other.returncode == 0


def test_a_forked_process_may_go_on_with_the_repository_it_was_given(repository: EmbeddedRepository) -> None:
    repository.store(note(1), context())
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    children = [fork.Process(target=_store_in_a_child, args=(repository, number, answers)) for number in (2, 2, 3)]
    for child in children:
        child.start()
    assert sorted(answers.get(timeout=60) for _ in children) == ["same", "stored", "stored"]
    for child in children:
        child.join(60)
    assert numbers(repository) == [3, 2, 1]
    assert isinstance(repository.store(note(3), context()), StoreResult)


def test_a_local_folder_needs_no_library_of_object_stores() -> None:
    program = "import sys, tracelake_sdk.records.repository.embedded; print('obstore' in sys.modules, 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True).stdout.split() == ["False", "False"]
