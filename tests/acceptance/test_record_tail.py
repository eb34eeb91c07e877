"""`tracelake record tail --follow` as a process: a stream of a real service, over a connection that breaks, and a folder that is looked at."""

import json
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.controls import ControlPlane
from support.processes import LONGEST, wait_until
from support.relays import Relay, relayed

from tracelake_sdk.home import HomeFiles
from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataTarget
from tracelake_sdk.records.builders import RecordBuilder, in_run
from tracelake_sdk.records.repository.embedded import EmbeddedRepository
from tracelake_sdk.records.repository.remote import RemoteRepository

from .test_cli import Shell

pytestmark = [pytest.mark.proves("M2.5"), pytest.mark.proves("X.1")]

CONTEXT = in_run(MetadataContext(cluster="c", workspace="w", tenant="main"), job="load", run="r", attempt=1)
BUILDER = RecordBuilder(MetadataTarget(source_id="erp", schema="sales", table="orders"), "ingest.v1")


def record(number: int) -> MetadataRecord:
    return BUILDER.ingestion_volume(rows=number, bytes=None, conditions=[("n", "eq", number)])


class Follower:
    """The process, and the lines that it has said."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def hears(self, number: int) -> list[int]:
        """So many records, of as many pages as it takes."""
        received: list[int] = []
        while len(received) < number:
            page: dict[str, Any] = json.loads(self._lines.get(timeout=LONGEST))
            received += [item["record"]["payload"]["rows"] for item in page["items"]]
        return received

    def is_left_alone_with_ctrl_c(self) -> str:
        """What it said on stderr; it said nothing more on stdout."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(LONGEST) == 0
        assert self._lines.empty()
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def following(shell: Shell, *words: str) -> Iterator[Follower]:
    with shell.begun("record", "tail", "--follow", "-o", "json", *words) as process:
        yield Follower(process)


@pytest.fixture
def relay(api_url: str) -> Iterator[Relay]:
    with relayed(api_url) as way:
        yield way


def test_the_stream_of_a_service_is_followed_over_broken_connections(control_plane: ControlPlane, api_url: str, relay: Relay) -> None:
    tails = control_plane.services.tails
    shell = Shell(control_plane.control.settings.home, relay.url)
    with RemoteRepository(api_url, HomeFiles(control_plane.control.settings.home).admin_token() or "") as direct, following(shell, "--limit", "3") as follower:
        direct.bulk_store([record(number) for number in range(10)], CONTEXT)
        assert follower.hears(10) == list(range(10))
        assert tails.number_open == 1
        direct.store(record(10), CONTEXT)
        assert follower.hears(1) == [10]
        relay.passes = False
        relay.cut()
        wait_until(lambda: tails.number_open == 0, "the stream that was cut is gone")
        direct.bulk_store([record(number) for number in (11, 12)], CONTEXT)
        tried = relay.came
        wait_until(lambda: relay.came > tried, "it is tried again")
        relay.passes = True
        assert follower.hears(2) == [11, 12]
        relay.cut()
        direct.store(record(13), CONTEXT)
        assert follower.hears(1) == [13]
        said = follower.is_left_alone_with_ctrl_c()
    assert said.count("Disconnected [repository_unavailable]") == len(said.splitlines()) >= 1
    wait_until(lambda: tails.number_open == 0, "who hung up is gone")


def test_a_folder_is_looked_at_until_ctrl_c(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "home", None)
    with EmbeddedRepository(tmp_path / "records", tenant="main") as repository:
        repository.bulk_store([record(1), record(2)], CONTEXT)
        with following(shell, "--repository", f"file://{tmp_path / 'records'}", "--kind", "ingestion_volume") as follower:
            assert follower.hears(2) == [1, 2]
            repository.store(record(3), CONTEXT)
            assert follower.hears(1) == [3]
            assert follower.is_left_alone_with_ctrl_c() == ""
