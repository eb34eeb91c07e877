"""The shape of a DAG file: which keys it has, and the values of each.

The shape is data; one pass finds every unknown key, missing key and wrong type of a file.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import ValidationError

from tracelake.control.deploys.dag_findings import DagFindings, Suggestion, one_of, quoted
from tracelake.control.deploys.dag_yaml import Broken, Node, plain
from tracelake_sdk.dags import (
    COLUMN,
    NAME,
    Activation,
    CursorBounds,
    ExecutionStrategy,
    Layer,
    NullKeys,
    PartitionSpec,
    Runtime,
    SourceKind,
    UpdateStrategy,
)
from tracelake_sdk.datasets.cursors import CursorType
from tracelake_sdk.errors.dags import (
    DagBulkRefused,
    DagColumnInvalid,
    DagDomainMissing,
    DagInputMixed,
    DagInvalid,
    DagKeyMissing,
    DagKeyUnknown,
    DagListLength,
    DagNameInvalid,
    DagNumberOutOfBounds,
    DagOwnerMissing,
    DagPartitionInvalid,
    DagSourceNotAvailable,
    DagTextInvalid,
    DagTypeWrong,
    DagValueMissing,
    DagValueUnknown,
    DagVarRefused,
    DagWhereInvalid,
)


@dataclass(frozen=True)
class Look:
    """One check of a file: its findings, and the values of `defaults`."""

    findings: DagFindings
    defaults: Collection[str] = ()


class Shape(Protocol):
    def check(self, node: Node, look: Look) -> None: ...


def check_shape(root: Node, findings: DagFindings) -> None:
    given = root.value.get("defaults") if isinstance(root.value, dict) else None
    defaults = given.value if given is not None and isinstance(given.value, dict) else {}
    DAG.check(root, Look(findings, frozenset(defaults)))


def _type_of(node: Node) -> str:
    match node.value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case tuple():
            return "a list"
        case _:
            return "a mapping"


def _is(node: Node, look: Look, kind: type, needed: str) -> bool:
    """Whether the value is of this type; otherwise adds a finding."""
    if node.value is Broken.BROKEN:
        return False
    if node.value is None:
        look.findings.add(DagValueMissing, node.position, "the value is missing", f"Write {needed}")
        return False
    if isinstance(node.value, kind) and not (kind is int and isinstance(node.value, bool)):
        return True
    quotes = kind is str and isinstance(node.value, bool | int | float)
    remedy = 'If text is meant, quote it: "…"' if quotes else f"Write {needed}"
    look.findings.add(DagTypeWrong, node.position, f"this is {_type_of(node)}, where {needed} is needed", remedy)
    return False


@dataclass(frozen=True)
class Text:
    longest: int = 200
    may_be_empty: bool = False

    def check(self, node: Node, look: Look) -> None:
        if not _is(node, look, str, "text"):
            return
        text = str(node.value)
        empty = not text.strip() and not self.may_be_empty
        if empty or len(text) > self.longest:
            what = "the text is empty" if empty else f"the text is longer than {self.longest:,} characters"
            look.findings.add(DagTextInvalid, node.position, what, f"Write 1 to {self.longest:,} characters")


@dataclass(frozen=True)
class Name:
    what: str

    def check(self, node: Node, look: Look) -> None:
        if _is(node, look, str, f"the {self.what}"):
            check_name(node, str(node.value), look, self.what)


def check_name(node: Node, name: str, look: Look, what: str) -> None:
    if not NAME.fullmatch(name):
        remedy = "Use a lowercase letter, then at most 127 lowercase letters, digits and underscores"
        look.findings.add(DagNameInvalid, node.position, f"{quoted(name)} cannot be a {what}", remedy)


@dataclass(frozen=True)
class ColumnName:
    def check(self, node: Node, look: Look) -> None:
        if not _is(node, look, str, "the name of a column"):
            return
        name = str(node.value)
        if not COLUMN.fullmatch(name):
            remedy = "Write 1 to 255 characters without blanks, dots, quotes and any of , ; { } ( ) ="
            look.findings.add(DagColumnInvalid, node.position, f"{quoted(name)} cannot be the column of a key or a partition", remedy)


@dataclass(frozen=True)
class Choice:
    """One of a few words; `refused` words are known and have specific errors."""

    words: Collection[str]
    refused: Mapping[str, tuple[type[DagInvalid], str, str]] = field(default_factory=dict[str, tuple[type[DagInvalid], str, str]])

    def check(self, node: Node, look: Look) -> None:
        if not _is(node, look, str, f"one of {one_of(self.words)}") or node.value in self.words:
            return
        word = str(node.value)
        known = next((known for known in self.refused if known.lower() == word.lower()), None)
        if known is not None:
            look.findings.add(self.refused[known][0], node.position, *self.refused[known][1:])
        else:
            remedy = Suggestion(word, self.words, otherwise=f"Valid here: {one_of(self.words)}")
            look.findings.add(DagValueUnknown, node.position, f"{quoted(word)} is not valid here", remedy)


@dataclass(frozen=True)
class Whole:
    least: int
    most: int

    def check(self, node: Node, look: Look) -> None:
        if _is(node, look, int, "a whole number") and not (isinstance(node.value, int) and self.least <= node.value <= self.most):
            look.findings.add(
                DagNumberOutOfBounds, node.position, f"{node.value} is not between {self.least:,} and {self.most:,}", "Write a number between the two",
            )


@dataclass(frozen=True)
class Flag:
    def check(self, node: Node, look: Look) -> None:
        _is(node, look, bool, "true or false")


@dataclass(frozen=True)
class ListOf:
    item: Shape
    least: int
    most: int

    def check(self, node: Node, look: Look) -> None:
        if not _is(node, look, tuple, "a list") or not isinstance(node.value, tuple):
            return
        if not self.least <= len(node.value) <= self.most:
            what = f"the list has {len(node.value):,} items and takes {self.least:,} to {self.most:,}"
            look.findings.add(DagListLength, node.position, what, "Add items" if len(node.value) < self.least else "Remove items, or split the DAG")
        for item in node.value:
            self.item.check(item, look)


@dataclass(frozen=True)
class Keys:
    """A mapping with a fixed set of keys."""

    needed: Mapping[str, Shape]
    optional: Mapping[str, Shape] = field(default_factory=dict[str, Shape])

    def check(self, node: Node, look: Look) -> None:
        if not _is(node, look, dict, "a mapping of keys to values") or not isinstance(node.value, dict):
            return
        known = {**self.needed, **self.optional}
        complete = node.complete
        for key, child in node.value.items():
            if key in known:
                known[key].check(child, look)
            else:
                complete = False  # most likely a misspelled required key
                remedy = Suggestion(key, [word for word in known if word not in node.value], otherwise=f"Valid here: {one_of(known)}")
                look.findings.add(DagKeyUnknown, child.position, f"the key {quoted(key)} is not valid here", remedy)
        for key in self.needed if complete else ():
            if key not in node.value:
                look.findings.add(DagKeyMissing, node.position.key(key), f"the key `{key}` is missing", f"Add `{key}`")


@dataclass(frozen=True)
class NamedEntries:
    """A mapping from names of one kind to entries of one shape."""

    what: str
    entry: Shape

    def check(self, node: Node, look: Look) -> None:
        if _is(node, look, dict, "a mapping of keys to values") and isinstance(node.value, dict):
            for name, child in node.value.items():
                check_name(child, name, look, self.what)
                self.entry.check(child, look)


@dataclass(frozen=True)
class Config:
    """An operator's config: any values. Variables are not expanded, so that a DAG means the same wherever it runs."""

    def check(self, node: Node, look: Look) -> None:
        if _is(node, look, dict, "a mapping of keys to values"):
            self._walk(node, look)

    def _walk(self, node: Node, look: Look) -> None:
        match node.value:
            case str() as text:
                if "${" in text:
                    remedy = "Write the value, or for files a location path such as `landing/orders`"
                    look.findings.add(DagVarRefused, node.position, "variables (`${…}`) are not supported", remedy)
            case dict() as entries:
                for child in entries.values():
                    self._walk(child, look)
            case tuple() as items:
                for item in items:
                    self._walk(item, look)
            case _:
                pass


@dataclass(frozen=True)
class From:
    """An output of a job of this DAG, or a dataset that another DAG publishes."""

    of_job: Shape
    of_dataset: Shape

    def check(self, node: Node, look: Look) -> None:
        keys = node.value if isinstance(node.value, dict) else {}
        if "dataset" in keys and keys.keys() & {"job", "output"}:
            what = "this names both a dataset and a job's output"
            look.findings.add(DagInputMixed, node.position, what, "Keep `dataset`, or keep `job` and `output`")
        else:
            (self.of_dataset if "dataset" in keys else self.of_job).check(node, look)


@dataclass(frozen=True)
class Where:
    def check(self, node: Node, look: Look) -> None:
        if node.value is Broken.BROKEN or not node.complete:
            return
        if not isinstance(node.value, dict) or len(node.value) != 1 or not node.value.keys() <= {"partition", "cursor"}:
            self._refuse(node, look, "`where` is one of `partition` and `cursor`, never an expression")
            return
        for key, child in node.value.items():
            if child.value is not Broken.BROKEN:
                (self._partition if key == "partition" else self._cursor)(child, look)

    def _partition(self, node: Node, look: Look) -> None:
        if isinstance(node.value, tuple):
            if not node.value:
                self._refuse(node, look, "the list of partitions is empty, so nothing would pass")
            for item in node.value:
                Text(1024).check(item, look)
        else:
            Text(1024).check(node, look)

    def _cursor(self, node: Node, look: Look) -> None:
        bounds = node.value if isinstance(node.value, dict) else {}
        if not bounds or not bounds.keys() <= {"min", "below"}:
            self._refuse(node, look, "the bounds of a cursor are `min`, `below` or both")
        elif not any(bound.value is Broken.BROKEN for bound in bounds.values()):
            try:
                CursorBounds.model_validate({key: bound.value for key, bound in bounds.items()})
            except ValidationError as error:
                reasons = [problem["ctx"]["error"] for problem in error.errors() if problem["type"] == "value_error" and "ctx" in problem]
                self._refuse(node, look, str(reasons[0]) if reasons else "a bound is a whole number or a quoted time with its zone")

    def _refuse(self, node: Node, look: Look, what: str) -> None:
        remedy = 'Write {partition: "x"}, {partition: ["x", "y"]} or {cursor: {min: 0, below: 100}}'
        look.findings.add(DagWhereInvalid, node.position, what, remedy)


@dataclass(frozen=True)
class CursorPart:
    """A key of a cursor partition; values are checked when all keys are present."""

    def check(self, node: Node, look: Look) -> None:
        if node.value is None:
            look.findings.add(DagValueMissing, node.position, "the value is missing", "Give it a value, or remove the key")


@dataclass(frozen=True)
class PartitionBy:
    """How an output is cut into scopes."""

    keys: Keys

    def check(self, node: Node, look: Look) -> None:
        self.keys.check(node, look)
        if not isinstance(node.value, dict) or not node.complete or _broken(node):
            return
        try:
            PartitionSpec.model_validate(plain(node))
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                key = str(problem["loc"][0])
                reason = problem.get("ctx", {}).get("error", "this value cannot be used here")
                # The first finding at a position is kept, so an error of a key is not reported twice.
                look.findings.add(DagPartitionInvalid, node.value.get(key, node).position, str(reason), self._remedy(key, node.value))

    def _remedy(self, key: str, given: Mapping[str, Node]) -> str:
        if "cursor" not in given:
            return f"Add `cursor: integer` or `cursor: timestamp`, or remove `{key}`"
        if key == "origin" and "range_size" not in given:
            return "Add `range_size`, or remove `origin`"
        numbers = given["cursor"].value == CursorType.INTEGER
        if key == "origin":
            return "Write a whole number" if numbers else 'Write a quoted time with its zone, such as "2024-01-10T05:00:00Z"'
        return "Write a whole number of at least 1" if numbers else "Write a duration such as 15m, 1h or 1d"


def _broken(node: Node) -> bool:
    children = node.value.values() if isinstance(node.value, dict) else node.value if isinstance(node.value, tuple) else ()
    return node.value is Broken.BROKEN or any(_broken(child) for child in children)


@dataclass(frozen=True)
class OutputShape:
    """An output; domain and owner default to those in `defaults`."""

    keys: Keys

    def check(self, node: Node, look: Look) -> None:
        self.keys.check(node, look)
        if not isinstance(node.value, dict) or not node.complete or not node.value.keys() <= self.keys.needed.keys() | self.keys.optional.keys():
            return
        for key, kind in (("domain", DagDomainMissing), ("owner", DagOwnerMissing)):
            if key not in node.value and key not in look.defaults:
                look.findings.add(kind, node.position.key(key), f"the output has no {key}", f"Add `{key}` to the output or to the DAG's `defaults`")


_NOT_YET = "this release does not support sources of this kind", "Write `source: {kind: manual}` and start runs with `tracelake run`"
_BULK = DagBulkRefused, "`Bulk` is not supported: every event makes its own task", "Write PerUpdate or PerPartition"
_ATTEMPTS = {"max_attempts": Whole(1, 100), "timeout_seconds": Whole(1, 604_800)}
_OWNED = {"domain": Text(), "owner": Text()}
_INDEX = Whole(0, 99)

_INPUT = Keys(
    needed={"from": From(Keys({"job": Name("job name"), "output": _INDEX}), Keys({"dataset": Name("dataset name")}))},
    optional={"trigger": Flag(), "where": Where()},
)
_PARTITION_BY = PartitionBy(Keys({"column": ColumnName()}, {"cursor": Choice([*CursorType]), "range_size": CursorPart(), "origin": CursorPart()}))
_OUTPUT = OutputShape(Keys({"layer": Choice([*Layer])}, {"partition_by": _PARTITION_BY, "description": Text(2000, may_be_empty=True), **_OWNED}))
_JOB = Keys(
    needed={"name": Name("job name"), "activation": Choice([*Activation]), "runtime": Choice([*Runtime]), "operator": Text()},
    optional={
        "source": Keys({"kind": Choice([*SourceKind], dict.fromkeys(("cron", "webhook", "always_on"), (DagSourceNotAvailable, *_NOT_YET)))}),
        "inputs": ListOf(_INPUT, 0, 100),
        "execution_strategy": Choice([*ExecutionStrategy], {"Bulk": _BULK}),
        "config": Config(),
        "outputs": ListOf(_OUTPUT, 0, 100),
        "update_strategy": Choice([*UpdateStrategy]),
        "unique_key": ListOf(ColumnName(), 0, 100),
        "null_keys": Choice([*NullKeys]),
        "scaling": Keys({}, {"worker_pool": Name("pool name"), "max_concurrency": Whole(1, 10_000), "mode": Text()}),
        **_ATTEMPTS,
    },
)
DAG = Keys(
    needed={"name": Name("DAG name"), "jobs": ListOf(_JOB, 1, 1000)},
    optional={
        "defaults": Keys({}, {**_ATTEMPTS, **_OWNED}),
        "publish": NamedEntries("dataset name", Keys({"job": Name("job name"), "output_index": _INDEX})),
    },
)
