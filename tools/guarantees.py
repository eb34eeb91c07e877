"""Writes `docs/reference/guarantees.md`: the product's promises by number, each with the tests that show it.

The promises are in `promises.toml` beside it, the tests say `@pytest.mark.proves("T2.5")`. The source is read, not run, so that
the page is the same on every machine. With `--check` nothing is written and a stale page is an error.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.generated import ROOT, settle

REFERENCE = Path("docs/reference")
HEAD = """\
# Guarantees

What Tracelake guarantees in this release. Each sentence has a number, which tests and decisions refer to, and the tests that prove
it on real Postgres and Spark; a guarantee without a test is not listed. Written by `make docs`.
"""


class UnknownPromise(Exception):
    """A test names a promise that promises.toml does not have, or in words that cannot be read from the source."""


@dataclass(frozen=True)
class Promise:
    number: str
    sentence: str
    title: str  # of the family it belongs to


@dataclass(frozen=True, order=True)
class Proof:
    """One test function, class or state machine that shows a promise."""

    file: str
    name: str
    number: str


def read_promises(text: str) -> dict[str, Promise]:
    """The promises in their order; families are tables, `[T2]` with `5 = "…"` is T2.5."""
    promises: dict[str, Promise] = {}
    for family, entries in tomllib.loads(text).items():
        for key, sentence in entries.items():
            if key != "title":
                promises[f"{family}.{key}"] = Promise(f"{family}.{key}", sentence, entries["title"])
    return promises


def proofs_in(source: str, file: str) -> Iterator[Proof]:
    """Every (test, promise) of one file: from decorators, classes, and the module's or a class's `pytestmark`."""
    tree = ast.parse(source, file)
    yield from _proofs_of(tree.body, file, marks=_pytestmarks(tree.body, file), inside="")


def _proofs_of(body: list[ast.stmt], file: str, marks: set[str], inside: str) -> Iterator[Proof]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name.startswith("test"):
                numbers = marks | _numbers(node.decorator_list, file)
            case ast.ClassDef(name=name) if name.startswith("Test"):
                inner = marks | _numbers(node.decorator_list, file) | _pytestmarks(node.body, file)
                yield from _proofs_of(node.body, file, inner, f"{inside}{name}.")
                continue
            # hypothesis: TestTasks = TaskMachine.TestCase
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute(attr="TestCase")):
                numbers = marks | _attribute_marks(body, name, file)
            case _:
                continue
        yield from (Proof(file, f"{inside}{name}", number) for number in sorted(numbers))


def _pytestmarks(body: list[ast.stmt], file: str) -> set[str]:
    values = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"]
    return set().union(*(_numbers(_listed(value), file) for value in values))


def _attribute_marks(body: list[ast.stmt], name: str, file: str) -> set[str]:
    values = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == f"{name}.pytestmark"]
    return set().union(*(_numbers(_listed(value), file) for value in values))


def _listed(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _numbers(marks: Iterable[ast.expr], file: str) -> set[str]:
    found: set[str] = set()
    for mark in marks:
        if not (isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.proves"):
            continue
        for argument in mark.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise UnknownPromise(f"{file}:{argument.lineno}: `proves` takes the number itself, as in proves(\"T2.5\")")
            found.add(argument.value)
    return found


def suite_files(root: Path) -> Iterator[Path]:
    """The files pytest would collect, below the paths that pyproject.toml names."""
    for place in tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]:
        yield from sorted((root / place).rglob("test_*.py"))


def all_proofs(root: Path) -> list[Proof]:
    files = suite_files(root)
    return sorted(proof for path in files for proof in proofs_in(path.read_text(), path.relative_to(root).as_posix()))


def page(promises: dict[str, Promise], proofs: list[Proof]) -> str:
    """The whole page; raises UnknownPromise when a test names an unknown number."""
    for proof in proofs:
        if proof.number not in promises:
            raise UnknownPromise(f"{proof.file}: {proof.name} proves {proof.number}, which {REFERENCE / 'promises.toml'} does not have")
    lines = [HEAD]
    title = ""
    for promise in promises.values():
        shown = [proof for proof in proofs if proof.number == promise.number]
        if not shown:
            continue
        if promise.title != title:
            title = promise.title
            lines.append(f"## {title}\n")
        lines.append(f"**{promise.number}** {promise.sentence}\n")
        lines.extend(f"- [{_as_fact(proof.name)}](../../{proof.file})" for proof in shown)
        lines.append("")
    return "\n".join(lines)


def _as_fact(name: str) -> str:
    """`test_a_second_up_resumes` reads as a fact; a state machine keeps its name."""
    parts = [part.removeprefix("test_").replace("_", " ") if part.startswith("test_") else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", part.removeprefix("Test")) for part in name.split(".")]
    return ": ".join(parts)


def main(arguments: list[str], root: Path = ROOT) -> int:
    try:
        text = page(read_promises((root / REFERENCE / "promises.toml").read_text()), all_proofs(root))
    except UnknownPromise as error:
        print(error, file=sys.stderr)
        return 1
    return settle(REFERENCE / "guarantees.md", text, arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
