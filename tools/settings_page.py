"""Writes `docs/reference/settings.md`: every setting, its default, its limits and what it means.

With `--check` nothing is written, and a stale page is an error.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.generated import ROOT, settle
from tracelake.settings import Settings

PAGE = Path("docs/reference/settings.md")
HEAD = """\
# Settings

Settings are read once, when a process starts: from the environment, else from `tracelake.yaml` in the folder where the process starts (or the file that
`TRACELAKE_CONFIG` names), else the default. `api.body_seconds` is `body_seconds` below `api` in the file, and `TRACELAKE__API__BODY_SECONDS` in the
environment. A setting that does not exist, or a value beyond its limits, stops the start with `setting_invalid`. Written by `make docs`.
"""
TABLE = "| setting | default | meaning |\n| --- | --- | --- |\n"
LIMITS = {"minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}"}
EMPTY = (None, [], {})


def page() -> str:
    schema = Settings.model_json_schema()
    sections = {name: model for name, given in schema["properties"].items() if (model := _model(given, schema))}
    own = {name: given for name, given in schema["properties"].items() if name not in sections}
    return "".join([HEAD, *_section("", "", own, schema), *(text for name, model in sections.items() for text in _section(name, model["description"], model["properties"], schema))])


def _section(path: str, meaning: str, properties: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    """The table of a section, and behind it those of the items that its lists and maps hold."""
    head = f"\n## {path}\n\n{' '.join(meaning.split())}\n\n" if path else "\n"
    prefix = f"{path}." if path else ""
    yield head + TABLE + "".join(f"| `{prefix}{name}` | {_default(given)} | {_meaning(given)} |\n" for name, given in properties.items())
    for name, given in properties.items():
        for key, place in (("items", f"{prefix}{name}[]"), ("additionalProperties", f"{prefix}{name}.NAME")):
            if isinstance(inner := given.get(key), dict) and (model := _model(inner, schema)):
                yield from _section(place, model["description"], model["properties"], schema)


def _model(given: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any] | None:
    return schema["$defs"][given["$ref"].rpartition("/")[2]] if "$ref" in given else None


def _default(given: dict[str, Any]) -> str:
    default = given.get("default")
    return "" if default in EMPTY else f"`{default if isinstance(default, str) else json.dumps(default)}`"


def _meaning(given: dict[str, Any]) -> str:
    limits = ", ".join(words.format(f"{given[key]:,}") for key, words in LIMITS.items() if key in given)
    meaning = given["description"].replace("|", "\\|")
    return f"{meaning} {limits.capitalize()}." if limits else meaning


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(PAGE, page(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
