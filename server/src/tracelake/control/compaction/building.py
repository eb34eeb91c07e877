"""Builds the compactor of a process from its settings."""

from datetime import timedelta

from tracelake.control.compaction.service import Compactor
from tracelake.control.compaction.spark_program import compact_by_spark
from tracelake.control.database.transactions import Database, Watch
from tracelake.settings import Settings
from tracelake.storage.contract import Storage

LOOK_SECONDS = 60.0


def build_compactor(settings: Settings, database: Database, storage: Storage, watch: Watch) -> Compactor:
    return Compactor(
        database,
        storage,
        settings.home / "scratch",
        compact_by_spark(settings.home / "logs" / "compaction.log", settings.spark, settings.home),
        every=timedelta(hours=settings.records.compact_every_hours),
        watch=watch,
    )
