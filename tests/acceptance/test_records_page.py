"""The page about records does what it says, with the SDK and a folder alone."""

from pathlib import Path

import pytest
from support.pages import Reader, examples

PAGE = "concepts/records.md"


@pytest.mark.proves("M4.3")
@pytest.mark.timeout(300)
def test_the_page_about_records_can_be_followed_word_for_word(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "home", tmp_path)
    followed = examples(PAGE)
    assert len(followed) >= 12
    for example in followed:
        reader.follows(example)
