"""Writes `docs/reference/cli.md`: every command of `tracelake` in its own words.

With `--check` nothing is written, and a stale page is an error.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from tools.generated import ROOT, settle
from tracelake_sdk.cli.main import app

PAGE = Path("docs/reference/cli.md")
WIDTH = 110
HEAD = """\
# The command line

What `tracelake --help` and the help of each command say. Written by `make docs`.
"""


def helps(command: Any, name: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """A command and all below it, each with its help; typer's own command classes have no public names."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH)
    yield context.command_path, command.get_help(context)
    for below, one in getattr(command, "commands", {}).items():
        yield from helps(one, below, context)


def page() -> str:
    parts = [f"## {path}\n\n```\n{text.rstrip()}\n```\n" for path, text in helps(get_command(app), "tracelake")]
    return "\n".join([HEAD, *parts])


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(PAGE, page(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
