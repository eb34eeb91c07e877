"""Shows that a fresh machine needs Python and make alone: a clean clone, an empty home, and a path without what others install.

`python tests/proof/clean_clone.py` runs `make setup`, `make demo` and `make test` there; each must end with 0 and say nothing on stderr.
"""

import argparse
import fnmatch
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("setup", "demo", "test")
LONGEST = {"demo": 180.0}  # seconds, once everything is installed
TIMEOUT_SECONDS = 3600.0

# What a fresh machine does not have. `pg_*` are Debian's doors to an installed Postgres.
ABSENT = (
    "java*", "jar", "jshell", "mvn*", "node", "nodejs", "npm*", "npx*", "yarn*", "corepack", "uv", "uvx", "docker*", "podman*",
    "postgres*", "psql", "pg_*", "initdb", "createdb", "dropdb", "createuser", "dropuser", "vacuumdb", "reindexdb", "clusterdb",
    "python*", "pip*", "pyenv*",
)  # fmt: skip
# Where packages may come from is the machine's business; everything else of this environment stays behind.
KEPT = re.compile(r"(PIP_(?!CACHE|TARGET|PREFIX|USER).*|UV_(DEFAULT_INDEX|INDEX.*|EXTRA_INDEX_URL|FIND_LINKS|SYSTEM_CERTS|NATIVE_TLS|HTTP_TIMEOUT)|SSL_CERT_(FILE|DIR)|(HTTPS?|ALL|NO)_PROXY)")


@dataclass(frozen=True)
class MakeRun:
    """What one `make` did on the fresh machine."""

    target: str
    exit_code: int | None  # None: it ran out of time
    seconds: float
    stderr: str
    left_running: tuple[str, ...]  # processes that outlived it

    @property
    def good(self) -> bool:
        return self.exit_code == 0 and not self.stderr and not self.left_running and self.in_time

    @property
    def in_time(self) -> bool:
        return self.seconds <= LONGEST.get(self.target, TIMEOUT_SECONDS)


@dataclass(frozen=True)
class FreshMachine:
    """A folder with a clone, and its own home, temporary folder, path and perhaps user."""

    folder: Path
    user: int | None = None

    @property
    def clone(self) -> Path:
        return self.folder / "tracelake"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name.upper())}
        home = self.folder / "home"
        own = {"HOME": home, "PATH": self.folder / "bin", "TMPDIR": self.folder / "tmp", "UV_CACHE_DIR": home / "uv", "PIP_CACHE_DIR": home / "pip"}
        return kept | {name: str(value) for name, value in own.items()} | {"LANG": "C.UTF-8"}

    def build(self, python: Path) -> None:
        for name in ("home", "tmp", "bin"):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        link_programs(self.folder / "bin", python)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(self.clone)], check=True, stdin=subprocess.DEVNULL)
        if self.user is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.user, self.user, follow_symlinks=False)

    def make(self, target: str, timeout: float = TIMEOUT_SECONDS) -> MakeRun:
        """Runs one target with nothing to read; what it prints is shown, what it says on stderr is kept."""
        started = time.monotonic()
        with (self.folder / f"{target}.stderr").open("w+") as errors:
            process = subprocess.Popen(
                ["make", target], cwd=self.clone, env=self.environment, stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                user=self.user, group=self.user, extra_groups=None if self.user is None else (),
            )
            try:
                exit_code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                exit_code = None
            seconds = time.monotonic() - started
            errors.seek(0)
            return MakeRun(target, exit_code, round(seconds, 1), errors.read(), left_of(self.folder))


def link_programs(bin_folder: Path, python: Path) -> None:
    """Links the machine's programs into one folder, without those that a fresh machine lacks; `python3` is the given one."""
    for folder in ("/usr/bin", "/bin"):
        for program in Path(folder).iterdir():
            link = bin_folder / program.name
            if not link.is_symlink() and not any(fnmatch.fnmatch(program.name, pattern) for pattern in ABSENT):
                link.symlink_to(program)
    (bin_folder / "python3").symlink_to(python)


def processes_of(folder: Path) -> Iterable[str]:
    """The processes whose environment or command line names the folder."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            names_it = bytes(folder) in words or bytes(folder) in (entry / "environ").read_bytes()
        except (OSError, ProcessLookupError):
            continue  # it ended, or belongs to another user
        if names_it and int(entry.name) != os.getpid() and words:
            yield f"{entry.name}: {words.replace(bytes(1), b' ').decode(errors='replace').strip()[:200]}"


def left_of(folder: Path) -> tuple[str, ...]:
    """Those that do not end: the kernel may take a moment to be done with one that was killed."""
    deadline = time.monotonic() + 10
    while (left := tuple(processes_of(folder))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def real_python() -> Path:
    """The interpreter behind this one, whatever shim or virtual environment it was started through."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def prove(targets: Iterable[str] = TARGETS, *, python: Path | None = None, user: int | None = None, keep: bool = False) -> list[MakeRun]:
    """Builds a fresh machine, runs the targets on it in turn, and stops at the first that is not good."""
    machine = FreshMachine(Path(tempfile.mkdtemp(prefix="tracelake-clean-")), user)
    runs: list[MakeRun] = []
    try:
        machine.build(python or real_python())
        for target in targets:
            print(f"clean clone: make {target} …", flush=True)
            runs.append(machine.make(target))
            print(describe(runs[-1]), flush=True)
            if not runs[-1].good:
                break
    finally:
        if keep:
            print(f"clean clone: kept in {machine.folder}")
        else:
            shutil.rmtree(machine.folder, ignore_errors=True)
    return runs


def describe(run: MakeRun) -> str:
    end = "ran out of time" if run.exit_code is None else f"exit {run.exit_code}" if run.in_time else f"exit {run.exit_code}, too late,"
    lines = [f"clean clone: make {run.target}: {end} after {run.seconds} s, {len(run.stderr)} characters on stderr, {len(run.left_running)} processes left"]
    return "\n".join([*lines, *run.stderr.splitlines(), *run.left_running])


def summary(runs: Iterable[MakeRun]) -> list[Mapping[str, Any]]:
    return [asdict(run) for run in runs]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", default=TARGETS, help="make targets, in order (setup demo test)")
    parser.add_argument("--python", type=Path, help="the interpreter that the fresh machine has")
    parser.add_argument("--user", type=int, help="run as this user id (needs root)")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    given = parser.parse_args()
    runs = prove(given.targets, python=given.python, user=given.user, keep=given.keep)
    return 0 if len(runs) == len(given.targets) and all(run.good for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
