"""Child processes: each runs in its own session, dies with the thread that started it, is ended with everything it started, and has a bounded log."""

import os
import select
import signal
import subprocess
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from tracelake.launch import Rights, command_that_dies_with_us

# The environment variables that a program may see. None belongs to Tracelake, and none can be a secret.
MACHINE = frozenset({"PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "JAVA_HOME"})
CERTIFICATES = frozenset({"SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"})
_LOG_BYTES = 10_000_000

Stream = int | IO[bytes]  # one of subprocess's constants, or an open file


def clean_environment(environment: Mapping[str, str], names: Iterable[str] = MACHINE | CERTIFICATES) -> dict[str, str]:
    kept = frozenset(names)
    return {name: value for name, value in environment.items() if name in kept}


def ended_within(handle: int, seconds: float) -> bool:
    """Whether the process behind this handle (of `os.pidfd_open`) ended within that time; its exit status is not collected."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(max(seconds, 0) * 1000))


class ChildProcess:
    """A program and everything it started; its pid stays ours until `poll` or `end` has collected it."""

    def __init__(
        self, command: Sequence[str | Path], *, environment: Mapping[str, str] | None, folder: Path | None, stdout: Stream, stderr: Stream,
        stdin: Stream = subprocess.DEVNULL, death: signal.Signals = signal.SIGKILL, rights: Rights = "as-is",
    ) -> None:  # fmt: skip
        self._process: subprocess.Popen[bytes] = subprocess.Popen(
            command_that_dies_with_us(command, death=death, rights=rights),
            stdin=stdin, stdout=stdout, stderr=stderr, env=environment, cwd=folder, start_new_session=True,
        )  # fmt: skip
        self._handle: int = os.pidfd_open(self._process.pid)
        weakref.finalize(self, os.close, self._handle)
        self._lock: threading.Lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdin(self) -> IO[bytes]:
        """Only if the process was started with such a pipe; so are `stdout` and `stderr`."""
        return cast("IO[bytes]", self._process.stdin)

    @property
    def stdout(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdout)

    @property
    def stderr(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stderr)

    def wait(self, seconds: float) -> bool:
        """Whether the program itself ended within that time."""
        return ended_within(self._handle, seconds)

    def send(self, request: signal.Signals) -> None:
        """Signals the program only; does nothing if it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, request)

    def poll(self) -> int | None:
        """How the program ended; None while it runs. Processes that it started are never ended by this."""
        with self._lock:
            return self._process.poll()

    def end(self) -> int:
        """Kills what is left of it and returns the program's exit code; negative for a signal."""
        with self._lock:
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                _kill_session(self._process.pid)
            return self._process.wait()

    def close_pipes(self) -> None:
        """For a process that has ended; input that it did not read is dropped."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()


def _kill_session(leader: int) -> None:
    """Ends the processes of its session that left its group; each is checked through a pidfd, so that a reused pid is never hit."""
    for name in os.listdir("/proc"):  # noqa: PTH208  names of numbers, not paths
        if not name.isdigit() or int(name) == leader:
            continue
        with suppress(ProcessLookupError, FileNotFoundError, PermissionError):  # ended meanwhile, or of a user whose processes are hidden
            handle = os.pidfd_open(int(name))
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
            finally:
                os.close(handle)


class Starter:
    """Starts programs from one thread that lives as long as their owner: they die with the thread that started them."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor = ThreadPoolExecutor(1, thread_name_prefix="starter")

    def start(
        self, command: Sequence[str | Path], *, environment: Mapping[str, str], folder: Path, stdin: Stream = subprocess.DEVNULL, stderr: Stream = subprocess.STDOUT,
        rights: Rights = "untracing",
    ) -> ChildProcess:  # fmt: skip
        """Its stdout is a pipe."""
        return self._thread.submit(
            ChildProcess, command, environment=environment, folder=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, rights=rights
        ).result()

    def close(self) -> None:
        """Ends the thread, and with it every program that still runs."""
        self._thread.shutdown()


class BoundedLog:
    """A log file that is rotated when it is full; the previous one is kept, so there are at most two."""

    def __init__(self, path: Path, *, limit: int = _LOG_BYTES) -> None:
        self.path: Path = path
        self._limit: int = limit
        self._lock: threading.Lock = threading.Lock()

    def follow(self, stream: IO[bytes]) -> None:
        """Copies the stream into the log, in a separate thread."""
        threading.Thread(target=self._copy, args=(stream,), name=f"log-{self.path.stem}", daemon=True).start()

    def write(self, output: bytes) -> None:
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and self.path.stat().st_size + len(output) > self._limit:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                file.write(output[-self._limit :])

    def _copy(self, stream: IO[bytes]) -> None:
        with stream:
            while output := os.read(stream.fileno(), 65536):
                # Keep reading when the disk is full: a program whose output is not read blocks.
                with suppress(OSError):
                    self.write(output)
