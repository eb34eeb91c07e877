"""A supervisor over a full disk, and over a Postgres whose port was taken while it was down."""

import json
import os
import signal
import socket
from collections.abc import Generator
from pathlib import Path

import pytest
from support.small_disks import fill, small_disk

from tracelake.embedded.locks import FolderLock
from tracelake.files import write_whole
from tracelake_sdk.errors import SystemBusy

from .test_supervisor import given_to, home, identities, said, supervisor, up
from .watching import eventually

_ = home  # a fixture


@pytest.fixture
def disk(tmp_path: Path) -> Generator[Path]:
    with small_disk(tmp_path / "disk", mebibytes=160) as folder:
        yield folder


@pytest.mark.proves("X.10")
def test_a_full_disk_does_not_end_the_supervisor_and_parts_come_back(disk: Path) -> None:
    home = disk / "home"
    (disk / "said").touch()
    with up(home) as process:
        before = identities(home)
        filler = fill(disk)
        for name in ("worker", "query"):
            os.kill(before[name].pid, signal.SIGKILL)
        assert eventually(lambda: not before["worker"].alive and not before["query"].alive)
        # Also while the disk is full: whether they come back then is up to them, the supervisor stays.
        assert not eventually(lambda: process.poll() is not None, seconds=3)
        filler.unlink()

        def are_back() -> bool:
            after = identities(home)
            return all(after[name] != before[name] and after[name].alive for name in ("worker", "query"))

        assert eventually(are_back)
        process.terminate()
        assert process.wait(60) == 0


def test_a_file_that_does_not_fit_leaves_nothing_behind(disk: Path) -> None:
    fill(disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(disk / "state.json", "x" * 10_000)
    assert {path.name for path in disk.iterdir()} == {"filler"}


def test_a_lock_on_a_full_disk_is_taken_and_given_back(disk: Path) -> None:
    file = disk / "lock"
    file.touch()
    fill(disk)
    lock = FolderLock(file)
    lock.take("busy")
    with pytest.raises(SystemBusy):
        FolderLock(file).take("busy")
    lock.release()
    lock.take("busy")
    lock.release()


@pytest.mark.proves("X.10")
def test_control_follows_a_postgres_that_came_back_on_another_port(home: Path) -> None:
    reported: list[str] = []
    system = supervisor(home, say=reported.append)
    system.start()
    try:
        before = int((home / "postgres" / "port").read_text())
        assert f":{before}/" in given_to(home, "control")["TRACELAKE__DATABASE__URL"]
        os.kill(identities(home)["postgres"].pid, signal.SIGKILL)
        assert eventually(lambda: not identities(home)["postgres"].alive)
        with socket.create_server(("127.0.0.1", before), reuse_port=False):

            def has_moved() -> bool:
                system.run_once()
                now = int((home / "postgres" / "port").read_text())
                return now != before and f":{now}/" in given_to(home, "control")["TRACELAKE__DATABASE__URL"] and identities(home)["control"].alive

            assert eventually(has_moved)
    finally:
        system.stop()
    assert any("port" in line and "restarting control" in line for line in reported)
    assert json.loads((home / "logs" / "supervisor.log").read_text().splitlines()[-1])["event"] == "stopped"


def test_up_says_when_a_part_is_not_ready_and_when_it_is_again(home: Path) -> None:
    with up(home) as process:
        control = identities(home)["control"]
        os.kill(control.pid, signal.SIGSTOP)
        try:
            assert eventually(lambda: "control is not ready: it does not answer" in said(home))
        finally:
            os.kill(control.pid, signal.SIGCONT)
        assert eventually(lambda: "control is ready again after" in said(home))
        process.terminate()
        assert process.wait(60) == 0
