"""Checkpoints, so that readers need not read a long log in full. Nothing depends on them.

delta-rs writes them into a copy of the end of the log, and they are put into the table like log entries, complete and durable: it
writes without fsync, and after a power failure a reader that finds half a checkpoint fails.
"""

import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from tracelake.storage.contract import Storage, Watch
from tracelake.storage.paths import log_entry_path, log_folder
from tracelake_sdk.errors import StorageUnavailable

CHECKPOINT_EVERY = 100  # versions

_log = structlog.get_logger(__name__)


def checkpoint(storage: Storage, location: str, delta_version: int, watch: Watch) -> bool:
    """Writes the checkpoint of a version that is in the log; returns whether it exists now. Any number of processes may do this at once."""
    from deltalake.exceptions import DeltaError  # noqa: PLC0415  # only who checkpoints needs it

    try:
        with tempfile.TemporaryDirectory(prefix="tracelake-checkpoint-") as scratch:
            if not _copy_log(storage, location, delta_version, Path(scratch)):
                return False
            body, size = _make(Path(scratch), delta_version)
        storage.put_new(checkpoint_path(location, delta_version), body, datetime.now(UTC))  # an existing one has the same content
        watch("checkpoint:half")
        # Last: readers that find this hint without its checkpoint fail; without the hint they find the checkpoint by listing.
        storage.replace(_hint_path(location), json.dumps({"size": size, "version": delta_version}, separators=(",", ":")).encode())
    except (StorageUnavailable, DeltaError) as error:
        _log.warning("a checkpoint was not written", location=location, delta_version=delta_version, error=type(error).__name__)
        return False
    return True


def checkpoint_path(location: str, delta_version: int) -> str:
    return f"{log_folder(location)}/{delta_version:020}.checkpoint.parquet"


def _hint_path(location: str) -> str:
    return f"{log_folder(location)}/_last_checkpoint"


def _copy_log(storage: Storage, location: str, delta_version: int, scratch: Path) -> bool:
    """The newest earlier checkpoint and the entries after it, or all entries; False if one is missing."""
    log = scratch / "_delta_log"
    log.mkdir()
    start = 0
    earlier = _hinted(storage, location)
    if earlier is not None and earlier < delta_version and (body := storage.read(checkpoint_path(location, earlier))) is not None:
        (log / Path(checkpoint_path(location, earlier)).name).write_bytes(body)
        start = earlier + 1
    for version in range(start, delta_version + 1):
        path = log_entry_path(location, version)
        if (body := storage.read(path)) is None:
            _log.warning("a log entry is missing", location=location, delta_version=version)
            return False
        (log / Path(path).name).write_bytes(body)
    return True


def _hinted(storage: Storage, location: str) -> int | None:
    """What a reader would use; an invalid hint counts as absent."""
    try:
        found: Any = json.loads(storage.read(_hint_path(location)) or b"{}").get("version")
    except (ValueError, AttributeError):
        return None
    return found if isinstance(found, int) else None


def _make(scratch: Path, delta_version: int) -> tuple[bytes, int]:
    """The checkpoint's bytes, and how many actions it holds."""
    from deltalake import DeltaTable  # noqa: PLC0415

    DeltaTable(scratch, version=delta_version).create_checkpoint()
    body = (scratch / checkpoint_path(".", delta_version)).read_bytes()
    return body, int(json.loads((scratch / "_delta_log" / "_last_checkpoint").read_text())["size"])
