"""The examples on the page about the bus run, and print what the page says."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "concepts" / "bus.md"
_EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_examples_print_what_the_page_says():
    found = _EXAMPLE.findall(PAGE.read_text())
    assert len(found) == PAGE.read_text().count("```python") == 2
    names: dict[str, object] = {}
    for code, printed in found:
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, PAGE.name, "exec"), names)
        assert output.getvalue() == printed
