"""Pages of the documentation, followed word for word: their commands are run, and what they show must be what comes.

A block without a language is a list of commands; `# ends with 1` says that one of them fails. A block `text` right behind it is what
the last of them shows: its lines in their order, blanks of any number being one, and `…` for anything. A block `python` is a program; a
block `yaml` that begins with `# save as NAME` is a file. `tracelake up` is started in the background, until it says that it is up. What stands in
any other block `sh` is for people alone. Commands follow each other at once, as in a script.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("tracelake")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)
_SAVE_AS = re.compile(r"# save as (\S+)\n")
_ENDS_WITH = re.compile(r"\s*# ends with (\d+)$")
UP = "tracelake up"
_IS_UP = "Ctrl-C stops it."
_COMMENT = re.compile(r"\s+#.*$")
_LOOKS = ("status", "events", "log", "explain", "query", "dataset list", "dataset show", "promotion list", "promotion show", "task list", "rule list")
_LONGEST = 240.0


@dataclass(frozen=True)
class Command:
    words: str
    ends_with: int = 0

    @property
    def only_looks(self) -> bool:
        return self.words.startswith(tuple(f"tracelake {look}" for look in _LOOKS))


@dataclass(frozen=True)
class Example:
    """Commands, or a program, and what the last of them shows."""

    heading: str
    commands: tuple[Command, ...] = ()
    program: str | None = None
    saves: tuple[str, str] | None = None  # a file: its name and its text
    shows: tuple[str, ...] = ()


def examples(page: str) -> list[Example]:
    """All of a page, in their order."""
    text = (ROOT / "docs" / page).read_text()
    found: list[Example] = []
    for block in _BLOCK.finditer(text):
        headings = _HEADING.findall(text, 0, block.start())
        heading, language, body = headings[-1] if headings else "", block[1], block[2]
        if language == "text":
            assert found, f"{page}: the first block shows something, and nothing was done"
            last = found.pop()
            assert not last.shows, f"{page}: two blocks show what one does"
            found.append(replace(last, shows=tuple(body.splitlines())))
        elif language == "python":
            found.append(Example(heading, program=body))
        elif language == "yaml" and (name := _SAVE_AS.match(body)):
            found.append(Example(heading, saves=(name[1], body[name.end():])))
        elif not language or (language == "sh" and body.strip() == UP):
            found.append(Example(heading, tuple(_command(line) for line in body.splitlines() if line.strip())))
    return found


def _command(line: str) -> Command:
    ends = _ENDS_WITH.search(line)
    return Command(line[: ends.start()], int(ends[1])) if ends else Command(_COMMENT.sub("", line))


class Reader:
    """Somebody who follows pages in one folder, with a home of their own. A `patient` one looks again until a page's words have come true."""

    def __init__(self, home: Path, folder: Path, *, patient: bool = False) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        self.folder = folder
        self.patient = patient
        self.environment = kept | {"TRACELAKE_HOME": str(home), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
        self.log = folder / "up.log"
        self._system: subprocess.Popen[bytes] | None = None

    def follows(self, example: Example) -> None:
        if example.program is not None:
            self._shows(self.runs([sys.executable, "-c", example.program]), example)
            return
        if example.saves is not None:
            name, text = example.saves
            (self.folder / name).write_text(text)
            return
        shown = ""
        for command in example.commands:
            if command.words == UP:
                self.starts_a_system()
            else:
                shown = self.types(command)
        self._waits_for(shown, example)

    def types(self, command: Command) -> str:
        """In the folder where the last command has left it."""
        left_in = self.log.with_name("left-in")
        shown = self.runs(["bash", "-c", f"{command.words}\ncode=$?; pwd > {shlex.quote(str(left_in))}; exit $code"], command.ends_with)
        self.folder = Path(left_in.read_text().strip())
        return shown

    def runs(self, program: list[str], ends_with: int = 0) -> str:
        answer = subprocess.run(program, capture_output=True, text=True, check=False, timeout=_LONGEST, cwd=self.folder, stdin=subprocess.DEVNULL, env=self.environment)
        # On stderr is only how far a run is.
        assert answer.returncode == ends_with and "Traceback" not in answer.stderr and "error [" not in answer.stderr, f"{program[-1]}\n{answer.stdout}{answer.stderr}"
        return answer.stdout

    def starts_a_system(self) -> None:
        """As in a second terminal; returns when it prints that it is up."""
        with self.log.open("wb") as output:
            self._system = subprocess.Popen(
                ["tracelake", "up"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=self.environment, cwd=self.folder
            )
        deadline = time.monotonic() + _LONGEST
        while _IS_UP not in self.log.read_text():
            assert self._system.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def presses_ctrl_c(self) -> None:
        """In that terminal."""
        assert self._system is not None
        self._system.send_signal(signal.SIGINT)
        assert self._system.wait(120) == 0
        assert self.log.read_text().endswith("Tracelake has stopped.\n")

    def leaves(self) -> None:
        """Whatever still runs is ended."""
        if self._system is not None and self._system.poll() is None:
            self._system.terminate()
            self._system.wait(120)

    def _waits_for(self, shown: str, example: Example) -> None:
        """What follows by itself takes its time: a command that only looks is repeated by those who are patient."""
        deadline = time.monotonic() + _LONGEST
        while self.patient and not _is_shown(example.shows, shown) and example.commands[-1].only_looks and time.monotonic() < deadline:
            time.sleep(0.3)
            shown = self.types(example.commands[-1])
        self._shows(shown, example)

    def _shows(self, shown: str, example: Example) -> None:
        assert _is_shown(example.shows, shown), f"{example.heading}: the page shows\n" + "\n".join(example.shows) + f"\n\nand what came is\n{shown}"


def _is_shown(lines: tuple[str, ...], shown: str) -> bool:
    """Every line, in its order; others may stand between them."""
    came = iter([" ".join(line.split()) for line in shown.splitlines()])
    return all(any(_fits(line, other) for other in came) for line in lines if line.strip())


def _fits(line: str, other: str) -> bool:
    return re.fullmatch(re.escape(" ".join(line.split())).replace("…", ".*"), other) is not None
