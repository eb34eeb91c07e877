"""A repository of records under a prefix of an object store: lost answers, dead writers, and what a rebuild makes of them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import obstore
import pytest
from obstore.store import S3Store
from support.repositories import s3_options
from support.s3_faults import Fault, FaultyS3, faulty_s3
from support.s3_servers import S3Server
from support.sizes import seeded, size

from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters, StoreResult
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

pytestmark = [pytest.mark.xdist_group("s3"), pytest.mark.proves("M2.2")]

ORDERS = MetadataTarget(source_id="erp", schema="sales", table="orders")
CONTEXT = MetadataContext(run_id="run-1", cluster="c", workspace="w", tenant="main")
NOTE = Kind(name="note", owner="tests", description="Something was noted.", schema={"type": "object"})
NOON = datetime(2020, 5, 17, 12, tzinfo=UTC)


def note(number: int) -> MetadataRecord:
    payload = {"number": number, "window_start": f"{number}"}
    return MetadataRecord(target=ORDERS, kind="note", payload=payload, produced_at=NOON + timedelta(seconds=number), producer_id="p.v1")


def opened(server: S3Server, url: str, **options: str) -> EmbeddedRepository:
    return EmbeddedRepository(url, tenant="main", options=s3_options(server) | options)


def objects(server: S3Server, url: str) -> S3Store:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix=prefix, config=s3_options(server), client_options={"allow_http": True})  # pyright: ignore[reportArgumentType]


def names(store: S3Store) -> list[str]:
    return sorted(item["path"] for page in obstore.list(store) for item in page)


def tailed(repository: EmbeddedRepository) -> list[int]:
    return [stored.record.payload["number"] for stored in repository.tail(CONTEXT).items]


@pytest.fixture
def faulty(s3_server: S3Server) -> Iterator[FaultyS3]:
    with faulty_s3(s3_server) as proxy:
        proxy.about = "/log/"
        yield proxy


def test_the_layout_is_that_of_a_folder(s3_server: S3Server) -> None:
    url = s3_server.fresh_url()
    repository = opened(s3_server, url)
    repository.register(NOTE)
    repository.bulk_store([note(1), note(2)], CONTEXT)
    repository.store(note(3), CONTEXT)
    assert repository.rebuild().as_indexed
    assert names(objects(s3_server, url)) == [
        "index.json", "index/identities", "kinds/note/1.json", "log/000000000001.jsonl", "log/000000000002.jsonl",
        *(f"records/note/erp.sales.orders/20200517T12000{number}000000Z_run-1.json" for number in (1, 2, 3)),
    ]  # fmt: skip
    assert tailed(opened(s3_server, url)) == [1, 2, 3]


def test_whatever_becomes_of_an_answer_each_record_is_stored_once(s3_server: S3Server, faulty: FaultyS3) -> None:
    url, random = s3_server.fresh_url(), seeded()
    repository = opened(s3_server, url, endpoint=faulty.endpoint)
    opened(s3_server, url).register(NOTE)
    faults = [Fault.LOST_BEFORE, Fault.LOST_AFTER, Fault.ERROR_BEFORE, Fault.ERROR_AFTER, Fault.BUSY_AFTER]
    number_stored = size(12, 60)
    for number in range(number_stored):
        faulty.faults.extend(random.choice(faults) for _ in range(random.choice([1, 1, 4])))  # more than the store's client tries by itself
        for _ in range(20):
            try:
                result = repository.store(note(number), CONTEXT)
            except RepositoryUnavailable:
                continue
            assert result.accepted
            break
        else:
            raise AssertionError("it was never stored")
        faulty.faults.clear()
    assert len(set(faulty.met) & set(faults)) >= 3
    assert tailed(opened(s3_server, url)) == list(range(number_stored))
    rebuilt = opened(s3_server, url).rebuild()
    assert (rebuilt.as_indexed, rebuilt.records, rebuilt.logged) == (True, number_stored, 0)


def test_a_record_whose_writer_died_before_its_line_is_stored_once(s3_server: S3Server) -> None:
    url = s3_server.fresh_url()
    repository, store = opened(s3_server, url), objects(s3_server, url)
    repository.register(NOTE)
    repository.bulk_store([note(1), note(2), note(3)], CONTEXT)
    # As after the death of its writer: its object is there, and no line names it.
    whole = obstore.get(store, "log/000000000001.jsonl").bytes().to_bytes().decode().splitlines()
    obstore.put(store, "log/000000000001.jsonl", "\n".join([whole[0], whole[1], ""]).encode())
    obstore.delete(store, ["index.json", "index/identities"])
    assert tailed(opened(s3_server, url)) == [1]
    sent_again: StoreResult = opened(s3_server, url).store(note(2), CONTEXT)
    assert (sent_again.result, sent_again.id is not None and sent_again.id.hex == json.loads(whole[2])["id"]) == ("stored", False)
    rebuilt = opened(s3_server, url).rebuild()
    assert (rebuilt.records, rebuilt.logged, rebuilt.removed) == (3, 1, 1)
    assert tailed(opened(s3_server, url)) == [1, 2, 3]
    assert len([name for name in names(store) if name.startswith("records/")]) == 3
    assert len(opened(s3_server, url).query(RecordFilters(), CONTEXT)) == 3
