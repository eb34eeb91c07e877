"""Old records of every sort, a set of questions about them, and a compaction that does without Spark."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from support.record_model import NOTE, TALLY_1, TALLY_2
from tracelake_sdk.records import Aggregation, MetadataContext, MetadataRecord, MetadataTarget, PathFilter, Quality, RecordFilters, Window
from tracelake_sdk.records.compaction_program import CompactionOrder
from tracelake_sdk.records.ids import RecordIds
from tracelake_sdk.records.kinds import Retention
from tracelake_sdk.records.repository.contract import MetadataRepository

ARCHIVED = Retention(keep="rolling", days=30, then="archive")
AGED_TALLY_1 = TALLY_1.model_copy(update={"retention": ARCHIVED})
AGED_TALLY_2 = TALLY_2.model_copy(update={"retention": ARCHIVED})
AGED_NOTE = NOTE.model_copy(update={"retention": ARCHIVED, "identity": ["payload.group"], "json_schema": {"type": "object", "properties": {"group": {"type": "string"}}}})
FADING = AGED_NOTE.model_copy(update={"name": "fading", "retention": Retention(keep="rolling", days=7, then="drop")})
KEPT = AGED_NOTE.model_copy(update={"name": "kept", "retention": Retention()})
KINDS = (AGED_TALLY_1, AGED_NOTE, KEPT)

NOON = datetime(2020, 5, 17, 12, tzinfo=UTC)
TARGETS = [
    MetadataTarget(source_id=source, schema=schema, table=table, extras={"of": table})
    for source, schema, table in (
        ("erp", "sales", "orders"), ("erp", "sales", "Orders"), ("a.b", "c", "d"), ("a", "b.c", "d"), ("../..", "etc", "passwd"), ("żółw 🐢", "é", "a\nb'\";--"),
    )
]  # fmt: skip

_ARROW = {"string": pa.string(), "strings": pa.list_(pa.string()), "integer": pa.int32(), "long": pa.int64(), "timestamp": pa.timestamp("us", "UTC")}


_DAY = 86400_000
_SINCE_NOON = time.time_ns() // 1_000_000 % _DAY - _DAY // 2  # once: ids that are made later stay later


class OldIds(RecordIds):
    """Ids as they were made at noon some days ago: near midnight the next partition is made with the one that is needed."""

    def __init__(self, days: float) -> None:
        super().__init__()
        self._ago = round(days * _DAY) + _SINCE_NOON

    def new(self) -> UUID:
        made = super().new()
        return UUID(int=made.int - (self._ago << 80))


def by_arrow(order: CompactionOrder, folder: Path) -> list[Path]:
    """What the Spark program does, in a moment."""
    lines = [json.loads(line) for line in Path(order.source).read_text().splitlines()]
    apart = sorted({line[order.apart] for line in lines}) if order.apart else [None]
    files: list[Path] = []
    for number, value in enumerate(apart):
        rows = sorted((line for line in lines if order.apart is None or line[order.apart] == value), key=lambda line: [line[name] for name in order.sort])
        for first in range(0, len(rows), order.rows_per_file):
            files.append(Path(order.target) / f"part-{number}-{first}.parquet")
            files[-1].parent.mkdir(exist_ok=True)
            some = rows[first : first + order.rows_per_file]
            table = pa.table({name: pa.array([row[name] for row in some], _ARROW[type]) for name, type in order.columns.items()})
            pq.write_table(table, files[-1], row_group_size=7)
    return files


def records(random: Random, number: int, kinds: Sequence[str] = ("tally", "tally", "note", "kept")) -> list[MetadataRecord]:
    return [_record(random, place, random.choice(kinds)) for place in range(number)]


def _record(random: Random, place: int, kind: str) -> MetadataRecord:
    payload: dict[str, Any] = {"rows": random.choice([0, 1, 1.0, 2.5, -3, 1e16, "7", "é\n\u2028🐢", True, None]), "group": f"g{place}"}
    if random.random() < 0.5:
        start = NOON + timedelta(hours=random.randrange(100))
        payload |= {"window_start": start.isoformat(), "window_end": (start + timedelta(hours=1 + random.randrange(5))).isoformat()}
    if kind == "tally" and random.random() < 0.5:
        payload["label"] = random.choice(["l", "m"])
    extras = random.choice([{}, {"dataset": {"version": 3}}, {"rows": 1}])
    return MetadataRecord(
        target=random.choice(TARGETS), kind=kind, payload=payload, produced_at=NOON + timedelta(hours=random.randrange(100), microseconds=random.randrange(2)),
        producer_id=random.choice(["loader.v1", "loader.v2"]), version=1 if kind == "tally" else None, quality=random.choice([None, *Quality]), extras=dict(extras),
    )  # fmt: skip


def filters(random: Random) -> RecordFilters:
    target = random.choice(TARGETS)
    first = NOON + timedelta(hours=random.randrange(-5, 100))
    some: dict[str, Any] = {
        "kinds": random.sample(["tally", "note", "kept", "recon_result"], random.randrange(1, 3)), "source_id": target.source_id, "schema": target.schema_name,
        "table": target.table, "producer_id": random.choice(["loader.v1", "nobody.v1"]), "run_id": random.choice(["run-1", "run-2"]), "cluster": "c1",
        "workspace": random.choice(["w1", "w2"]), "quality": random.choice(list(Quality)), "window": Window(start=first, end=first + timedelta(hours=20)),
        "produced": random.choice([Window(start=first), Window(end=first), Window(start=first, end=first + timedelta(hours=9))]),
        "where": [random.choice([
            PathFilter(path="payload.rows", op="ge", value=1), PathFilter(path="payload.rows", op="eq", value=True), PathFilter(path="payload.unit", op="eq", value="rows"),
            PathFilter(path="payload.title", op="in", value=["l"]), PathFilter(path="extras.dataset.version", op="exists", value=True),
            PathFilter(path="context.run_id", op="ne", value="run-1"), PathFilter(path="target.table", op="gt", value="e"),
        ])],
        "kind_version": 1,
    }  # fmt: skip
    chosen = random.sample(sorted(some), random.randrange(4))
    return RecordFilters(**{name: some[name] for name in chosen}, limit=random.choice([1, 3, 7, 10_000]))


def aggregation(random: Random) -> Aggregation:
    groups = random.sample(["kind", "target", "producer_id", "day", "extras.dataset.version", "context.run_id"], random.randrange(3))
    if random.random() < 0.5:
        return Aggregation(group_by=groups)
    return Aggregation(metric=random.choice(["sum", "min", "max"]), path=random.choice(["payload.rows", "extras.rows"]), group_by=groups)


@dataclass(frozen=True)
class Questions:
    """The same questions for every repository."""

    seed: int
    number: int

    def answers(self, repository: MetadataRepository, context: MetadataContext) -> list[Any]:
        random = Random(self.seed)
        found_answers: list[Any] = []
        for _ in range(self.number):
            asked = filters(random)
            found_answers.append(_paged(repository, asked, context))
            wanted = aggregation(random)
            # Sums of floating numbers depend on the order of their terms, which is the same on both sides.
            found_answers.append([found.model_dump(mode="json") for found in repository.aggregate(asked, wanted, context)])
        for target in TARGETS:
            for kind in ("tally", "note", "kept"):
                latest = repository.latest(target, kind, context)
                found_answers.append(latest and latest.model_dump(mode="json"))
                found_answers.append([found.model_dump(mode="json") for found in repository.history(target, kind, context, limit=5)])
        found_answers += [[(found.key, found.extras) for found in repository.targets(context, kind)] for kind in (None, "tally", "kept")]
        found_answers.append(tailed(repository, context))
        return found_answers


def _paged(repository: MetadataRepository, asked: RecordFilters, context: MetadataContext, most: int = 12) -> list[Any]:
    """Page after page, as far as one likes to leaf."""
    found_answers: list[Any] = []
    for _ in range(most):
        page = repository.query(asked, context)
        found_answers.append([found.model_dump(mode="json") for found in page])
        found_answers.append(page.next)
        if page.next is None:
            break
        asked = asked.model_copy(update={"page": page.next})
    return found_answers


def tailed(repository: MetadataRepository, context: MetadataContext, offset: str | None = None, limit: int = 7) -> list[Any]:
    found_answers: list[Any] = []
    while items := (page := repository.tail(context, offset, limit=limit)).items:
        found_answers += [found.model_dump(mode="json") for found in items]
        offset = page.offset
    return found_answers


