"""Prints the demo: numbered headings, sentences, trees and small tables, and commands on their own lines."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tracelake_sdk.cli.printing import console

_INDENT = 3


class Printer:
    """Sentences are wrapped on a terminal and left whole elsewhere; commands are never broken."""

    def __init__(self) -> None:
        self._screen: Console = console()
        self._chapter: int = 0

    def title(self, text: str) -> None:
        self._screen.print(Text(text, "bold"))

    def chapter(self, text: str) -> None:
        self._chapter += 1
        self._screen.print()
        self._screen.print(Text.assemble((f"{self._chapter}", "cyan"), "  ", (text, "bold")), soft_wrap=True)

    def say(self, *sentences: str) -> None:
        self._print(Text(" ".join(sentences)))

    def stress(self, sentence: str, style: str) -> None:
        """A highlighted sentence."""
        self._print(Text(sentence, style))

    def command(self, *commands: str) -> None:
        for command in commands:
            self._screen.print(Text.assemble(" " * _INDENT, (command, "green")), soft_wrap=True)

    def picture(self, rows: Sequence[tuple[str, str, str]]) -> None:
        """The jobs as a tree: connecting lines, name and note of each."""
        width = max(len(lines) + len(name) for lines, name, _ in rows)
        self._screen.print()
        for lines, name, words in rows:
            gap = " " * (width - len(lines) - len(name) + 3)
            self._screen.print(Text.assemble(" " * (_INDENT + 2), (lines, "dim"), (name, "bold"), gap, words), soft_wrap=True)
        self._screen.print()

    def facts(self, rows: Sequence[tuple[str, str]]) -> None:
        """A label and its sentence, which is wrapped beside the label on a terminal."""
        width = max(len(word) for word, _ in rows) + _INDENT
        self._screen.print()
        for word, sentence in rows:
            if self._screen.is_terminal:
                grid = Table.grid()
                grid.add_column(width=width, no_wrap=True)
                grid.add_row(Text(word, "bold"), Text(sentence))
                self._screen.print(Padding(grid, (0, _INDENT, 0, _INDENT + 2)))
            else:
                self._screen.print(Text(f"{' ' * (_INDENT + 2)}{word:<{width}}{sentence}"), soft_wrap=True)
        self._screen.print()

    def lines(self, lines: Sequence[str]) -> None:
        """Indented lines without wrapping; the first is the heading."""
        self._screen.print()
        for place, line in enumerate(lines):
            self._screen.print(Text.assemble(" " * (_INDENT + 2), (line, "" if place else "bold")), soft_wrap=True)
        self._screen.print()

    @contextmanager
    def busy(self, words: str) -> Generator[Callable[[str], None]]:
        """Shows a spinner with this text, on a terminal only; the yielded function changes the text."""
        if not self._screen.is_terminal:
            yield lambda words: None
            return
        with self._screen.status(Text(words)) as shown:
            yield lambda words: shown.update(Text(words))

    def _print(self, text: Text) -> None:
        if self._screen.is_terminal:
            self._screen.print(Padding(text, (0, _INDENT, 0, _INDENT)))
        else:
            self._screen.print(Text(" " * _INDENT) + text, soft_wrap=True)
