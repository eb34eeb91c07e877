"""`tracelake demo`, as a person runs it: without a terminal every day; at full size also with one, and on a system that runs already."""

import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fcntl import ioctl
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("tracelake")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[78]")

GOLDEN = Path(__file__).with_name("demo.txt")

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("systems"), pytest.mark.timeout(1800)]

# What differs from telling to telling. Counts, versions, verdicts and sums are never masked.
MASKS = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    (r"http://127\.0\.0\.1:\d+", "http://127.0.0.1:<port>"),
    (r"after \d+\.\d seconds", "after <time> seconds"),
    (r"the hash of the rows, [0-9a-f]{16}…", "the hash of the rows, <hash>…"),
)


@dataclass
class FirstAct:
    """The demo on a fresh home, without a terminal."""

    home: Path
    done: subprocess.CompletedProcess[str]
    left: list[str]


@dataclass
class Acts:
    """What followed on the same home, in the order in which it was done; the tests below say what it shows."""

    seen_while_up: list[str]
    on_running: subprocess.CompletedProcess[str]
    on_terminal: str = ""
    exit_on_terminal: int | None = None
    left_after_terminal: list[str] = field(default_factory=list)
    pasted: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE") and name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")}
    return kept | {"TRACELAKE_HOME": str(home), "TERM": "xterm"}


def masked(said: str, home: Path) -> str:
    said = said.replace(f"TRACELAKE_HOME={home} {PROGRAM}", "tracelake").replace(str(home), "<home>")
    for pattern, mask in MASKS:
        said = re.sub(pattern, mask, said)
    return said


def demo(home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "demo"], capture_output=True, text=True, check=False, timeout=900, env=environment(home), stdin=subprocess.DEVNULL, cwd=ROOT
    )


def processes_of(home: Path) -> list[str]:
    """Processes that know this home, by their words or their environment."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue  # it ended meanwhile, or is not ours
        if str(home).encode() in known:
            found.append(entry.name)
    return found


def left_of(home: Path) -> list[str]:
    """Those that do not end: the kernel may take a moment to be done with one that was killed."""
    deadline = time.monotonic() + 10
    while (left := processes_of(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left


def commands_in(said: str) -> list[str]:
    """Everything that could be pasted: lines that start like a command."""
    starts = rf" {{3}}((TRACELAKE_HOME=\S+ )?{re.escape(str(PROGRAM))} |head |grep )"
    return [line.strip() for line in said.splitlines() if re.match(starts, line)]


class Terminal:
    """A terminal of a hundred columns with the demo in it."""

    def __init__(self, home: Path) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        command = ["setsid", "--ctty", PROGRAM, "demo"]  # in a session of its own, so that Ctrl-C at this terminal reaches it
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home), cwd=ROOT)
        os.close(theirs)
        self.shown = ""

    def read_until(self, words: str | None, seconds: float) -> None:
        """Until these words were shown; None: until it ended."""
        deadline = time.monotonic() + seconds
        while words is None or words not in ESCAPES.sub("", self.shown):
            assert time.monotonic() < deadline, f"{words!r} was not shown:\n{self.shown}"
            if select.select([self._ours], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._ours, 65536).decode(errors="replace")
                except OSError:  # how a terminal says that nobody holds its other end any more
                    assert words is None, f"it ended before {words!r} was shown:\n{self.shown}"
                    return

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(120)
        os.close(self._ours)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> FirstAct:
    home = tmp_path_factory.mktemp("demo") / "home"
    return FirstAct(home, demo(home), left_of(home))


@pytest.fixture(scope="module")
def acts(first: FirstAct) -> Iterator[Acts]:
    home = first.home
    terminal = Terminal(home)
    try:
        terminal.read_until("init my-lake --dry-run\r\n", 900)
        acts = Acts(processes_of(home), demo(home))
        for command in commands_in(first.done.stdout):
            if not command.endswith(" up"):
                acts.pasted[command] = subprocess.run(
                    command, shell=True, capture_output=True, text=True, check=False, timeout=300, cwd=ROOT, stdin=subprocess.DEVNULL, env=pasting()
                )
        terminal.press_ctrl_c()
        terminal.read_until(None, 180)
        acts.exit_on_terminal = terminal.process.wait(180)
        acts.on_terminal = ESCAPES.sub("", terminal.shown).replace("\r", "")
        acts.left_after_terminal = left_of(home)
        yield acts
    finally:
        terminal.close()


def pasting() -> dict[str, str]:
    """A fresh shell: what a command needs it must bring."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}


@pytest.mark.proves("X.2")
@pytest.mark.proves("G3.1")
def test_without_a_terminal_it_prints_the_golden_text_and_exits_0(first: FirstAct) -> None:
    assert (first.done.returncode, first.done.stderr) == (0, "")
    assert masked(first.done.stdout, first.home) == GOLDEN.read_text()


def test_it_leaves_no_process_behind(first: FirstAct) -> None:
    assert first.left == []


@pytest.mark.proof
def test_a_demo_that_was_stopped_leaves_no_process_behind(acts: Acts) -> None:
    assert len(acts.seen_while_up) > 6  # the demo, the supervisor, Postgres, control, the worker, Spark, the query process
    assert acts.left_after_terminal == []


@pytest.mark.proof
def test_a_second_demo_on_the_same_home_continues_after_the_first(acts: Acts) -> None:
    screen = " ".join(acts.on_terminal.split())
    assert "deploying the same file again changed nothing" in screen
    assert "2,000 customers and 300,000 orders of 6 days" in screen
    assert "2026-01-07.csv: Blocked by 1 rule: amount must be in (0, 10000], and 317 of 50,000 rows are outside." in screen
    assert "Every query meanwhile read version 3 with 300,000 rows" in screen
    assert "The run started after order 300,000, where version 3 ended" in screen
    assert "revenue version 4, 56 rows, by shop/revenue" in screen


@pytest.mark.proof
def test_on_a_terminal_the_system_stays_up_until_ctrl_c(acts: Acts) -> None:
    assert "The system stays up: Ctrl-C stops it." in acts.on_terminal
    assert "stopping the system …" in acts.on_terminal
    assert acts.on_terminal.rstrip().endswith("Tracelake has stopped.")
    assert acts.exit_on_terminal == 0


@pytest.mark.proof
def test_a_system_that_runs_already_is_used_and_left_alone(acts: Acts) -> None:
    assert (acts.on_running.returncode, acts.on_running.stderr) == (0, "")
    assert "A system is already running at http://127.0.0.1:" in acts.on_running.stdout
    assert "Every query meanwhile read version 5 with 400,000 rows" in acts.on_running.stdout
    assert "The system keeps running." in acts.on_running.stdout


@pytest.mark.proof
def test_every_printed_command_can_be_pasted(first: FirstAct, acts: Acts) -> None:
    kinds = {command.partition(f"{PROGRAM} ")[2].split()[0] for command in acts.pasted if str(PROGRAM) in command}
    assert kinds == {"deploy", "doctor", "dataset", "events", "explain", "init", "log", "promotion", "query", "record", "replay", "resume", "rule", "run", "status"}
    assert {command: (done.returncode, done.stderr) for command, done in acts.pasted.items() if done.returncode or done.stderr} == {}
    golden = [line for line in GOLDEN.read_text().splitlines() if re.match(r" {3}(tracelake |head |grep )", line)]
    assert len(commands_in(first.done.stdout)) == len(golden)
