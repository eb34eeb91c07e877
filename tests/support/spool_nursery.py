"""Processes that emit into one spool folder and die: each round forks one, lets it live a moment, and kills it.

`python spool_nursery.py SPOOL REPOSITORY ACKNOWLEDGED ROUNDS SEED`; a number is written to ACKNOWLEDGED once `emit` has returned.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget, StoreResult
from tracelake_sdk.records.builders import RecordBuilder
from tracelake_sdk.records.emitter import Emitter, flush_folder
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

BUILDER = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")
CONTEXT = MetadataContext(cluster="c", workspace="w", tenant="main", run_id="kills:1")
ROOM = 100_000  # numbers of one round


class Unsteady(EmbeddedRepository):
    """Down now and then, and some answers are lost after it stored."""

    random: Random = Random()

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        if self.random.random() < 0.1:
            raise RepositoryUnavailable
        results = super().bulk_store(records, context)
        if self.random.random() < 0.1:
            raise RepositoryUnavailable
        return results


def record_of(number: int) -> MetadataRecord:
    return BUILDER.ingestion_volume(rows=number, bytes=None, conditions=[("n", "eq", number)])


def _live(spool: Path, folder: str, acknowledged: Path, round_number: int, seed: int) -> None:
    repository = Unsteady(folder, tenant="main")
    repository.random = Random(seed)
    if round_number % 5 == 4:  # one that only drains what the others left
        while True:
            flush_folder(spool, repository)
            time.sleep(0.001)
    emitter = Emitter(repository, spool, segment_bytes=20_000)
    answers = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(round_number * ROOM, (round_number + 1) * ROOM):
        emitter.emit(record_of(number), CONTEXT)
        os.write(answers, b"%d\n" % number)
        if number % 10 == 0:
            time.sleep(0.005)  # so that a life is many moments and not many records


def main(spool: Path, folder: str, acknowledged: Path, rounds: int, seed: int) -> None:
    random = Random(seed)
    EmbeddedRepository(folder, tenant="main").close()
    for number in range(rounds):
        child = os.fork()
        if child == 0:
            try:
                _live(spool, folder, acknowledged, number, seed + number)
            finally:
                os._exit(1)
        time.sleep(random.uniform(0.02, 0.4))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            sys.exit(f"round {number} ended by itself")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
