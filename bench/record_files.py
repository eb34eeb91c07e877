"""The file part of row `records`: a folder with n records, opened again; the newest of a target, start time included; single stores, with and without fsync."""

import random
import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from bench.figures import BenchFailed, percentile
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.kinds import Kind
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

SMALL, LARGE = 1_000, 100_000  # records of the folders whose times are to be the same
_TARGETS = 200                 # the history of each grows with n
_LOOKS = 500                   # at the newest of some target
_OPENINGS = 5
_AT_ONCE = 5_000
_BEGUN = datetime(2020, 1, 1, tzinfo=UTC)
KIND = Kind(
    name="bench_tally", owner="bench", description="Something was counted.",
    schema={"type": "object", "required": ["rows"], "properties": {"rows": {"type": "integer"}, "note": {"type": "string"}}},
)  # fmt: skip
CONTEXT = MetadataContext(job_id="bench", run_id="bench-1", cluster="bench", workspace="bench", tenant="main")


def record(place: int) -> MetadataRecord:
    payload = {"rows": place, "note": "as it was counted", "window_start": f"{place}"}  # the window makes records of one run different
    return MetadataRecord(target=_target(place), kind=KIND.name, payload=payload, produced_at=_BEGUN + timedelta(seconds=place), producer_id="bench.v1")


class RecordFiles:
    """Folders with records in them, filled once."""

    def __init__(self, folder: Path, *, large: int = LARGE, small: int = SMALL) -> None:
        self._folder: Path = folder
        self._sizes: dict[str, int] = {"small": min(small, large), "large": large}
        self._runs: int = 0
        for name, number in self._sizes.items():
            with self._open(name) as repository:
                repository.register(KIND)
                for first in range(0, number, _AT_ONCE):
                    repository.bulk_store([record(place) for place in range(first, min(first + _AT_ONCE, number))], CONTEXT)

    def run(self, *, stores: int = 2_000, durable: int = 200) -> dict[str, float]:
        """Milliseconds of `latest` (p50) and of a start with its first `latest`, in the small and the large folder; stores a second."""
        self._runs += 1
        found: dict[str, float] = {}
        for name, number in self._sizes.items():
            found[f"file start {name}"] = median(self._start(name, number) for _ in range(_OPENINGS))
            found[f"file latest {name}"] = self._latest(name, number)
        # How the large folder compares with the small one, with everything that a short program does counted in.
        starts = [found[f"file start {name}"] + 100 * found[f"file latest {name}"] for name in ("small", "large")]
        found["file growth"] = starts[1] / starts[0]
        found["file store"] = self._stores(stores, fsync=False)
        found["file store fsync"] = self._stores(durable, fsync=True)
        return found

    def _open(self, name: str, *, fsync: bool = False) -> EmbeddedRepository:
        return EmbeddedRepository(self._folder / name, tenant="main", fsync=fsync)

    def _start(self, name: str, number: int) -> float:
        begun = time.perf_counter()
        with self._open(name) as repository:
            self._look(repository, number)
            return (time.perf_counter() - begun) * 1000

    def _latest(self, name: str, number: int) -> float:
        samples: list[float] = []
        with self._open(name) as repository:
            for _ in range(_LOOKS):
                begun = time.perf_counter()
                self._look(repository, number)
                samples.append((time.perf_counter() - begun) * 1000)
        return percentile(samples, 0.5)

    def _look(self, repository: EmbeddedRepository, number: int) -> None:
        place = random.randrange(min(_TARGETS, number))
        found = repository.latest(_target(place), KIND.name, CONTEXT)
        if found is None or found.record.payload["rows"] % _TARGETS != place:
            raise BenchFailed("the newest record of a target was not found")

    def _stores(self, number: int, *, fsync: bool) -> float:
        """Stores for one second, one record at a time, into a separate folder."""
        records = [record(place) for place in range(number)]
        name = f"stores-{self._runs}-{fsync}"
        with self._open(name, fsync=fsync) as repository:
            repository.register(KIND)
            begun = time.perf_counter()
            for each in records:
                if repository.store(each, CONTEXT).result != "stored":
                    raise BenchFailed("a record was not stored")
            seconds = time.perf_counter() - begun
        shutil.rmtree(self._folder / name)
        return number / seconds


def _target(place: int) -> MetadataTarget:
    return MetadataTarget(source_id="bench", schema="public", table=f"table_{place % _TARGETS}")
