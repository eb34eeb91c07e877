"""The quickstart and the pages of concepts do what they say: their examples are run in their order, on a system that `tracelake up` started."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import ROOT, Example, Reader, examples

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark"), pytest.mark.timeout(1200)]

QUICKSTART = examples("quickstart.md")
START = "Start a system"
# Each begins where the quickstart has ended.
CONCEPTS = ("events-and-tasks", "datasets-and-versions", "the-line", "rules-and-the-gate", "scopes")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who has made the project of the quickstart and started a system in it."""
    place = tmp_path_factory.mktemp("quickstart")
    reader = Reader(place / "home", place)
    for example in QUICKSTART:
        if example.heading == "Make a project":
            reader.follows(example)
    assert reader.folder == place / "my-lake"
    log = place / "up.log"
    with log.open("wb") as output:
        process = subprocess.Popen(["tracelake", "up"], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=reader.environment, cwd=reader.folder)
    try:
        deadline = time.monotonic() + 180
        while "Ctrl-C stops it." not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        assert f", settings {reader.folder / 'tracelake.yaml'})" in log.read_text()
        yield reader
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert log.read_text().endswith("Tracelake has stopped.\n")
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(120)


@pytest.fixture(scope="module")
def quickstart(reader: Reader) -> Reader:
    """Somebody who has followed the quickstart to its end."""
    followed = [example for example in QUICKSTART if example.heading != "Make a project"]
    assert next(example.heading for example in followed) == START
    for example in followed:
        reader.follows(example)
    return reader


@pytest.mark.proves("X.2")
@pytest.mark.proves("X.1")
def test_the_quickstart_can_be_followed_word_for_word(quickstart: Reader) -> None:
    assert "FAILED" not in quickstart.runs(["tracelake", "doctor"])


@pytest.mark.parametrize("page", CONCEPTS)
def test_a_page_of_concepts_can_be_followed_word_for_word(quickstart: Reader, page: str) -> None:
    found: list[Example] = examples(f"concepts/{page}.md")
    assert any(example.shows for example in found)
    for example in found:
        quickstart.follows(example)


def test_the_dag_of_a_page_is_the_example() -> None:
    saved = [example.saves for example in examples("concepts/events-and-tasks.md") if example.saves is not None]
    assert saved == [("ranges.yaml", (ROOT / "examples/ranges/dag.yaml").read_text())]


def test_what_a_page_shows_and_does_not_come_is_noticed(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "home", tmp_path)
    (real,) = [example for example in QUICKSTART if example.heading == "Make a project"]
    reader.follows(real)
    with pytest.raises(AssertionError, match="the page shows"):
        reader.follows(Example("Look", program="print('two  words')", shows=("two words", "three words")))
    reader.follows(Example("Look", program="print('two  words')\nprint('and 12 more')", shows=("two words", "and … more")))
