"""Programs that a worker starts: a clean environment, a session of their own that is ended whole, and output that cannot fill a disk."""

import os
import select
import signal
import subprocess
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracelake.launch import command_that_dies_with_us

# What a program may know of the machine. Nothing of Tracelake's own and nothing that could be a secret is among it.
_KEPT = frozenset(
    {
        "PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "JAVA_HOME",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    }
)  # fmt: skip
_LOG_BYTES = 10_000_000


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in _KEPT}


class Chaos:
    """What tells a program to kill itself at a named moment: only until one has done so."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment: dict[str, str] = dict(environment or {})

    def environment(self) -> dict[str, str]:
        return dict(self._environment)

    def ended(self, exit_code: int | None) -> None:
        """A program ended by itself."""
        if exit_code == -signal.SIGKILL:
            self._environment = {}


class ProcessGroup:
    """A program and everything it started; the number stays ours until it is ended, because nobody collects it before."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process: subprocess.Popen[bytes] = process
        self._handle: int = os.pidfd_open(process.pid)
        weakref.finalize(self, os.close, self._handle)
        self._lock: threading.Lock = threading.Lock()
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes] | None:
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes] | None:
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes] | None:
        return self._process.stderr

    def wait(self, seconds: float) -> bool:
        """Whether the program itself ended within that time."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(max(seconds, 0) * 1000))

    def end(self) -> int:
        """Kills what is left of it and says how the program ended; negative by a signal."""
        with self._lock:
            if self._exit_code is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                _kill_session(self._process.pid)
                self._exit_code = self._process.wait()
            return self._exit_code


def _kill_session(leader: int) -> None:
    """Ends those of its session that have left its group; each is looked at once it cannot be mistaken any more."""
    for name in os.listdir("/proc"):  # noqa: PTH208  names of numbers, not paths
        if not name.isdigit() or int(name) == leader:
            continue
        with suppress(ProcessLookupError, FileNotFoundError):
            handle = os.pidfd_open(int(name))
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


class Starter:
    """Starts programs from one thread that lives as long as the worker: they die with the thread that started them."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor = ThreadPoolExecutor(1, thread_name_prefix="starter")

    def start(self, command: Sequence[str], *, environment: Mapping[str, str], folder: Path, talks: bool) -> ProcessGroup:
        """One that `talks` has pipes for stdin, stdout and stderr; the others have nothing to read and one pipe for what they say."""
        launched = command_that_dies_with_us(command, death=signal.SIGKILL, rights="untracing")

        def begin() -> ProcessGroup:
            return ProcessGroup(
                subprocess.Popen(
                    launched,
                    stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE if talks else subprocess.STDOUT,
                    env=dict(environment),
                    cwd=folder,
                    start_new_session=True,
                )
            )

        return self._thread.submit(begin).result()

    def close(self) -> None:
        """Ends the thread, and with it whatever still runs."""
        self._thread.shutdown()


class BoundedLog:
    """A log file that starts anew when it is full and keeps the one before: two of them is the most there is."""

    def __init__(self, path: Path, *, limit: int = _LOG_BYTES) -> None:
        self.path: Path = path
        self._limit: int = limit
        self._lock: threading.Lock = threading.Lock()

    def follow(self, stream: IO[bytes]) -> None:
        """Writes down everything that comes out of the stream, from a thread of its own."""
        threading.Thread(target=self._copy, args=(stream,), name=f"log-{self.path.stem}", daemon=True).start()

    def write(self, said: bytes) -> None:
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size + len(said) > self._limit:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(said[-self._limit :])

    def _copy(self, stream: IO[bytes]) -> None:
        with stream:
            while said := os.read(stream.fileno(), 65536):
                # Read on where the disk is full: a program whose words nobody reads stops in the middle of its work.
                with suppress(OSError):
                    self.write(said)
