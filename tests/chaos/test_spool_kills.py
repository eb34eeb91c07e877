"""The spool under kills: every acknowledged record is in the repository exactly once, whichever process died."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import spool_nursery
from support.sizes import seed, size

from tracelake_sdk.records import MetadataContext
from tracelake_sdk.records.emitter import flush_folder, set_aside
from tracelake_sdk.records.repository.embedded import EmbeddedRepository

KILLS = size(50, 500)


def _all_rows(repository: EmbeddedRepository, context: MetadataContext) -> list[int]:
    rows: list[int] = []
    offset = None
    while (page := repository.tail(context, offset, limit=10_000)).items:
        rows += [stored.record.payload["rows"] for stored in page.items]
        offset = page.offset
    return rows


@pytest.mark.proves("M2.3")
@pytest.mark.timeout(size(300, 2400))
def test_no_acknowledged_record_is_lost_or_stored_twice_by_kills(tmp_path: Path) -> None:
    spool, folder, acknowledged = tmp_path / "spool", tmp_path / "records", tmp_path / "acknowledged"
    nursery = [sys.executable, spool_nursery.__file__, str(spool), str(folder), str(acknowledged), str(KILLS), str(seed())]
    done = subprocess.run(nursery, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"seed {seed()}"
    answered = [int(line) for line in acknowledged.read_text().split("\n") if line]
    assert len(answered) > KILLS
    repository = EmbeddedRepository(folder, tenant="main")
    before = len(_all_rows(repository, spool_nursery.CONTEXT))
    report = flush_folder(spool, repository)
    assert (report.living, report.problem) == (0, None)
    rows = _all_rows(repository, spool_nursery.CONTEXT)
    print(f"seed {seed()}: {KILLS} kills, {len(answered)} acknowledged, {before} delivered before the end, {report.delivered}")
    assert len(rows) == len(set(rows)), "something is stored twice"
    assert not set(answered) - set(rows), "something acknowledged is lost"
    # At most one a life: written, and killed before the answer.
    assert len(set(rows) - set(answered)) <= KILLS
    assert not set_aside(spool)
    assert [path.name for path in spool.iterdir() if path.name != "refused"] == []
    repository.close()


SCRIPT = """
import sys
from support.spool_nursery import CONTEXT, BUILDER, record_of
from tracelake_sdk.records.emitter import Emitter
from tracelake_sdk.errors.records import RepositoryUnavailable

class Down:
    def bulk_store(self, records, context):
        raise RepositoryUnavailable

emitter = Emitter(Down(), sys.argv[1])
for number in range(1000):
    emitter.emit(BUILDER.record("ingestion_volume", {"rows": "poison"}) if number == 500 else record_of(number), CONTEXT)
"""


@pytest.mark.proves("M2.3")
def test_999_good_and_one_poisoned_record_across_an_outage_and_a_script_that_ends_at_once(tmp_path: Path) -> None:
    spool, folder = tmp_path / "spool", tmp_path / "records"
    environment = os.environ | {"PYTHONPATH": str(Path(spool_nursery.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(spool)], capture_output=True, text=True, check=False, env=environment, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    repository = EmbeddedRepository(folder, tenant="main")
    report = flush_folder(spool, repository)
    assert (report.delivered.entries, report.delivered.stored, report.delivered.refused, report.problem) == (1000, 999, 1, None)
    assert _all_rows(repository, spool_nursery.CONTEXT) == [number for number in range(1000) if number != 500]
    assert [(line.record["payload"], line.problem["code"]) for line in set_aside(spool)] == [({"rows": "poison"}, "record_refused")]
    assert flush_folder(spool, repository).delivered.entries == 0
    repository.close()
