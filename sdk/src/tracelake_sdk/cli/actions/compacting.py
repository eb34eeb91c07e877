"""`record compact`: files of old records of a folder become Parquet files of a Delta table beside them."""

import tempfile
from datetime import timedelta
from pathlib import Path

from tracelake_sdk.cli.actions.repositories import opened
from tracelake_sdk.cli.printing import print_json, say
from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.home import default_home
from tracelake_sdk.records.compaction_program import CompactionOrder
from tracelake_sdk.records.compaction_program import compact as compact_by_spark
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.wording import counted


def compact(*, older_than_days: float | None, url: str | None, tenant: str | None, dry_run: bool, as_json: bool) -> None:
    """Only for a repository of files; a service compacts by itself."""
    with opened(url, tenant) as (repository, _):
        if not isinstance(repository, EmbeddedRepository):
            raise SettingInvalid("A service compacts its records by itself, once a day; `record compact` is for a folder or a prefix: --repository file:///FOLDER.")
        done = repository.compact(_by_spark, older_than=None if older_than_days is None else timedelta(days=older_than_days), check_only=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, "archived": done.archived, "dropped": done.dropped})
    elif dry_run:
        say(f"{counted(done.archived, 'record')} would be archived, {done.dropped} dropped. Nothing was changed.")
    else:
        say(f"{counted(done.archived, 'record')} archived, {done.dropped} dropped.")


def _by_spark(order: CompactionOrder, folder: Path) -> list[Path]:
    logs = default_home() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(prefix="compaction-", suffix=".log", dir=logs, delete=False) as log:
        pass
    files = compact_by_spark(order, folder, Path(log.name))
    Path(log.name).unlink()  # the log is kept only after a failure
    return files
