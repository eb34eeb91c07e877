"""Findings in a DAG file: everything is checked, the first finding by line is reported."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tracelake_sdk.errors.dags import DagInvalid
from tracelake_sdk.suggestions import nearest

_LONGEST_WORD = 80
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position in the file; line and column count from 1."""

    path: str
    line: int
    column: int

    def key(self, name: str) -> "FilePosition":
        """The position of a missing key: that of its parent."""
        return FilePosition(path_below(self.path, name), self.line, self.column)


@dataclass(frozen=True)
class Suggestion:
    """`Did you mean …?` if a known word is similar, else other advice."""

    word: str
    known: Collection[str]
    otherwise: str

    def __str__(self) -> str:
        near = nearest(self.word, self.known)
        return f"Did you mean `{near}`?" if near else self.otherwise


@dataclass(frozen=True)
class DagFinding:
    kind: type[DagInvalid]
    position: FilePosition
    what: str
    remedy: str | Suggestion  # computed only when it is reported: finding the nearest name takes time

    def error(self) -> DagInvalid:
        return self.kind.at(self.position.path or "file", self.position.line, self.what, str(self.remedy))


@dataclass
class DagFindings:
    """Keeps the first finding by position in the file; of two at one position, the one added first."""

    first: DagFinding | None = None

    def add(self, kind: type[DagInvalid], position: FilePosition, what: str, remedy: str | Suggestion) -> None:
        if self.first is None or (position.line, position.column) < (self.first.position.line, self.first.position.column):
            self.first = DagFinding(kind, position, what, remedy)

    def raise_first(self) -> None:
        if self.first is not None:
            raise self.first.error()


def path_below(path: str, key: str) -> str:
    """The path of a key below a path; a key that is not a plain word is written in brackets."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key[:_LONGEST_WORD])}]"
    return f"{path}.{key}" if path else key


def quoted(word: str) -> str:
    """A word from the file for use in a sentence: on one line, and shortened."""
    shown = word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
    return f"`{shown}`" if shown.isprintable() else repr(shown)


def one_of(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
