"""Compacts in a separate process, which may die at a named moment: `compaction_runner.py postgres URL FOLDER [MOMENT]`, or `folder FOLDER [MOMENT]`.

`settings URL FOLDER [MOMENT]` does it as control does: Spark writes, and the storage is that of the settings.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.compactions import by_arrow
from tracelake.chaos import watch_for
from tracelake.control.compaction.service import Compactor
from tracelake.control.compaction.spark_program import compact_by_spark
from tracelake.control.database.transactions import Database
from tracelake.settings import read_settings
from tracelake.storage.local import LocalStorage
from tracelake.storage.opening import open_storage
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.spark_settings import LocalSpark


def main(what: str, *words: str) -> None:
    if what == "folder":
        folder, *moment = words
        with EmbeddedRepository(folder, tenant="main", watch=watch_for(moment[0] if moment else None)) as repository:
            repository.compact(by_arrow)
        return
    url, folder, *moment = words
    watch = watch_for(moment[0] if moment else None)
    if what == "settings":
        storage = open_storage(read_settings(), watch)
        compacting = compact_by_spark(Path(folder) / "spark.log", LocalSpark(cores=1, memory="600m"), Path(folder))
    else:
        storage, compacting = LocalStorage(Path(folder) / "lake", watch), by_arrow
    with Database(url, size=2, watch=watch) as database:
        Compactor(database, storage, Path(folder) / "scratch", compacting, watch=watch).compact()


if __name__ == "__main__":
    main(*sys.argv[1:])
