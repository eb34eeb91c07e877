"""Processes that write to one folder of records at once and die: some at a moment of the clock, some at a named one.

`python record_nursery.py FOLDER ACKNOWLEDGED KILLS SEED`; a line `number id` is written to ACKNOWLEDGED once it is answered.
"""

import os
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import NoReturn

from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, RecordFilters
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.embedded import EmbeddedRepository, segments
from tracelake_sdk.records.repository.embedded.folders import write_all

AT_ONCE = 3
ROOM = 1_000_000  # numbers of one life
TARGETS = [MetadataTarget(source_id="erp", schema="sales", table=f"t{number}") for number in range(3)]
CONTEXT = MetadataContext(run_id="kills-1", cluster="c", workspace="w", tenant="main")
KIND = Kind(
    name="note", owner="tests", description="Something was noted.", identity=["payload.number"],
    schema={"type": "object", "properties": {"number": {"type": "integer"}}},
)  # fmt: skip
NOON = datetime(2020, 5, 17, 12, tzinfo=UTC)
# Where a life may end; the log is rotated and snapshots are taken all the time.
MOMENTS = [
    "store:staged", "store:turn", "append:before", "append:half", "append:done", "store:logged", "rotate:before", "rotate:made", "rotate:named",
    "write:index.json:half", "replace:index.json:written", "write:index/identities:half", "replace:index/identities:written", "write:log/:half",
]  # fmt: skip


def record_of(number: int) -> MetadataRecord:
    payload = {"number": number, "again": str(number) * (number % 50), "end": number}
    return MetadataRecord(target=TARGETS[number % 3], kind="note", payload=payload, produced_at=NOON + timedelta(seconds=number % 999), producer_id="p.v1")


def opened(folder: str, kill_at: str | None = None, after: int = 0) -> EmbeddedRepository:
    left = after

    def die(moment: str) -> None:
        nonlocal left
        kind, _, end = (kill_at or "").rpartition("/:") if kill_at and "/:" in kill_at else ("", "", "")
        if moment == kill_at or (kind and moment.startswith(f"{kind}/") and moment.endswith(end)):
            left -= 1
            if left < 0:
                _die()

    return EmbeddedRepository(folder, tenant="main", segment_bytes=6000, snapshot_records=40, watch=die)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def _half(handle: int, body: bytes) -> None:
    """The log's own write, torn."""
    if _Torn.left == 0:
        os.write(handle, body[: len(body) // 2])
        _die()
    _Torn.left -= 1
    write_all(handle, body)


class _Torn:
    left: int = -1  # writes until the torn one


def live(folder: str, acknowledged: Path, life: int, random: Random, kill_at: str | None) -> None:
    after = random.randrange(4)
    if kill_at == "append:half":
        _Torn.left = after
        segments.write_all = _half
    repository = opened(folder, kill_at, after)
    answers = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = life * ROOM
    while number < (life + 1) * ROOM:
        batch = [record_of(number + place) for place in range(random.choice([1, 1, 2, 7]))]
        # What others write too: exactly one of all stores it.
        batch.append(record_of(-random.randrange(1, 4 * life + 40)))
        for record, result in zip(batch, repository.bulk_store(batch, CONTEXT), strict=True):
            if not result.accepted:
                sys.exit(f"it was {result.result}: {result.problem}")
            os.write(answers, f"{record.payload['number']} {result.id}\n".encode())
        number += len(batch) - 1
        _read(repository, random)
        time.sleep(0.004)  # so that a life is many moments and not many records


def _read(repository: EmbeddedRepository, random: Random) -> None:
    """Everything that can be seen is whole."""
    found = repository.latest(random.choice(TARGETS), "note", CONTEXT)
    seen = [found] if found else []
    if random.random() < 0.1:
        seen += repository.query(RecordFilters(limit=20), CONTEXT).items
    for stored in seen:
        if stored.record.payload != record_of(stored.record.payload["number"]).payload:
            sys.exit(f"record {stored.id} was read torn")


def _born(folder: str, acknowledged: Path, life: int, random: Random) -> tuple[int, bool]:
    """Its process id, and whether it ends by itself."""
    kill_at = random.choice(MOMENTS) if random.random() < 0.6 else None
    child = os.fork()
    if child == 0:
        try:
            live(folder, acknowledged, life, random, kill_at)
        except SystemExit as end:
            os.write(2, f"{end}\n".encode())
        finally:
            os._exit(1)
    return child, kill_at is not None


def main(folder: str, acknowledged: Path, kills: int, seed: int) -> None:
    random = Random(seed)
    with opened(folder) as first:
        first.register(KIND)
    living: list[tuple[int, bool]] = []
    for life in range(kills):
        living.append(_born(folder, acknowledged, life, Random(seed + life)))
        while len(living) >= min(AT_ONCE, kills - life):
            time.sleep(random.uniform(0.01, 0.08))
            child, by_itself = living.pop(random.randrange(len(living)))
            if by_itself:
                _wait(child, 10)
            else:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                sys.exit(f"a life ended by itself with {status}")
    if living:
        sys.exit("somebody lives")


def _wait(child: int, seconds: float) -> None:
    """Until it has died where it was to, or is killed as all others."""
    deadline = time.monotonic() + seconds
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            return
        time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
