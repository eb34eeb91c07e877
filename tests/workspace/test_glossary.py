"""The glossary names modules that exist, and each word once."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

GLOSSARY = Path(__file__).parents[2] / "docs/glossary.md"
ROWS = re.findall(r"^\| ([^|]+) \| [^|]+ \| `([a-z_.]+)` \|$", GLOSSARY.read_text(), re.MULTILINE)


@pytest.mark.parametrize("module", sorted({module for _, module in ROWS}))
def test_the_module_of_a_word_exists(module: str) -> None:
    assert find_spec(module) is not None


def test_each_word_has_one_line() -> None:
    words = [word for word, _ in ROWS]
    assert len(words) > 50 and len(words) == len(set(words))
