"""A store that loses, delays and falsifies its answers to a put: one version, whatever happens."""

import threading
from collections.abc import Iterator
from uuid import UUID

import pytest
from support.processes import KILLED, LONGEST, wait_until
from support.s3_faults import Fault, FaultyS3, faulty_s3
from support.s3_servers import S3Server
from support.sizes import seeded, size

from tracelake.storage.contract import PutResult, Storage, StoredFile
from tracelake.storage.paths import log_entry_path, table_location
from tracelake_sdk.errors import StorageOutcomeUnknown, StorageUnavailable

from .putting import DECIDED, StorageUnderTest, put_until_known, putting

pytestmark = [pytest.mark.xdist_group("s3"), pytest.mark.proves("G3.2")]

LOCATION = table_location(UUID(int=1), UUID(int=2), UUID(int=3))
ENTRY = log_entry_path(LOCATION, 0)
LANDS = {Fault.LOST_AFTER, Fault.ERROR_AFTER, Fault.BUSY_AFTER, Fault.SLOW}
FAULTS = [fault for fault in Fault if fault is not Fault.NONE]


@pytest.fixture
def faulty(s3_server: S3Server) -> Iterator[FaultyS3]:
    with faulty_s3(s3_server) as proxy:
        yield proxy


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return s3_server.fresh_url()


@pytest.fixture
def straight(s3_server: S3Server, url: str) -> Storage:
    return s3_server.open(url)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_an_answer_that_never_arrived_is_unknown_and_putting_again_resolves_it(s3_server: S3Server, faulty: FaultyS3, url: str, straight: Storage, fault: Fault):
    storage = s3_server.open(url, endpoint=faulty.endpoint, timeout_seconds=2 if fault in (Fault.SLOW, Fault.LATE) else 30)
    faulty.faults.append(fault)
    with pytest.raises(StorageOutcomeUnknown):
        storage.put_new(ENTRY, b"one", DECIDED)
    wait_until(lambda: faulty.met == [fault] and faulty.landed == ([200] if fault in LANDS else []), "it has landed, or never will while anybody waits")
    assert straight.read(ENTRY) == (b"one" if fault in LANDS else None)
    patient = s3_server.open(url, endpoint=faulty.endpoint)
    assert patient.put_new(ENTRY, b"one", DECIDED) is (PutResult.SAME if fault in LANDS else PutResult.CREATED)
    faulty.patience.set()  # what was on its way arrives now, and changes nothing
    wait_until(lambda: len(faulty.landed) == (1 if fault in (Fault.LOST_BEFORE, Fault.ERROR_BEFORE) else 2), "every put has reached the store or was lost")
    assert faulty.landed.count(200) == 1
    assert straight.list(LOCATION) == [StoredFile(ENTRY, 3)]
    assert straight.read(ENTRY) == b"one"


def test_a_late_put_of_one_who_gave_up_does_not_undo_what_others_wrote(s3_server: S3Server, faulty: FaultyS3, url: str, straight: Storage):
    faulty.faults.append(Fault.LATE)
    with pytest.raises(StorageOutcomeUnknown):
        s3_server.open(url, endpoint=faulty.endpoint, timeout_seconds=2).put_new(ENTRY, b"mine", DECIDED)
    wait_until(lambda: faulty.met == [Fault.LATE], "it is on its way")
    assert straight.put_new(ENTRY, b"theirs", DECIDED) is PutResult.CREATED
    faulty.patience.set()
    wait_until(lambda: faulty.landed == [412], "the late put was refused")
    assert straight.read(ENTRY) == b"theirs"
    assert s3_server.open(url, endpoint=faulty.endpoint).put_new(ENTRY, b"mine", DECIDED) is PutResult.OTHER


def test_a_line_of_versions_under_random_faults_is_the_line_that_was_meant(s3_server: S3Server, faulty: FaultyS3, url: str, straight: Storage):
    chance = seeded()
    quick = [fault for fault in FAULTS if fault not in (Fault.SLOW, Fault.LATE)]
    versions = size(20, 200)
    for version in range(versions):
        storage = s3_server.open(url, endpoint=faulty.endpoint)
        faulty.faults.extend(chance.choices(quick, k=chance.randrange(4)))
        assert put_until_known(storage, log_entry_path(LOCATION, version), b"entry %d" % version, DECIDED) in (PutResult.CREATED, PutResult.SAME)
    assert [straight.read(file.path) for file in straight.list(LOCATION)] == [b"entry %d" % version for version in range(versions)]
    assert faulty.landed.count(200) == versions


@pytest.mark.parametrize("fault", [Fault.SLOW, Fault.LATE], ids=["after_it_landed", "before_it_landed"])
def test_a_committer_that_dies_waiting_for_the_answer_leaves_one_version(s3_server: S3Server, faulty: FaultyS3, url: str, straight: Storage, fault: Fault):
    storage_under_test = StorageUnderTest("s3", s3_server.environment(url, endpoint=faulty.endpoint), lambda watch: straight)
    faulty.faults.append(fault)
    dying = putting(storage_under_test, "one", ENTRY)
    killer = threading.Thread(target=lambda: (wait_until(lambda: bool(faulty.met) and (fault is Fault.LATE or bool(faulty.landed)), "the put is on its way"), dying.kill()))
    killer.start()
    assert dying.communicate("go\n", timeout=LONGEST)[0] == ""
    killer.join(LONGEST)
    assert dying.returncode == KILLED
    assert straight.put_new(ENTRY, b"one", DECIDED) is (PutResult.SAME if fault is Fault.SLOW else PutResult.CREATED)
    faulty.patience.set()
    wait_until(lambda: len(faulty.landed) == 1, "the put of the dead one arrived")
    assert straight.read(ENTRY) == b"one"
    assert straight.list(LOCATION) == [StoredFile(ENTRY, 3)]


def test_a_store_that_is_down_is_unavailable_and_never_empty(s3_server: S3Server, url: str):
    nobody = s3_server.open(url, endpoint="http://127.0.0.1:9")
    for ask in (nobody.read, nobody.size, nobody.list, lambda path: nobody.seal([path]), lambda path: nobody.delete([path])):
        with pytest.raises(StorageUnavailable) as caught:
            ask(ENTRY)
        assert "127.0.0.1" not in caught.value.detail
    with pytest.raises(StorageOutcomeUnknown):
        nobody.put_new(ENTRY, b"one", DECIDED)
    with pytest.raises(StorageOutcomeUnknown):
        nobody.replace(ENTRY, b"one")
