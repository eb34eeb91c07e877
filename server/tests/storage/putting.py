"""A process that puts files into the storage of its settings: `putting.py MODIFIED_AT BODY PATH…`; prints one result a line.

It dies where `TRACELAKE__CHAOS__KILL_AT` says, and says `ready` before it waits for a line on stdin, so that several can start together.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tracelake.chaos import watch_for
from tracelake.settings import read_settings
from tracelake.storage.contract import PutResult, Storage, Watch
from tracelake.storage.opening import open_storage
from tracelake_sdk.errors import StorageOutcomeUnknown

DECIDED = datetime(2024, 1, 10, 5, 0, 0, 123456, tzinfo=UTC)


@dataclass(frozen=True)
class StorageUnderTest:
    """A storage that a test opens as often as it likes, here or in another process."""

    kind: str
    environment: dict[str, str]
    open: Callable[[Watch], Storage]


def put_until_known(storage: Storage, path: str, body: bytes, modified_at: datetime) -> PutResult:
    """As the committer does it."""
    for _ in range(1000):
        try:
            return storage.put_new(path, body, modified_at)
        except StorageOutcomeUnknown:
            time.sleep(0.05)
    raise AssertionError("the outcome stays unknown")


def putting(storage_under_test: StorageUnderTest, body: str, *paths: str, kill_at: str | None = None, modified_at: datetime = DECIDED) -> "subprocess.Popen[str]":
    """This program, ready, and waiting for the word."""
    environment = os.environ | storage_under_test.environment | ({"TRACELAKE__CHAOS__KILL_AT": kill_at} if kill_at else {})
    command = [sys.executable, __file__, modified_at.isoformat(), body, *paths]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def main(modified_at: str, body: str, *paths: str) -> None:
    settings = read_settings()
    storage = open_storage(settings, watch_for(settings.chaos.kill_at))
    print("ready", flush=True)
    sys.stdin.readline()
    for path in paths:
        print(put_until_known(storage, path, body.encode(), datetime.fromisoformat(modified_at)).value, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
