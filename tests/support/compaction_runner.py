"""Compacts in a process of its own, which may die at a named moment: `compaction_runner.py postgres URL FOLDER [MOMENT]`, or `folder FOLDER [MOMENT]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from support.compactions import by_arrow
from tracelake.chaos import watch_for
from tracelake.control.compaction.service import Compactor
from tracelake.control.database.transactions import Database
from tracelake.storage.local import LocalStorage
from tracelake_sdk.repository.embedded import EmbeddedRepository


def main(what: str, *words: str) -> None:
    if what == "postgres":
        url, folder, *moment = words
        watch = watch_for(moment[0] if moment else None)
        with Database(url, size=2, watch=watch) as database:
            Compactor(database, LocalStorage(Path(folder) / "lake", watch), Path(folder) / "scratch", by_arrow, watch=watch).compact()
    else:
        folder, *moment = words
        with EmbeddedRepository(folder, tenant="main", watch=watch_for(moment[0] if moment else None)) as repository:
            repository.compact(by_arrow)


if __name__ == "__main__":
    main(*sys.argv[1:])
