"""The peers: each in its own virtual environment, created on first use, and run as a program that answers with one JSON line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.figures import BenchFailed, Measured
from tools.environment import find_uv, install_uv, uv_environment

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / "peers"
_LONGEST_RUN = 600


@dataclass(frozen=True)
class Peer:
    """Another system that does what the row measures."""

    name: str
    version: str
    program: str
    requirements: tuple[str, ...]
    rows: frozenset[str]

    @property
    def environment(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def installed(self) -> bool:
        stamp = self.environment / "installed.json"
        return stamp.exists() and json.loads(stamp.read_text()) == self._wanted()

    def install(self, say: Callable[[str], None]) -> None:
        """Fetches what `peers.toml` pins, once."""
        if self.installed:
            return
        say(f"installing {self.name} {self.version} into bench/peers")
        uv = find_uv() or install_uv()
        environment = uv_environment(os.environ)
        shutil.rmtree(self.environment, ignore_errors=True)
        _run([uv, "venv", "--python", sys.executable, str(self.environment)], environment)
        _run([uv, "pip", "install", "--python", str(self._python), *self.requirements], environment)
        # Last: an interrupted installation must not look like a finished one.
        (self.environment / "installed.json").write_text(json.dumps(self._wanted()))

    def run(self, row: str, n: int, *, variables: Mapping[str, str], log: Path) -> Measured:
        """One run of the peer's program, in a process group that has ended when this returns; `variables` are added to its environment."""
        command = [str(self._python), str(HERE / "peer_programs" / self.program), row, str(n)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PG", "DBOS", "SPARK", "PYSPARK"))}
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command, env=kept | dict(variables), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                text=True, start_new_session=True,
            )
            try:
                answer, _ = process.communicate(timeout=_LONGEST_RUN)
            except subprocess.TimeoutExpired:
                raise BenchFailed(f"{self.name} did not end its {row} within {_LONGEST_RUN} s; its log is {log}") from None
            finally:
                _end_group(process)
        if process.returncode != 0 or not answer.strip():
            raise BenchFailed(f"{self.name} ended its {row} with exit code {process.returncode}; its log is {log}")
        found = json.loads(answer.strip().splitlines()[-1])
        return Measured(found["n"], found["seconds"], tuple(found["samples_ms"]), beside=found.get("beside", {}))

    @property
    def _python(self) -> Path:
        return self.environment / "bin" / "python"

    def _wanted(self) -> dict[str, object]:
        return {"requirements": list(self.requirements), "python": sys.version}


def known_peers() -> tuple[Peer, ...]:
    found = tomllib.loads((HERE / "peers.toml").read_text())
    return tuple(Peer(name, peer["version"], peer["program"], tuple(peer["requirements"]), frozenset(peer["rows"])) for name, peer in found.items())


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, text=True, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise BenchFailed(f"`{' '.join(command[:3])} …` failed; run without peers by --no-peers.\n{done.stdout.rstrip()}")


def _end_group(process: "subprocess.Popen[str]") -> None:
    """The workers that a peer's program started are in its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()
