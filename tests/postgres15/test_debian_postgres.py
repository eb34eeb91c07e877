"""The database tests once more, on Debian's Postgres 15: the oldest that is supported.

Where it is not installed and apt may install it, it is: without a cluster, so that nothing starts on the machine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path("/usr/lib/postgresql/15/bin")
NO_CLUSTER = Path("/etc/postgresql-common/createcluster.conf")


def debian_postgres() -> Path:
    """Its folder, or a skip that says why it is not there."""
    if (BINARIES / "postgres").exists():
        return BINARIES
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        pytest.skip("Debian's Postgres 15 is not installed, and only root may install it: apt-get install postgresql-15")
    if not NO_CLUSTER.exists():
        NO_CLUSTER.parent.mkdir(parents=True, exist_ok=True)
        NO_CLUSTER.write_text("create_main_cluster = false\n")
    quietly = {"DEBIAN_FRONTEND": "noninteractive", "PATH": os.environ["PATH"]}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", "postgresql-15"]):
        done = subprocess.run(["apt-get", "-qq", *words], env=quietly, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"Debian's Postgres 15 is not installed, and `apt-get {words[0]}` could not bring it")
    return BINARIES


@pytest.mark.proof
@pytest.mark.proves("T1.1")
@pytest.mark.timeout(1200)
def test_the_database_tests_pass_on_debians_postgres_15(tmp_path: Path):
    environment = os.environ | {"TRACELAKE_POSTGRES_BIN": str(debian_postgres())}
    # Of a run inside a run nothing may leak: not its workers, not its options.
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'inner'}",
        "server/tests/database", "server/tests/tasks", "server/tests/deploys/test_deploying.py", "server/tests/records/test_storing.py", "tests/model",
    ]  # fmt: skip
    # The daily size there too: what differs between the versions is SQL, not load.
    environment.pop("TRACELAKE_PROOF", None)
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
