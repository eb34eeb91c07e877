"""Writes `schema.sql`: what all migrations together make of an empty database, for readers.

It is dumped from a real Postgres. With `--check` nothing is written and a stale file is an error.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tools.generated import ROOT, settle
from tracelake.control.database.migrations import migrate
from tracelake.control.database.roles import OWNER
from tracelake.embedded.binaries import find_binaries
from tracelake.embedded.postgres import STATE_DATABASE, EmbeddedPostgres, prepare_databases

TARGET = Path("docs/reference/schema.sql")
HEAD = "-- Generated from the migrations by `make docs`, for readers; nothing runs it.\n\n"


def schema() -> str:
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(Path(folder), find_binaries(), durable=False) as postgres:
        prepare_databases(postgres.url(), postgres.passwords)
        migrate(postgres.url(STATE_DATABASE, OWNER))
        command = [postgres.binaries.folder / "pg_dump", "--schema-only", "--no-owner", "--schema=public", "--restrict-key=x", postgres.url(STATE_DATABASE)]
        dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Settings of the session and comments about the dump say nothing of the schema.
    noise = ("SET ", "SELECT pg_catalog.", "--", "\\", "CREATE SCHEMA public", "COMMENT ON SCHEMA", "REVOKE ALL ON SCHEMA")
    lines = [line for line in dumped.splitlines() if not line.startswith(noise)]
    text = "\n".join(lines)
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    return HEAD + text.strip() + "\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(TARGET, schema(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
