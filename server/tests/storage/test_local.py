"""What is particular to local files: names that appear only when all is durable, and links that lead nowhere else."""

from pathlib import Path
from uuid import UUID

import pytest
from support.processes import KILLED, LONGEST

from tracelake.settings import read_settings
from tracelake.storage.contract import PutResult
from tracelake.storage.local import LocalStorage
from tracelake.storage.opening import open_storage
from tracelake.storage.paths import UnsafePath, log_entry_path, table_location
from tracelake_sdk.errors import SettingInvalid, StorageOutcomeUnknown, StorageUnavailable

from .putting import DECIDED, StorageUnderTest, putting

LOCATION = table_location(UUID(int=1), UUID(int=2), UUID(int=3))
ENTRY = log_entry_path(LOCATION, 0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(root, lambda moment: None)


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize(("moment", "result", "leftovers"), [
    ("put:temporary_written", PutResult.CREATED, 1),
    ("put:linked", PutResult.SAME, 1),
    ("put:folder_synced", PutResult.SAME, 0),
])
def test_a_crash_inside_a_put_leaves_at_most_a_hidden_file(root: Path, storage: LocalStorage, moment: str, result: PutResult, leftovers: int):
    storage_under_test = StorageUnderTest("local", {"TRACELAKE__STORAGE__URL": root.as_uri()}, lambda watch: LocalStorage(root, watch))
    dying = putting(storage_under_test, "one", ENTRY, kill_at=moment)
    assert dying.communicate("go\n", timeout=LONGEST)[0] == ""
    assert dying.returncode == KILLED
    assert storage.put_new(ENTRY, b"one", DECIDED) is result
    assert storage.read(ENTRY) == b"one"
    names = [file.path.rpartition("/")[2] for file in storage.list(LOCATION)]
    assert [name for name in names if not name.startswith(".")] == [Path(ENTRY).name]
    assert len(names) == 1 + leftovers


def test_the_moments_of_a_put_come_in_their_order(root: Path):
    moments: list[str] = []
    storage = LocalStorage(root, moments.append)
    storage.put_new(ENTRY, b"one", DECIDED)
    assert moments == ["put:before", "put:temporary_written", "put:linked", "put:folder_synced", "put:answered"]
    storage.put_new(ENTRY, b"one", DECIDED)
    # An existing entry is made durable too: the process that linked it may have died before.
    assert moments[5:] == ["put:before", "put:temporary_written", "put:folder_synced", "put:answered"]


def test_nothing_has_its_name_before_it_is_whole(root: Path):
    seen: dict[str, bool] = {}
    storage = LocalStorage(root, lambda moment: seen.update({moment: (root / ENTRY).exists()}))
    storage.put_new(ENTRY, b"one", DECIDED)
    assert seen == {"put:before": False, "put:temporary_written": False, "put:linked": True, "put:folder_synced": True, "put:answered": True}


@pytest.mark.proves("G3.3")
def test_an_entry_is_as_old_as_its_decision(root: Path, storage: LocalStorage):
    storage.put_new(ENTRY, b"one", DECIDED)
    assert (root / ENTRY).stat().st_mtime_ns == 1704862800_123456_000


def test_a_put_that_cannot_be_made_has_an_unknown_outcome_and_says_no_path(tmp_path: Path):
    (tmp_path / "lake").write_text("a file where a folder should be")
    with pytest.raises(StorageOutcomeUnknown) as caught:
        LocalStorage(tmp_path / "lake", lambda moment: None).put_new(ENTRY, b"one", DECIDED)
    assert str(tmp_path) not in caught.value.detail


def test_a_link_does_not_lead_out(root: Path, storage: LocalStorage, tmp_path: Path):
    (tmp_path / "secret").write_text("secret")
    folder = root / LOCATION / "t-1"
    folder.mkdir(parents=True)
    (folder / "file.parquet").symlink_to(tmp_path / "secret")
    (folder / "folder").symlink_to(tmp_path)
    for path in (f"{LOCATION}/t-1/file.parquet", f"{LOCATION}/t-1/folder/secret"):
        for ask in (storage.read, storage.size, storage.local_path, lambda path: storage.seal([path])):
            with pytest.raises(UnsafePath):
                ask(path)
    with pytest.raises(UnsafePath):
        storage.delete([f"{LOCATION}/t-1/folder/secret"])
    storage.delete([file.path for file in storage.list(LOCATION)])
    assert (tmp_path / "secret").read_text() == "secret"
    assert not folder.exists()


def test_what_an_operator_left_under_any_name_is_listed_and_deleted(root: Path, storage: LocalStorage):
    folder = root / LOCATION / "t-1" / "year=2024" / "a b"
    folder.mkdir(parents=True)
    (folder / "*.parquet").write_text("x")
    storage.replace(f"{LOCATION}/t-2/full/1.parquet", b"x")
    storage.delete([file.path for file in storage.list(f"{LOCATION}/t-1")])
    assert [file.path for file in storage.list(LOCATION)] == [f"{LOCATION}/t-2/full/1.parquet"]
    assert not (root / LOCATION / "t-1").exists()


def test_a_table_stays_when_its_last_file_goes(root: Path, storage: LocalStorage):
    storage.replace(f"{LOCATION}/t-1/full/1.parquet", b"x")
    storage.delete([f"{LOCATION}/t-1/full/1.parquet"])
    assert list((root / LOCATION).iterdir()) == []


def test_a_sealed_file_is_read_only(root: Path, storage: LocalStorage):
    storage.replace(f"{LOCATION}/t-1/full/1.parquet", b"x")
    storage.seal([f"{LOCATION}/t-1/full/1.parquet"])
    assert (root / LOCATION / "t-1/full/1.parquet").stat().st_mode & 0o777 == 0o444


def test_a_storage_that_cannot_be_read_is_unavailable_and_not_empty(root: Path, storage: LocalStorage):
    loop = root / "org"
    root.mkdir()
    loop.symlink_to(loop)
    with pytest.raises((StorageUnavailable, UnsafePath)):
        storage.read(ENTRY)
    with pytest.raises(StorageUnavailable):
        storage.list(LOCATION)


@pytest.mark.parametrize(("url", "uri"), [(None, "{home}/lake/a"), ("file://{home}/my%20lake", "{home}/my lake/a"), ("file://{home}/s%C3%A9e%25", "{home}/sée%/a"), ("s3://bucket", None), ("s3://bucket/some/prefix/", None)])
def test_the_settings_say_where(tmp_path: Path, url: str | None, uri: str | None):
    settings = read_settings(home=tmp_path, storage={"url": url.format(home=tmp_path) if url else None})
    opened = open_storage(settings, lambda moment: None)
    assert opened.uri("a") == (f"file://{uri.format(home=tmp_path)}" if uri else f"{str(url).rstrip('/').replace('s3:', 's3a:')}/a")
    assert opened.local_path("a") == (Path(uri.format(home=tmp_path)) if uri else None)


@pytest.mark.parametrize("url", ["lake", "/lake", "file:lake", "file://host/lake", "s3://", "gs://bucket", "s3://bucket/a b", "s3://bucket/../x", "s3://bucket?x=1"])
def test_a_url_that_cannot_be_meant_is_refused(url: str):
    with pytest.raises(SettingInvalid, match="TRACELAKE__STORAGE__URL"):
        open_storage(read_settings(storage={"url": url}), lambda moment: None)


def test_a_folder_that_another_process_removes_as_empty_is_created_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, make_folder, removed = LocalStorage(root, lambda moment: None), LocalStorage._make_folder, list[Path]()

    def make_and_lose(self: LocalStorage, folder: Path) -> None:
        make_folder(self, folder)
        if len(removed) < 3:
            folder.rmdir()
            removed.append(folder)

    monkeypatch.setattr(LocalStorage, "_make_folder", make_and_lose)
    assert storage.put_new(ENTRY, b"one", DECIDED) is PutResult.CREATED
    assert (storage.read(ENTRY), len(removed)) == (b"one", 3)
