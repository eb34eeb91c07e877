"""Builds the committer of a control process."""

from tracelake.control.commits.checkpoints import CHECKPOINT_EVERY, checkpoint
from tracelake.control.commits.service import Commits, Committer, Record
from tracelake.control.commits.store import FrozenEntry
from tracelake.control.database.transactions import Database, Watch
from tracelake.storage.contract import Storage
from tracelake.storage.paths import table_location


def build_committer(database: Database, storage: Storage, record: Record, watch: Watch) -> Committer:
    """`record` makes versions of the places whose log entries were put."""

    def checkpoint_now_and_then(frozen: FrozenEntry) -> None:
        if frozen.delta_version and frozen.delta_version % CHECKPOINT_EVERY == 0:
            checkpoint(storage, table_location(frozen.org_id, frozen.dataset_id, frozen.dataset_version_id), frozen.delta_version, watch)

    return Committer(Commits(database, storage), record, checkpoint_now_and_then)
