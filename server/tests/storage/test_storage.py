"""One suite over both kinds of storage: what control and worker rely on, whichever it is."""

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from support.processes import KILLED, LONGEST
from support.sizes import size

from tracelake.storage.contract import PutResult, Storage, StoredFile
from tracelake.storage.paths import UnsafePath, log_entry_path, table_location

from .putting import DECIDED, StorageUnderTest, put_until_known, putting

LOCATION = table_location(UUID(int=1), UUID(int=2), UUID(int=3))
ENTRY = log_entry_path(LOCATION, 0)


def test_what_is_put_is_read_back(storage: Storage):
    assert storage.put_new(ENTRY, b"one\n", DECIDED) is PutResult.CREATED
    assert storage.read(ENTRY) == b"one\n"
    assert storage.size(ENTRY) == 4
    assert storage.list(LOCATION) == [StoredFile(ENTRY, 4)]


def test_what_is_absent_is_nothing_and_no_error(storage: Storage):
    assert storage.read(ENTRY) is None
    assert storage.size(ENTRY) is None
    assert storage.list(LOCATION) == []
    assert storage.seal([ENTRY]) == {}
    storage.delete([ENTRY])


@pytest.mark.proves("G3.2")
def test_the_same_bytes_again_change_nothing(storage: Storage):
    storage.put_new(ENTRY, b"one\n", DECIDED)
    assert storage.put_new(ENTRY, b"one\n", DECIDED) is PutResult.SAME
    assert storage.read(ENTRY) == b"one\n"


@pytest.mark.proves("G3.2")
def test_bytes_of_somebody_else_are_seen_and_kept(storage: Storage):
    storage.put_new(ENTRY, b"foreign\n", DECIDED)
    assert storage.put_new(ENTRY, b"one\n", DECIDED) is PutResult.OTHER
    assert storage.read(ENTRY) == b"foreign\n"


def test_replacing_leaves_the_new_bytes(storage: Storage):
    storage.replace("hint", b"old")
    storage.replace("hint", b"newer")
    assert storage.read("hint") == b"newer"
    assert storage.list("hint") in ([], [StoredFile("hint", 5)])  # a file is not a folder, but an object store cannot distinguish them


def test_a_folder_lists_what_is_below_it_and_not_what_begins_like_it(storage: Storage):
    for path in ("a/1", "a/b/2", "a/b/.hidden", "ab/3"):
        storage.replace(path, b"x")
    assert [file.path for file in storage.list("a")] == ["a/1", "a/b/.hidden", "a/b/2"]


def test_deleting_again_is_deleting_once(storage: Storage):
    paths = [f"{LOCATION}/t-1/full/{number}.parquet" for number in range(3)]
    for path in paths:
        storage.replace(path, b"x")
    storage.delete(paths[:2])
    storage.delete(paths)
    assert storage.list(LOCATION) == []


def test_a_seal_holds_as_long_as_the_file_does(storage: Storage):
    path = f"{LOCATION}/t-1/full/1.parquet"
    storage.replace(path, b"abc")
    first = storage.seal([path, f"{LOCATION}/t-1/full/2.parquet"])
    assert set(first) == {path}
    assert storage.seal([path]) == first
    storage.replace(path, b"abd")
    assert storage.seal([path]) != first


@pytest.mark.parametrize("path", ["../x", "a/../b", "/etc/passwd", "a//b", "", ".", "a/", "*", "[x]", "{a,b}", "a=b", "a:b", "a b", "ä", "a\nb", "a\0b"])
def test_a_path_that_could_mean_something_else_is_refused(storage: Storage, path: str):
    for ask in (storage.read, storage.size, storage.uri, storage.local_path, lambda path: storage.seal([path])):
        with pytest.raises(UnsafePath):
            ask(path)
    with pytest.raises(UnsafePath):
        storage.put_new(path, b"x", DECIDED)
    with pytest.raises(UnsafePath):
        storage.replace(path, b"x")


@pytest.mark.parametrize("path", ["../x", "a/../b", "/etc/passwd", "a//b", "", "a\0b"])
def test_nothing_outside_is_listed_or_deleted(storage: Storage, path: str):
    with pytest.raises(UnsafePath):
        storage.list(path)
    with pytest.raises(UnsafePath):
        storage.delete([path])


@pytest.mark.proves("G3.2")
def test_of_many_threads_one_creates_and_the_others_see_the_same(storage_under_test: StorageUnderTest):
    start = threading.Barrier(8)

    def put(number: int) -> PutResult:
        storage = storage_under_test.open(lambda moment: None)
        start.wait(LONGEST)
        return put_until_known(storage, ENTRY, b"one\n", DECIDED)

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(put, range(8)))
    # A busy store may lose the creator's answer: then it sees its own bytes when it asks again.
    assert results.count(PutResult.CREATED) <= 1
    assert set(results) <= {PutResult.CREATED, PutResult.SAME}
    assert storage_under_test.open(lambda moment: None).read(ENTRY) == b"one\n"


@pytest.mark.proves("G3.2")
def test_of_many_processes_one_wins_each_version_and_its_bytes_stay(storage_under_test: StorageUnderTest):
    versions = 60 if storage_under_test.kind == "local" else size(4, 30)  # the S3 server's locks take seconds
    paths = [log_entry_path(LOCATION, version) for version in range(versions)]
    racers = {body: putting(storage_under_test, body, *paths) for body in ("a", "b", "c")}
    for racer in racers.values():  # as close together as it gets
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    results = {body: racer.communicate(timeout=LONGEST * 4)[0].split() for body, racer in racers.items()}
    storage = storage_under_test.open(lambda moment: None)
    for number, path in enumerate(paths):
        winners = [body for body, said in results.items() if said[number] in ("created", "same")]
        assert len(winners) == 1, f"version {number}: {winners}"
        assert storage.read(path) == winners[0].encode()
        assert all(said[number] == "other" for body, said in results.items() if body not in winners)


@pytest.mark.proves("G3.2")
@pytest.mark.parametrize(("moment", "result"), [("put:before", PutResult.CREATED), ("put:answered", PutResult.SAME)])
def test_after_a_crash_the_next_process_finds_or_creates_the_same_entry(storage_under_test: StorageUnderTest, moment: str, result: PutResult):
    dying = putting(storage_under_test, "one", ENTRY, kill_at=moment)
    assert dying.communicate("go\n", timeout=LONGEST)[0] == ""
    assert dying.returncode == KILLED
    storage = storage_under_test.open(lambda moment: None)
    assert storage.put_new(ENTRY, b"one", DECIDED) is result
    assert storage.read(ENTRY) == b"one"
    assert storage.list(LOCATION) == [StoredFile(ENTRY, 3)]
