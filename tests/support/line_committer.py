"""A committer of one line as a separate process: it takes one step for each line of JSON on its stdin, and answers each with a line.

    {"open": {"database": URL, "lake": FOLDER, "generation": ID}}   works on this line from now on, with empty hands
    {"step": "freeze"}                     {"entries": [{"delta_version": 2, "first_place": 3, "last_place": 4}]}: what it holds from now on
    {"step": "put"}                        {"put": "created" | "same" | "other"}
    {"step": "put", "lost": "answer"}      {"put": "unknown"}: done, and it hears nothing; "request": not done, and it hears nothing
    {"step": "record"}                     {"recorded": 1}: how many places; 0 when another one did
    {"step": "crash"}                      SIGKILL, in the middle of whatever it holds
    {"close": true}

Only the services of the product take these steps; the test only decides when each is taken.
"""

import json
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from tracelake.control.commits.service import Commits
from tracelake.control.commits.store import FrozenEntry
from tracelake.control.database.transactions import Database
from tracelake.control.tasks.completions.recording import Recording
from tracelake.control.tasks.finishing import Finisher
from tracelake.logging_setup import configure_logging
from tracelake.storage.contract import PutResult, StoredFile
from tracelake.storage.local import LocalStorage
from tracelake_sdk.errors import StorageOutcomeUnknown


class LosingStorage:
    """The storage itself, but for puts whose request or answer is lost."""

    def __init__(self, storage: LocalStorage) -> None:
        self._storage = storage
        self.lost: str | None = None
        self.result: PutResult | None = None

    def put_new(self, path: str, body: bytes, modified_at: datetime) -> PutResult:
        if self.lost == "request":
            raise StorageOutcomeUnknown
        self.result = self._storage.put_new(path, body, modified_at)
        if self.lost == "answer":
            raise StorageOutcomeUnknown
        return self.result

    def replace(self, path: str, body: bytes) -> None:
        self._storage.replace(path, body)

    def read(self, path: str) -> bytes | None:
        return self._storage.read(path)

    def size(self, path: str) -> int | None:
        return self._storage.size(path)

    def seal(self, paths: Sequence[str]) -> dict[str, str]:
        return self._storage.seal(paths)

    def list(self, folder: str) -> list[StoredFile]:
        return self._storage.list(folder)

    def delete(self, paths: Sequence[str]) -> None:
        self._storage.delete(paths)

    def uri(self, path: str) -> str:
        return self._storage.uri(path)

    def local_path(self, path: str) -> Path | None:
        return self._storage.local_path(path)


class Workplace:
    """One line, and what the committer holds of it."""

    def __init__(self, database: str, lake: str, generation: str) -> None:
        self.database = Database(database, size=2)
        self.database.__enter__()
        self.storage = LosingStorage(LocalStorage(Path(lake), lambda moment: None))
        self.generation = UUID(generation)
        self.commits = Commits(self.database, self.storage)
        self.recording = Recording(self.database, lambda pools: None, Finisher(notifies_webhook=False))
        self.held: list[FrozenEntry] = []

    def take(self, step: str, lost: str | None) -> dict[str, Any]:
        match step:
            case "freeze":
                self.held = self.commits.freeze(self.generation).entries
                places = [{"delta_version": entry.delta_version, "first_place": entry.first_place, "last_place": entry.last_place} for entry in self.held]
                return {"entries": places}
            case "put":
                return {"put": self._put(lost)}
            case "record":
                return {"recorded": self.recording.record(self.generation, self.held[-1].last_place)}
            case _:
                raise ValueError(step)

    def _put(self, lost: str | None) -> str:
        self.storage.lost, self.storage.result = lost, None
        try:
            there = self.commits.put(self.generation, self.held)
        except StorageOutcomeUnknown:
            return "unknown"
        result = self.storage.result
        assert result is not None and there == (result is not PutResult.OTHER)
        return result.value


def main() -> None:
    configure_logging()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    workplace: Workplace | None = None
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, Any] = {}
        if command.get("step") == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        elif "step" in command:
            assert workplace is not None
            answer = workplace.take(command["step"], command.get("lost"))
        else:
            if workplace is not None:
                workplace.database.__exit__()
            workplace = Workplace(**command["open"]) if "open" in command else None
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class CommitterProcess:
    """The test's side of it."""

    def __init__(self, log: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, text=True, env=environment
            )
        self._log = log

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"a committer ended with {self._process.wait()}:\n{self._log.read_text()[-3000:]}"
        return json.loads(answer)

    def crash(self) -> int:
        """Its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.write('{"step": "crash"}\n')
        self._process.stdin.flush()
        return self._ended()

    def stop(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._ended()

    def _ended(self) -> int:
        exit_code = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        return exit_code


class Crew:
    """Committers that go from line to line; one that was killed is replaced by one that has been getting ready meanwhile."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._started = 0
        self._ready = deque(self._start() for _ in range(3))

    def hire(self) -> CommitterProcess:
        if len(self._ready) < 2:
            self._ready.append(self._start())
        return self._ready.popleft()

    def dismiss(self, committer: CommitterProcess) -> None:
        if committer.alive:  # a dead one was already noticed by its caller
            committer.ask(close=True)
            self._ready.appendleft(committer)

    def close(self) -> None:
        for committer in self._ready:
            assert committer.stop() == 0

    def _start(self) -> CommitterProcess:
        self._started += 1
        return CommitterProcess(self._folder / f"committer-{self._started}.log")


if __name__ == "__main__":
    main()
