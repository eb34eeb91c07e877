"""The page of promises says what the tests show, no more and no less."""

from pathlib import Path

import pytest

from tools import guarantees
from tools.guarantees import Proof, UnknownPromise, page, proofs_in, read_promises

PROMISES = read_promises("""
[T2]
title = "Events and tasks"
1 = "One event makes one task."
5 = "One key has one effect."

[X]
title = "Across all"
2 = "One command."
""")

SOURCE = '''
import pytest
pytestmark = [pytest.mark.spark, pytest.mark.proves("X.2")]

@pytest.mark.proves("T2.5", "T2.1")
@pytest.mark.parametrize("n", [1, 2])
def test_two_of_them_race(n): ...

def test_the_module_counts(): ...

@pytest.mark.proves("T2.1")
def not_a_test(): ...

class TestQueue:
    pytestmark = pytest.mark.proves("T2.5")

    def test_inside(self): ...

TestTaskLives = Machine.TestCase
TestTaskLives.pytestmark = [pytest.mark.proves("T2.1")]
'''


def test_marks_are_read_from_functions_classes_modules_and_state_machines() -> None:
    assert set(proofs_in(SOURCE, "a.py")) == {
        Proof("a.py", "test_two_of_them_race", "T2.1"),
        Proof("a.py", "test_two_of_them_race", "T2.5"),
        Proof("a.py", "test_two_of_them_race", "X.2"),
        Proof("a.py", "test_the_module_counts", "X.2"),
        Proof("a.py", "TestQueue.test_inside", "T2.5"),
        Proof("a.py", "TestQueue.test_inside", "X.2"),
        Proof("a.py", "TestTaskLives", "T2.1"),
        Proof("a.py", "TestTaskLives", "X.2"),
    }


def test_a_promise_without_a_test_is_not_listed() -> None:
    text = page(PROMISES, [Proof("server/tests/test_a.py", "test_two_of_them_race", "T2.5")])
    assert "**T2.5** One key has one effect." in text
    assert "- [two of them race](../../server/tests/test_a.py)" in text
    assert "T2.1" not in text
    assert "Across all" not in text


def test_an_unknown_number_is_an_error_that_names_the_test() -> None:
    with pytest.raises(UnknownPromise, match=r"a\.py: test_it proves T99\.1"):
        page(PROMISES, [Proof("a.py", "test_it", "T99.1")])


def test_a_number_that_cannot_be_read_from_the_source_is_an_error() -> None:
    with pytest.raises(UnknownPromise, match=r"a\.py:2"):
        list(proofs_in("\n@pytest.mark.proves(NUMBER)\ndef test_it(): ...\n", "a.py"))


def test_check_fails_until_the_page_is_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\ntestpaths = ["tests"]\n')
    (tmp_path / "docs/reference/promises.toml").write_text('[X]\ntitle = "All"\n2 = "One command."\n')
    test = tmp_path / "tests/test_it.py"
    test.write_text('@pytest.mark.proves("X.2")\ndef test_it(): ...\n')

    assert guarantees.main(["--check"], tmp_path) == 1
    assert guarantees.main([], tmp_path) == 0
    assert guarantees.main(["--check"], tmp_path) == 0

    test.write_text(test.read_text().replace("test_it", "test_it_better"))
    assert guarantees.main(["--check"], tmp_path) == 1
    assert "run `make docs`" in capsys.readouterr().err

    test.write_text('@pytest.mark.proves("X.3")\ndef test_it(): ...\n')
    assert guarantees.main(["--check"], tmp_path) == 1
    assert "proves X.3" in capsys.readouterr().err


def test_every_promise_is_one_sentence_under_a_title() -> None:
    promises = read_promises((guarantees.ROOT / "docs/reference/promises.toml").read_text())
    for promise in promises.values():
        assert promise.title
        assert promise.sentence.endswith("."), promise.number
        assert ". " not in promise.sentence, promise.number
