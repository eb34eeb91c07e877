"""Children that die with their parent, and leftovers that are ended exactly."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tracelake import launch
from tracelake.embedded.leftovers import SystemState
from tracelake.embedded.locks import FolderLock
from tracelake.embedded.ports import free_port, is_free, kept_port
from tracelake.embedded.processes import Child, ProcessIdentity
from tracelake.files import rotate, write_whole
from tracelake_sdk.errors import StartFailed, SystemBusy

from .watching import begun, eventually

SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]
DEAF = [sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"]


@pytest.fixture
def bystander() -> Generator[subprocess.Popen[bytes]]:
    """A process that is not ours."""
    with begun(SLEEP) as process:
        yield process


def identity_of(pid: int) -> ProcessIdentity:
    found = ProcessIdentity.find(pid)
    assert found
    return found


def test_a_process_is_known_by_its_pid_and_its_start(bystander: subprocess.Popen[bytes]) -> None:
    identity = identity_of(bystander.pid)
    assert identity.alive
    assert not ProcessIdentity(bystander.pid, "another start").alive
    bystander.kill()
    bystander.wait()
    assert not identity.alive


def test_a_process_that_ended_but_was_not_waited_for_is_not_alive() -> None:
    with begun(SLEEP) as process:
        identity = identity_of(process.pid)
        process.kill()
        assert eventually(lambda: not identity.alive)


def test_a_process_with_a_reused_pid_is_left_alone(bystander: subprocess.Popen[bytes]) -> None:
    assert ProcessIdentity(bystander.pid, "another start").end()
    assert bystander.poll() is None


def test_a_deaf_process_is_ended_by_force() -> None:
    with begun(DEAF, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline() == b"deaf\n"
        assert identity_of(process.pid).end(((signal.SIGTERM, 0.2), (signal.SIGKILL, 10)))
        assert process.wait() == -signal.SIGKILL


def test_leftovers_are_ended_exactly_and_an_unrelated_process_with_their_pid_survives(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    with begun(SLEEP) as leftover:
        state = SystemState(tmp_path / "state.json")
        state.write({"control": identity_of(leftover.pid), "worker": ProcessIdentity(bystander.pid, "another start")}, {"api": 1})
        assert state.end_leftovers(except_for=frozenset()) == ["control"]
        assert leftover.wait() == -signal.SIGTERM
    assert bystander.poll() is None


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("[]")
    with pytest.raises(StartFailed, match=r"state\.json is damaged"):
        SystemState(tmp_path / "state.json").processes()


def test_a_child_writes_its_log_and_stops_on_request(tmp_path: Path) -> None:
    child = Child("speaker", [sys.executable, "-c", "import signal; print('hello', flush=True); signal.pause()"], log=tmp_path / "logs" / "speaker.log")
    assert eventually(lambda: child.log.read_text() == "hello\n")
    assert os.getsid(child.pid) == child.pid
    assert child.stop()
    assert child.exit_code == -signal.SIGTERM
    assert child.stop()


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_child_dies_with_a_parent_that_is_killed(tmp_path: Path, death: signal.Signals) -> None:
    program = (
        "import sys, signal; from pathlib import Path; from tracelake.embedded.processes import Child;"
        f"c = Child('c', {SLEEP!r}, log=Path(sys.argv[1]), death=signal.Signals({int(death)})); print(c.pid, flush=True); signal.pause()"
    )
    with begun([sys.executable, "-c", program, str(tmp_path / "c.log")], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        identity = identity_of(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
        assert parent.wait() == -signal.SIGKILL
    assert eventually(lambda: not identity.alive)


def test_a_child_whose_parent_is_already_gone_does_not_begin(tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = [sys.executable, "-I", "-S", launch.__file__, str(2**22), "9", "as-is", "/usr/bin/touch", str(made)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (1, "the parent ended before its child started\n")
    assert not made.exists()


def test_a_log_that_has_grown_is_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("a" * 11)
    rotate(log, limit=11)
    assert log.exists()
    rotate(log, limit=10)
    assert not log.exists()
    assert (tmp_path / "x.log.1").read_text() == "a" * 11


def test_a_file_is_whole_and_only_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    write_whole(file, "one")
    write_whole(file, "two")
    assert file.read_text() == "two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_port_is_kept_until_somebody_else_takes_it(tmp_path: Path) -> None:
    port = kept_port(tmp_path / "port")
    assert kept_port(tmp_path / "port") == port
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
        other = kept_port(tmp_path / "port")
        assert other != port
    assert kept_port(tmp_path / "port") == other
    assert is_free(free_port())


def test_two_ports_of_a_home_are_never_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelake.embedded.ports.random.sample", lambda ports, number: list(ports)[:number])
    first, second = kept_port(tmp_path / "api.port"), kept_port(tmp_path / "query.port")
    assert first != second
    (tmp_path / "query.port").write_text(f"{first}\n")
    assert kept_port(tmp_path / "api.port") == first != kept_port(tmp_path / "query.port")


def test_a_folder_is_locked_for_one_and_names_its_holder(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path / "new" / "lock"), FolderLock(tmp_path / "new" / "lock")
    first.take("taken")
    with pytest.raises(SystemBusy, match=rf"taken \(process {os.getpid()}\)"):
        second.take("taken")
    first.release()
    second.take("taken")
    second.release()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartFailed, match="choose a TRACELAKE_HOME"):
        FolderLock(tmp_path / "file" / "lock").take("taken")
