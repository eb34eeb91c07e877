"""The quickstart does what it says: its commands are taken from the page and run in their order, on a system that `tracelake up` started."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).with_name("tracelake")
PAGE = (ROOT / "docs/quickstart.md").read_text()


class Reader:
    """Somebody who follows the page, in a home of their own."""

    def __init__(self, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACELAKE")}
        self.home = home
        self.environment = kept | {"TRACELAKE_HOME": str(home), "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}

    def types(self, command: str) -> str:
        answer = subprocess.run(
            command, shell=True, capture_output=True, text=True, check=False, timeout=120, cwd=ROOT, stdin=subprocess.DEVNULL, env=self.environment
        )
        assert (answer.returncode, answer.stderr) == (0, ""), f"{command}\n{answer.stdout}{answer.stderr}"
        return answer.stdout

    def tasks(self, job: str) -> dict[str, Any]:
        jobs = json.loads(self.types("tracelake status ranges -o json"))["jobs"]
        return next(one["tasks"] for one in jobs if one["name"] == job)

    def wait_until_completed(self, job: str, number: int) -> None:
        deadline = time.monotonic() + 90
        while self.tasks(job)["completed"] < number:
            assert time.monotonic() < deadline, self.types("tracelake status")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path / "home")
    log = tmp_path / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(["tracelake", "up"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=reader.environment)
    try:
        deadline = time.monotonic() + 120
        while "Tracelake is up at " not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield reader
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert log.read_text().endswith("Tracelake has stopped.\n")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def commands(heading: str) -> list[str]:
    """The `tracelake` commands below one heading."""
    section = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    below = next(part for part in section if part.startswith(heading))
    blocks = re.findall(r"```\n(.*?)```", below, flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("tracelake ")]


@pytest.mark.proves("X.2")
@pytest.mark.proves("X.1")
def test_the_quickstart_can_be_followed_word_for_word(reader: Reader) -> None:
    (doctor,) = commands("Start a system")
    assert "FAILED" not in reader.types(doctor)
    dry, deploy = commands("Deploy a DAG")
    assert "Nothing was changed." in reader.types(dry)
    assert "DAG ranges is active as version 1 with 4 jobs." in reader.types(deploy)
    run, status, events, tasks, log = commands("Run it")
    assert "told 120 events" in reader.types(run)
    reader.wait_until_completed("count", 10)
    assert "numbers" in reader.types(status)
    assert reader.types(events).count("[0, 100)") == 1
    assert reader.types(tasks).count("ranges/count  completed") == 5
    assert reader.types(log).count("SUCCESS") == 5
    pause, one_more, paused, resume = commands("Hold and go on")
    reader.types(pause)
    reader.types(one_more)
    deadline = time.monotonic() + 60
    while reader.tasks("hundreds")["waiting"] != {"paused": 1}:
        assert time.monotonic() < deadline
    assert "1 (paused)" in reader.types(paused)
    reader.types(resume)
    reader.wait_until_completed("hundreds", 121)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120, env=reader.environment)
    assert answer.stdout.endswith("completed\n")
