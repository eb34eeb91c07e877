"""The log is followed over broken connections, each record once; what is wrong from the beginning is said at once."""

from pathlib import Path
from typing import Any

import pytest
from support.wire import Asked, Said, serving

from tracelake_sdk.errors import NotRunning, TracelakeError, Unauthenticated
from tracelake_sdk.errors.records import RepositoryUnavailable, TooManyTails
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, TailPage
from tracelake_sdk.records.builders import RecordBuilder, in_run
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.records.repository.following import follow
from tracelake_sdk.records.repository.remote import RemoteRepository
from tracelake_sdk.testing import MemoryRepository

pytestmark = pytest.mark.proves("M2.5")

CONTEXT = in_run(MetadataContext(cluster="c", workspace="w", tenant="main"), job="load", run="r", attempt=1)
BUILDER = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")
DOWN = Said(503, {}, "text/plain")


class Enough(Exception):
    """The test has seen what it wants to see."""


class Waits:
    """Counts the pauses in the place of time passing, and ends the loop that has no end."""

    def __init__(self, most: int) -> None:
        self.pauses: list[float] = []
        self._most: int = most

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        if len(self.pauses) >= self._most:
            raise Enough


def _record(number: int) -> MetadataRecord:
    return BUILDER.ingestion_volume(rows=number, bytes=None, conditions=[("n", "eq", number)])


def _rows(page: TailPage) -> list[int]:
    return [stored.record.payload["rows"] for stored in page.items]


def _line(*numbers: int) -> bytes:
    """A page as the service would stream it; its offset is the last number."""
    repository = MemoryRepository()
    repository.bulk_store([_record(number) for number in numbers], CONTEXT)
    page = repository.tail(CONTEXT)
    return page.model_copy(update={"offset": str(numbers[-1]) if numbers else "0"}).model_dump_json().encode() + b"\n"


def _stream(*parts: bytes) -> Said:
    return Said(200, b"".join(parts), "application/x-ndjson")


def _problem(error: TracelakeError) -> Said:
    return Said(error.status, error.problem(), "application/problem+json")


def _offsets(asked: list[Asked]) -> list[str]:
    return [one.path.partition("offset=")[2].partition("&")[0] for one in asked]


def test_a_folder_is_read_again_and_each_record_is_returned_once(tmp_path: Path) -> None:
    with EmbeddedRepository(tmp_path, tenant="main") as repository:
        repository.bulk_store([_record(number) for number in range(5)], CONTEXT)
        waited = 0

        def wait(seconds: float) -> None:
            nonlocal waited
            waited += 1
            if waited == 3:
                raise Enough
            repository.store(_record(10 + waited), CONTEXT)

        told: list[list[int]] = []
        with pytest.raises(Enough):
            for page in follow(repository, CONTEXT, limit=2, wait=wait):
                told.append(_rows(page))
    assert told == [[0, 1], [2, 3], [4], [], [11], [], [12], []]


def test_a_stream_that_ends_or_breaks_continues_after_the_last_page() -> None:
    answers = iter([_stream(_line(1, 2), b"\n", _line(3)), None, DOWN, _stream(_line(4), _line(5)[:-20]), _stream(_line(5)), _problem(Unauthenticated())])
    told: list[list[int]] = []
    broken: list[str] = []
    waits = Waits(100)
    with serving(lambda asked: next(answers)) as server, RemoteRepository(server.url, "t") as repository, pytest.raises(Unauthenticated):
        for page in follow(repository, CONTEXT, "0", kinds=["ingestion_volume"], limit=7, broken=lambda error: broken.append(error.code), wait=waits):
            told.append(_rows(page))
    assert told == [[1, 2], [3], [4], [5]]
    assert _offsets(server.asked) == ["0", "3", "3", "3", "4", "5"]
    assert all("follow=true" in asked.path and "limit=7" in asked.path and "kinds=ingestion_volume" in asked.path for asked in server.asked)
    assert broken == ["repository_unavailable"] * 2  # once each time, however often it is tried
    assert waits.pauses == [1.0, 1.0, 2.0, 1.0, 1.0]


def test_an_unavailable_repository_is_polled_with_backoff_and_a_full_one_after_its_retry_after() -> None:
    full = _problem(TooManyTails(retry_after=7))
    answers = iter([_stream(_line(1)), *[DOWN] * 6, full])
    waits = Waits(8)
    with serving(lambda asked: next(answers)) as server, RemoteRepository(server.url, "t") as repository, pytest.raises(Enough):
        list(follow(repository, CONTEXT, wait=waits))
    assert waits.pauses == [1.0, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 7]


@pytest.mark.parametrize(("said", "error"), [
    (DOWN, RepositoryUnavailable), (None, RepositoryUnavailable), (_problem(TooManyTails()), TooManyTails), (Said(200, b"<html>", "text/html"), NotRunning),
])  # fmt: skip
def test_what_is_wrong_from_the_beginning_is_raised_at_once(said: Any, error: type[TracelakeError]) -> None:
    waits = Waits(1)
    with serving(lambda asked: said) as server, RemoteRepository(server.url, "t") as repository, pytest.raises(error):
        list(follow(repository, CONTEXT, wait=waits))
    assert waits.pauses == []
