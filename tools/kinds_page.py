"""Writes `docs/reference/kinds.md`: every built-in kind of records, what its payload holds, and an example.

With `--check` nothing is written, and a stale page is an error.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.generated import ROOT, settle
from tracelake_sdk.records.kinds import Kind, Retention
from tracelake_sdk.records.kinds.builtin import builtin_kinds
from tracelake_sdk.records.kinds.schemas import ANNOTATIONS, FORMATS, KEYWORDS, children

PAGE = Path("docs/reference/kinds.md")
HEAD = """\
# Kinds of records

What every tenant has. `tracelake kind show NAME -o json` prints the JSON schema (2020-12) of one; `tracelake kind register`
adds one of your own. Payloads hold what is listed and nothing else; what a producer has to say beyond it goes into `extras`. Written
by `make docs`.

A schema may use {keywords}; the formats {formats}; and, without a meaning of their own, {annotations}. Any other keyword is refused by
its name: two versions could not be compared by it.

"""
LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")


def page() -> str:
    head = HEAD.format(keywords=_code(KEYWORDS), formats=_code(FORMATS), annotations=_code(ANNOTATIONS))
    return head + "\n".join(_section(kind) for kind in builtin_kinds())


def _section(kind: Kind) -> str:
    identity = f" Records of one run are identified by {_code(kind.identity)}." if kind.identity else ""
    rows = "\n".join(_rows(kind.json_schema, ""))
    example = json.dumps(kind.examples[0], indent=2, ensure_ascii=False)
    return f"""\
## {kind.name}

{kind.description} Version {kind.version}, mode `{kind.mode}`, kept {_kept(kind.retention)}.{identity}

| property | type | what it says |
| --- | --- | --- |
{rows}

```json
{example}
```
"""


def _rows(schema: dict[str, Any], path: str) -> Iterator[str]:
    for child, place in children(schema, path):
        name = place.removeprefix(".")
        if not child.get("description"):
            continue  # items and values whose type is already shown with their parent
        optional = "" if name.rpartition(".")[2] in schema.get("required", []) or name.endswith("[]") else " Optional."
        yield f"| `{name}` | {_type(child)} | {child['description'].replace('|', chr(92) + '|')}{optional} |"
        yield from _rows(child, place)


def _type(schema: dict[str, Any]) -> str:
    declared = schema.get("type", "any")
    types = declared if isinstance(declared, str) else " or ".join(declared)
    values = [json.dumps(value) for value in schema.get("enum", [])]
    limits = [f"{word} {schema[word]}" for word in LIMITS if word in schema]
    return ", ".join([types, *([f"one of `{' '.join(values)}`"] if values else []), *(f"`{limit}`" for limit in limits)])


def _kept(retention: Retention) -> str:
    if retention.keep == "full":
        return "for ever"
    return f"{retention.days} days and then {'moved to files, where they are still found' if retention.then == 'archive' else 'dropped'}"


def _code(words: Any) -> str:
    return ", ".join(f"`{word}`" for word in (words if isinstance(words, list) else sorted(words)))


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(PAGE, page(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
