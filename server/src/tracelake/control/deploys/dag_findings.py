"""What is found wrong with a DAG file: everything is checked, the first by line is reported."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tracelake_sdk.errors.dags import DagInvalid
from tracelake_sdk.suggestions import nearest

_LONGEST_WORD = 80
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the file; line and column count from 1."""

    path: str
    line: int
    column: int

    def key(self, name: str) -> "Place":
        """The place of a key that is not there: what it belongs to is there."""
        return Place(path_below(self.path, name), self.line, self.column)


@dataclass(frozen=True)
class Suggestion:
    """`Did you mean …?` when something known is close to the word, and other advice when nothing is."""

    word: str
    known: Collection[str]
    otherwise: str

    def __str__(self) -> str:
        near = nearest(self.word, self.known)
        return f"Did you mean `{near}`?" if near else self.otherwise


@dataclass(frozen=True)
class Finding:
    kind: type[DagInvalid]
    place: Place
    what: str
    remedy: str | Suggestion  # computed only when it is reported: finding the nearest name takes time

    def error(self) -> DagInvalid:
        return self.kind.at(self.place.path or "file", self.place.line, self.what, str(self.remedy))


@dataclass
class Findings:
    """Keeps the finding that stands first in the file; of two at one place, the one found first."""

    first: Finding | None = None

    def add(self, kind: type[DagInvalid], place: Place, what: str, remedy: str | Suggestion) -> None:
        if self.first is None or (place.line, place.column) < (self.first.place.line, self.first.place.column):
            self.first = Finding(kind, place, what, remedy)

    def raise_first(self) -> None:
        if self.first is not None:
            raise self.first.error()


def path_below(path: str, key: str) -> str:
    """The path of a key below a path; a key that is not a plain word is written in brackets."""
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key[:_LONGEST_WORD])}]"
    return f"{path}.{key}" if path else key


def quoted(word: str) -> str:
    """A word from the file as it may stand in a sentence: on one line, and never longer than a sentence can bear."""
    shown = word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…"
    return f"`{shown}`" if shown.isprintable() else repr(shown)


def one_of(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
