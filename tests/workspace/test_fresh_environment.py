"""A script in a fresh virtual environment that has the SDK and nothing else emits and reads."""

import json
import shutil
import subprocess
import venv
from pathlib import Path

import pytest
from support.sdk_packages import ROOT, closure, files_of

SCRIPT = """
import json, sys
from datetime import UTC, datetime
from importlib.metadata import distributions
from tracelake_sdk.records.emitter import Emitter
from tracelake_sdk.records.builders import RecordBuilder, in_run
from tracelake_sdk.records import MetadataContext, MetadataTarget
from tracelake_sdk.records.repository.opening import open_repository

repository = open_repository(sys.argv[1])
orders = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")
run = in_run(MetadataContext(cluster="c", workspace="w", tenant="main"), job="load", run="r", attempt=1)
with Emitter(repository, sys.argv[2]) as emitter:
    emitter.emit(orders.ingestion_volume(rows=7, bytes=None, start=datetime(2026, 3, 1, tzinfo=UTC)), run)
    delivered = emitter.flush(60)
latest = repository.latest(orders.target, "ingestion_volume", run)
heavy = sorted({"pyspark", "duckdb", "fastapi", "psycopg", "pyarrow", "typer", "rich", "yaml"} & set(sys.modules))
print(json.dumps({"delivered": delivered, "rows": latest.record.payload["rows"], "heavy": heavy, "kinds": len(repository.kinds()), "installed": len(list(distributions()))}))
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of its own; packages are linked and not fetched, the SDK is copied."""
    place = tmp_path_factory.mktemp("fresh")
    venv.create(place / "env", with_pip=False, symlinks=True)
    (packages,) = (place / "env" / "lib").glob("python3*/site-packages")
    files_of(closure("tracelake-sdk") - {"tracelake-sdk"}, packages)
    shutil.copytree(ROOT / "sdk/src/tracelake_sdk", packages / "tracelake_sdk", ignore=shutil.ignore_patterns("__pycache__"))
    return place


@pytest.mark.proves("M4.3")
def test_a_script_with_only_the_sdk_emits_and_reads(fresh: Path) -> None:
    program = [str(fresh / "env/bin/python"), "-I", "-c", SCRIPT, f"file://{fresh}/records", str(fresh / "spool")]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120, cwd=fresh)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"delivered": True, "rows": 7, "heavy": [], "kinds": 10, "installed": 12}
