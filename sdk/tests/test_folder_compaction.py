"""A folder of records shrinks, and whoever asks it is told the same as before."""

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from support import compaction_runner
from support.compactions import AGED_TALLY_2, FADING, KINDS, TARGETS, OldIds, Questions, by_arrow, records, tailed
from support.processes import LONGEST
from support.repositories import on_s3
from support.s3_servers import S3Server
from support.sizes import seeded, size
from typer.testing import CliRunner

from tracelake_sdk.cli.main import app
from tracelake_sdk.errors.records import ColdUnreadable, CompactionFailed
from tracelake_sdk.records import MetadataContext, MetadataRecord, RecordFilters
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.repository.embedded import EmbeddedRepository


class Shed:
    """One folder with records of several ages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.random = seeded()
        with self.open() as repository:
            for kind in (*KINDS, FADING):
                repository.register(kind)

    def open(self, *, days_ago: float = 0, **told: Any) -> EmbeddedRepository:
        repository = EmbeddedRepository(self.root, tenant="main", segment_bytes=8192, **told)
        repository._ids = OldIds(days_ago) if days_ago else RecordIds()  # pyright: ignore[reportPrivateUsage]
        return repository

    def fill(self, number: int, *, days_ago: float, run_id: str | None = "run-1", **told: Any) -> list[MetadataRecord]:
        made = records(self.random, number, **told)
        with self.open(days_ago=days_ago) as repository:
            assert {result.result for result in repository.bulk_store(made, context(run_id))} <= {"stored", "same"}
        return made

    def files(self) -> int:
        return len([*self.root.glob("records/**/*.json")])

    def bytes(self) -> int:
        """As the disk counts them."""
        return sum(path.stat().st_blocks * 512 for path in self.root.rglob("*") if path.is_file())

    def compact(self, **told: Any) -> tuple[int, int]:
        with self.open() as repository:
            done = repository.compact(by_arrow, **told)
        return done.archived, done.dropped


def context(run_id: str | None = "run-1") -> MetadataContext:
    return MetadataContext(run_id=run_id, cluster="c1", workspace="w1", tenant="main")


@pytest.fixture
def shed(tmp_path: Path) -> Shed:
    return Shed(tmp_path / "records")


@pytest.mark.proves("M2.2")
def test_a_lost_log_is_made_again_from_files_and_compacted_records(shed: Shed) -> None:
    shed.fill(30, days_ago=400)
    shed.fill(20, days_ago=0, run_id="run-2")
    with shed.open() as repository:
        number, told = shed.files(), [stored.id for stored in repository.query(RecordFilters(limit=10_000), context())]
        assert 0 < shed.compact()[0] < number
    for path in shed.root.glob("log/*.jsonl"):
        path.unlink()
    with shed.open() as again:
        rebuilt = again.rebuild()
        assert (rebuilt.records, rebuilt.logged, rebuilt.removed) == (number, number, 0)
        assert [stored.id for stored in again.query(RecordFilters(limit=10_000), context())] == told
        assert len(tailed(again, context())) == number


@pytest.mark.proves("M2.6")
def test_the_same_questions_have_the_same_answers_after_a_folder_was_compacted(shed: Shed) -> None:
    for days_ago, run_id in ((400, "run-1"), (90, None), (0, "run-2")):
        shed.fill(size(50, 400), days_ago=days_ago, run_id=run_id)
    with shed.open() as repository:
        repository.register(AGED_TALLY_2)
        questions = Questions(shed.random.randrange(2**30), size(20, 100))
        before, number = questions.answers(repository, context()), shed.files()
        large = shed.bytes()
        archived, dropped = shed.compact()
        assert archived > 0 and dropped == 0 and shed.files() == number - archived and shed.bytes() < large
        assert questions.answers(repository, context()) == before  # a process that was there all along
    with shed.open() as another:
        assert questions.answers(another, context()) == before
        assert another.rebuild().as_indexed and another.rebuild().records == number
        assert questions.answers(another, context()) == before
    assert shed.compact() == (0, 0)
    assert DeltaTable(shed.root / "cold").to_pyarrow_table().num_rows == archived


@pytest.mark.proves("M2.6")
def test_a_compacted_record_of_a_folder_is_still_known(shed: Shed) -> None:
    made = shed.fill(40, days_ago=400)
    number = shed.files()
    shed.compact(older_than=timedelta(days=1))
    assert shed.files() == 0
    with shed.open() as repository:
        assert {result.result for result in repository.bulk_store(made, context())} == {"same"}
        rebuilt = repository.rebuild()
        assert (rebuilt.records, rebuilt.removed, rebuilt.logged) == (number, 0, 0)
        assert {result.result for result in repository.bulk_store(made, context())} == {"same"}


@pytest.mark.proves("M2.5")
def test_a_tailer_of_a_folder_gets_each_record_once_over_rotation_rebuild_and_compaction(shed: Shed) -> None:
    shed.fill(60, days_ago=400)
    with shed.open() as repository:
        whole = tailed(repository, context())
        first = repository.tail(context(), limit=25)
        shed.compact()
        shed.fill(20, days_ago=0, run_id="run-3")
        repository.rebuild()
        seen = [found.model_dump(mode="json") for found in first.items] + tailed(repository, context(), first.offset)
    assert seen[: len(whole)] == whole and len(seen) == len({found["id"] for found in seen}) == len(whole) + 20


def test_a_path_that_a_compacted_record_has_left_may_be_anothers(shed: Shed) -> None:
    [old] = shed.fill(1, days_ago=400, kinds=("tally",))
    shed.compact()
    new = old.model_copy(update={"payload": {**old.payload, "group": "another"}})
    with shed.open() as repository:
        assert repository.store(new, context()).result == "stored"
        assert shed.files() == 1
        found = repository.query(RecordFilters(kinds=["tally"], kind_version=1), context())
        assert [stored.record.payload["group"] for stored in found] == ["another", old.payload["group"]]


@pytest.mark.proves("M2.6")
def test_what_a_folder_drops_for_good_is_named_in_the_answer(shed: Shed) -> None:
    old = shed.fill(20, days_ago=30, kinds=("fading",))
    new = [made.model_copy(update={"produced_at": made.produced_at - timedelta(days=9), "target": TARGETS[0]}) for made in old[:5]]
    with shed.open() as repository:
        repository.bulk_store(new, context("later"))
        assert shed.compact() == (0, 20)
        page = repository.query(RecordFilters(kinds=["fading"]), context())
        assert [(span.kind, span.before) for span in page.dropped] == [("fading", max(made.produced_at for made in old) + timedelta(microseconds=1))]
        assert {found.record.produced_at for found in page} == {made.produced_at for made in new}
        assert repository.query(RecordFilters(kinds=["note"]), context()).dropped == []
        latest = repository.latest(TARGETS[0], "fading", context())
        assert latest is not None and latest.record.produced_at == max(made.produced_at for made in new)
        assert repository.targets(context(), "fading") == [TARGETS[0]]
        assert len(tailed(repository, context())) == 5
    assert shed.compact() == (0, 0) and shed.files() == 5


@pytest.mark.proves("M2.6")
def test_a_trial_foresees_what_a_compaction_does_and_changes_nothing(shed: Shed) -> None:
    shed.fill(20, days_ago=400)
    shed.fill(10, days_ago=30, kinds=("fading",), run_id="run-2")
    shed.fill(5, days_ago=0, run_id="run-3")
    for told in ({}, {"older_than": timedelta(days=20)}, {"older_than": timedelta(0)}):
        before = sorted((path, path.stat().st_mtime_ns) for path in shed.root.rglob("*") if path.is_file())
        foreseen = shed.compact(check_only=True, **told)
        assert sorted((path, path.stat().st_mtime_ns) for path in shed.root.rglob("*") if path.is_file()) == before
        assert foreseen == shed.compact(**told)
    said = CliRunner().invoke(app, ["record", "compact", "--dry-run", "--repository", f"file://{shed.root}"])
    assert (said.exit_code, said.output) == (0, "0 records would be archived, 0 dropped. Nothing was changed.\n")


@pytest.mark.proves("M2.6")
def test_without_the_extra_cold_records_are_an_error_that_names_it(shed: Shed, monkeypatch: pytest.MonkeyPatch) -> None:
    shed.fill(20, days_ago=400, kinds=("tally",))
    shed.compact()
    shed.fill(3, days_ago=0, kinds=("kept",))
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    asking: list[Callable[[EmbeddedRepository], object]] = [
        lambda repository: repository.query(RecordFilters(), context()),
        lambda repository: repository.tail(context()),
        lambda repository: [repository.latest(target, "tally", context()) for target in TARGETS],
    ]
    with shed.open() as repository:
        for ask in asking:
            with pytest.raises(ColdUnreadable, match=r"tracelake-sdk\[cold\]"):
                ask(repository)
        assert len(repository.query(RecordFilters(kinds=["kept"]), context())) == 3


@pytest.mark.xdist_group("s3")
@pytest.mark.proves("M2.6")
def test_records_under_an_object_store_prefix_are_compacted_there(s3_server: S3Server) -> None:
    opened, random = on_s3(s3_server), seeded()
    repository = opened.repository
    assert isinstance(repository, EmbeddedRepository)
    repository._ids = OldIds(400)  # pyright: ignore[reportPrivateUsage]
    for kind in KINDS:
        repository.register(kind)
    made = records(random, 30)
    repository.bulk_store(made, context())
    questions = Questions(random.randrange(2**30), 3)
    before = questions.answers(repository, context())
    assert repository.compact(by_arrow).archived == sum(record.kind != "kept" for record in made)
    assert questions.answers(opened.second(), context()) == before
    assert {result.result for result in opened.second().bulk_store(made, context())} == {"same"}


@pytest.mark.proves("M2.6")
def test_of_two_compactions_of_one_folder_one_commits_and_the_other_stops(shed: Shed) -> None:
    shed.fill(20, days_ago=400, kinds=("tally",))

    def meanwhile_another(order: Any, folder: Path) -> list[Path]:
        another = subprocess.run([sys.executable, compaction_runner.__file__, "folder", str(shed.root)], capture_output=True, text=True, timeout=LONGEST, check=False)
        assert another.returncode == 0, another.stderr
        return by_arrow(order, folder)

    with shed.open() as repository, pytest.raises(CompactionFailed, match="Another process"):
        repository.compact(meanwhile_another)
    assert len([*shed.root.glob("cold/_delta_log/*.json")]) == 1
    with shed.open() as repository:
        assert len(repository.query(RecordFilters(kinds=["tally"]), context())) == 20
    assert shed.compact() == (0, 0)


@pytest.mark.xdist_group("s3")
@pytest.mark.proves("M2.6")
def test_of_two_compactions_under_an_object_store_prefix_one_commits_and_the_other_stops(s3_server: S3Server) -> None:
    opened = on_s3(s3_server)
    repository, other = opened.repository, opened.second()
    assert isinstance(repository, EmbeddedRepository) and isinstance(other, EmbeddedRepository)
    repository._ids = OldIds(400)  # pyright: ignore[reportPrivateUsage]
    for kind in KINDS:
        repository.register(kind)
    repository.bulk_store(records(seeded(), 10, kinds=("tally",)), context())
    before = len(repository.query(RecordFilters(kinds=["tally"]), context()))

    def meanwhile_another(order: Any, folder: Path) -> list[Path]:
        assert other.compact(by_arrow).archived == before
        return by_arrow(order, folder)

    with pytest.raises(CompactionFailed, match="Another process"):
        repository.compact(meanwhile_another)
    assert len(opened.second().query(RecordFilters(kinds=["tally"]), context())) == before


def test_a_file_that_does_not_hold_what_was_given_deletes_nothing(shed: Shed) -> None:
    shed.fill(20, days_ago=400, kinds=("tally",))

    def forgetful(order: Any, folder: Path) -> list[Path]:
        lines = Path(order.source).read_text().splitlines(keepends=True)
        Path(order.source).write_text("".join(lines[1:]))
        return by_arrow(order, folder)

    with shed.open() as repository, pytest.raises(CompactionFailed):
        repository.compact(forgetful)
    assert shed.files() == 20 and not [*shed.root.glob("cold/_delta_log/*")]


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
@pytest.mark.proves("M2.6")
def test_the_command_line_compacts_a_folder_by_spark(shed: Shed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACELAKE_HOME", str(tmp_path / "home"))
    shed.fill(30, days_ago=400)
    questions = Questions(shed.random.randrange(2**30), 10)
    with shed.open() as repository:
        before, number = questions.answers(repository, context()), shed.files()
        done = CliRunner().invoke(app, ["record", "compact", "--repository", f"file://{shed.root}", "-o", "json"])
        assert done.exit_code == 0, done.output
        archived = json.loads(done.output)["archived"]
        assert archived > 0 and shed.files() == number - archived
        assert questions.answers(repository, context()) == before


def test_without_spark_a_folder_stays_as_it_is(shed: Shed, monkeypatch: pytest.MonkeyPatch) -> None:
    shed.fill(5, days_ago=400, kinds=("tally",))
    monkeypatch.setattr("tracelake_sdk.records.compaction_program.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["record", "compact", "--repository", f"file://{shed.root}"])
    assert isinstance(done.exception, CompactionFailed) and "tracelake-spark" in done.exception.detail and shed.files() == 5
