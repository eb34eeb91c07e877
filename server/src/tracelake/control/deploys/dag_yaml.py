"""The YAML of a DAG file as a tree in which every value has its position.

Only YAML that every reader interprets the same way is accepted: no anchors, aliases, merge keys or tags, one document, unique text
keys, and no plain word that one version of YAML reads as text and another does not.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import yaml
from yaml.resolver import Resolver

from tracelake.control.deploys.dag_findings import DagFindings, FilePosition, path_below, quoted
from tracelake_sdk.errors.dags import (
    DagAliasRefused,
    DagEmpty,
    DagInvalid,
    DagKeyDuplicate,
    DagKeyNotText,
    DagManyDocuments,
    DagMergeRefused,
    DagNumberOutOfBounds,
    DagScalarAmbiguous,
    DagTagRefused,
    DagTextInvalid,
    DagTooDeep,
    DagTooLarge,
    DagYamlInvalid,
)

MAX_BYTES = 1024 * 1024
MAX_VALUES = 50_000
MAX_DEPTH = 20

_TOP = FilePosition("", 1, 1)
# What a YAML stream may hold, and of that what a text may hold: no control character but the ends of lines and the tab.
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+][0-9]+)?")
# Numbers in YAML 1.2 that are not numbers in YAML 1.1; `Resolver` has the words of YAML 1.1.
_NUMBER_ELSEWHERE = re.compile(r"[-+]?[0-9]+|0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_MEANT = {"bool": "a boolean", "int": "a number", "float": "a number", "timestamp": "a date or time"}


class Broken(Enum):
    """Replaces a refused value, so that no further error is reported for it."""

    BROKEN = "broken"


Value = str | int | float | bool | None | Literal[Broken.BROKEN] | tuple["Node", ...] | dict[str, "Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its position: that of its key in a mapping, its own in a list."""

    position: FilePosition
    value: Value
    complete: bool = True  # false: keys of this mapping were refused, so a key may only seem missing


def read_yaml(text: str, findings: DagFindings) -> Node:
    """The file's tree; errors are added to the findings, or raised if parsing cannot continue."""
    _refuse_unreadable(text, findings)
    findings.raise_first()
    try:
        return _Reader(text, findings).document()
    except yaml.MarkedYAMLError as error:
        findings.add(
            DagYamlInvalid, _place_of(error, text), f"this is not valid YAML ({error.problem or 'unreadable'})",
            "Indent with spaces, close every bracket and quote, and quote text that contains `: ` or starts with a special character",
        )
        return Node(_TOP, Broken.BROKEN)


def plain(node: Node) -> Any:
    """The tree as plain values; only for a tree without findings."""
    match node.value:
        case dict() as entries:
            return {key: plain(child) for key, child in entries.items()}
        case tuple() as items:
            return [plain(item) for item in items]
        case value:
            return value


def _refuse_unreadable(text: str, findings: DagFindings) -> None:
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        findings.add(DagTooLarge, _TOP, f"the file is larger than {MAX_BYTES:,} bytes", "Split it into several DAGs")
        return
    if bad := _NOT_YAML.search(text.removeprefix("\ufeff")):
        line = text.count("\n", 0, bad.start()) + 1
        findings.add(
            DagYamlInvalid, FilePosition("", line, 1), f"the character U+{ord(bad[0]):04X} is not allowed in YAML",
            "Save the file as UTF-8 text and remove the character",
        )


def _place_of(error: yaml.MarkedYAMLError, text: str) -> FilePosition:
    """Where the mistake is; for something that was never closed, where it was opened."""
    mark = error.problem_mark or error.context_mark
    if error.context_mark is not None and mark is not None and (mark.line >= text.count("\n") or "end of stream" in (error.problem or "")):
        mark = error.context_mark
    return _TOP if mark is None else FilePosition("", min(mark.line + 1, _last_line(text)), mark.column + 1)


def _last_line(text: str) -> int:
    return max(len(text.splitlines()), 1)


class _Reader:
    """Builds the tree from the parser's events, in the order of the file."""

    def __init__(self, text: str, findings: DagFindings) -> None:
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=yaml.CSafeLoader))
        self._findings = findings
        self._values = 0
        self._last_line = _last_line(text)

    def document(self) -> Node:
        next(self._events)  # the start of the stream
        empty = isinstance(next(self._events), yaml.StreamEndEvent)
        root = Node(_TOP, None) if empty else self._node(next(self._events), "", None, depth=0)
        if root.value is None:
            self._findings.add(DagEmpty, _TOP, "the file is empty", "Write a DAG with at least `name` and `jobs`")
            self._findings.raise_first()
        next(self._events)  # the end of the document
        after = next(self._events)
        if isinstance(after, yaml.DocumentStartEvent):
            self._findings.add(DagManyDocuments, self._at("", after), "a second YAML document starts here", "Keep one DAG per file, without `---` inside")
            self._findings.raise_first()
        return root

    def _at(self, path: str, event: Any) -> FilePosition:
        # A key missing at the end of the file is reported on a line after it.
        return FilePosition(path, min(event.start_mark.line + 1, self._last_line), event.start_mark.column + 1)

    def _node(self, event: Any, path: str, key: FilePosition | None, *, depth: int) -> Node:
        """The value that starts with this event, at its key's position when it has a key."""
        position = self._at(path, event) if key is None else FilePosition(path, key.line, key.column)
        self._values += 1
        if self._values > MAX_VALUES:
            self._findings.add(DagTooLarge, position, f"the file contains more than {MAX_VALUES:,} values", "Split it into several DAGs")
            self._findings.raise_first()
        if depth > MAX_DEPTH:
            self._findings.add(DagTooDeep, position, f"this is nested more than {MAX_DEPTH} levels deep", "Flatten it")
            self._findings.raise_first()
        self._refuse_references(event, position)
        match event:
            case yaml.AliasEvent():
                return Node(position, Broken.BROKEN)
            case yaml.SequenceStartEvent():
                return self._list(position, depth)
            case yaml.MappingStartEvent():
                return self._mapping(position, depth)
            case _:
                return Node(position, self._scalar(event, position))

    def _refuse_references(self, event: Any, position: FilePosition) -> None:
        if event.anchor is not None:
            sign, word = ("*", "alias") if isinstance(event, yaml.AliasEvent) else ("&", "anchor")
            self._findings.add(DagAliasRefused, position, f"`{sign}` makes this an {word}", "Write the value out wherever it is needed")
        if tag := getattr(event, "tag", None):
            tag = quoted(tag.replace("tag:yaml.org,2002:", "!!"))
            self._findings.add(DagTagRefused, position, f"the tag {tag} is not accepted", "Remove the tag and write a plain value")

    def _list(self, position: FilePosition, depth: int) -> Node:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, f"{position.path}[{len(items)}]", None, depth=depth + 1))
        return Node(position, tuple(items))

    def _mapping(self, position: FilePosition, depth: int) -> Node:
        entries: dict[str, Node] = {}
        complete = True
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, position, depth)
            here = self._at(position.path if key is None else path_below(position.path, key), event)
            value = self._node(next(self._events), here.path, here, depth=depth + 1)
            if key is None:
                complete = False
            elif key in entries:
                self._findings.add(
                    DagKeyDuplicate, here, f"the key {quoted(key)} occurs twice, first in line {entries[key].position.line}", "Keep one of them",
                )
            else:
                entries[key] = value
        return Node(position, entries, complete)

    def _key(self, event: Any, position: FilePosition, depth: int) -> str | None:
        """The key's text; None, with a finding, for what cannot be a key."""
        if isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<":
            here = self._at(position.path, event)
            self._findings.add(DagMergeRefused, here, "a merge key (`<<`) is not accepted", "Write the keys out, or use `defaults`")
            return None
        here = self._at(position.path, event)
        key = self._node(event, position.path, here, depth=depth + 1).value
        if isinstance(key, str):
            return key
        if key is not Broken.BROKEN:
            self._findings.add(DagKeyNotText, here, "a key here is not text", 'Quote it: "…"')
        return None

    def _scalar(self, event: Any, position: FilePosition) -> "Value":
        text: str = event.value
        if not event.implicit[0]:
            return self._text(text, position)
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) or _FLOAT.fullmatch(text):
            return self._number(text, position)
        if meant := _meant_elsewhere(text):
            # Without the value itself: it may be a password that happens to look like a number.
            return self._refuse(
                DagScalarAmbiguous, position, f"some YAML readers interpret this unquoted word as {meant}, others do not",
                'Quote it ("…") if it is text; otherwise write true, false or a plain decimal number',
            )
        return self._text(text, position)

    def _number(self, text: str, position: FilePosition) -> "Value":
        if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        if _INTEGER.fullmatch(text) and len(text) <= 20 and -(2**63) <= int(text) < 2**63:
            return int(text)
        return self._refuse(DagNumberOutOfBounds, position, "this number does not fit in 64 bits", "Write a smaller number, or quote it if it is text")

    def _text(self, text: str, position: FilePosition) -> "Value":
        if bad := _NOT_TEXT.search(text):
            return self._refuse(DagTextInvalid, position, f"the text contains the character U+{ord(bad[0]):04X}", "Remove the character")
        return text

    def _refuse(self, kind: type[DagInvalid], position: FilePosition, what: str, remedy: str) -> "Value":
        self._findings.add(kind, position, what, remedy)
        return Broken.BROKEN


def _meant_elsewhere(text: str) -> str | None:
    """What another YAML reader takes a plain text word for, or None."""
    for tag, pattern in Resolver.yaml_implicit_resolvers.get(text[0], []):
        if pattern.match(text):
            return _MEANT.get(tag.rpartition(":")[2], "a special word")
    return "a number" if _NUMBER_ELSEWHERE.fullmatch(text) else None
