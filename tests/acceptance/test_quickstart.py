"""The README, the quickstart and the pages of concepts do what they say: their examples are run in their order, as a script would."""

import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.pages import ROOT, UP, Command, Example, Reader, examples
from support.sizes import size, some

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("systems"), pytest.mark.timeout(1200)]

README, QUICKSTART = examples("../README.md"), examples("quickstart.md")
# Each begins where the quickstart has ended.
CONCEPTS = ("events-and-tasks", "datasets-and-versions", "the-line", "rules-and-the-gate", "scopes", "access")


@contextmanager
def someone(place: Path) -> Generator[Reader]:
    """With an empty folder and a home of their own; their system is stopped by Ctrl-C."""
    reader = Reader(place / "home", place)
    try:
        yield reader
        reader.presses_ctrl_c()
    finally:
        reader.leaves()


@contextmanager
def loaded_machine(processes: int) -> Generator[None]:
    """Other programs that take all the time they get."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who has followed the quickstart to its end, without waiting in between."""
    with someone(tmp_path_factory.mktemp("quickstart")) as reader:
        for example in QUICKSTART:
            reader.follows(example)
        yield reader


@pytest.mark.proves("X.2")
@pytest.mark.proves("X.1")
def test_the_quickstart_can_be_followed_word_for_word(quickstart: Reader) -> None:
    assert quickstart.folder.name == "my-lake"
    assert f", settings {quickstart.folder / 'tracelake.yaml'})" in quickstart.log.read_text()
    assert "FAILED" not in quickstart.runs(["tracelake", "doctor"])


@pytest.mark.proves("X.2")
def test_the_commands_of_the_readme_can_be_run_one_after_the_other(tmp_path: Path) -> None:
    assert any(example.shows for example in README)
    with someone(tmp_path) as reader:
        for example in README:
            reader.follows(example)


@pytest.mark.proof
@pytest.mark.proves("X.2")
@pytest.mark.timeout(7200)
def test_both_pages_hold_again_and_again_on_a_loaded_machine(tmp_path: Path) -> None:
    with loaded_machine(4):
        for number in range(size(1, 10)):
            for name, page in (("readme", README), ("quickstart", QUICKSTART)):
                place = tmp_path / f"{name}-{number}"
                place.mkdir()
                with someone(place) as reader:
                    for example in page:
                        reader.follows(example)


@pytest.mark.parametrize("page", some(CONCEPTS, "rules-and-the-gate", "access"))
def test_a_page_of_concepts_can_be_followed_word_for_word(quickstart: Reader, page: str) -> None:
    found: list[Example] = examples(f"concepts/{page}.md")
    assert any(example.shows for example in found)
    quickstart.patient = True
    for example in found:
        quickstart.follows(example)


def test_the_dag_of_a_page_is_the_example() -> None:
    saved = [example.saves for example in examples("concepts/events-and-tasks.md") if example.saves is not None]
    assert saved == [("ranges.yaml", (ROOT / "examples/ranges/dag.yaml").read_text())]


def test_both_pages_start_a_system() -> None:
    for page in (README, QUICKSTART):
        assert [command for example in page for command in example.commands].count(Command(UP)) == 1


def test_what_a_page_shows_and_does_not_come_is_noticed(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "home", tmp_path)
    (real,) = [example for example in QUICKSTART if example.heading == "Make a project"]
    reader.follows(real)
    with pytest.raises(AssertionError, match="the page shows"):
        reader.follows(Example("Look", program="print('two  words')", shows=("two words", "three words")))
    reader.follows(Example("Look", program="print('two  words')\nprint('and 12 more')", shows=("two words", "and … more")))
