"""The corpus of malformed DAG files: those in `malformed/`, written by hand, and generated ones.

`TRACELAKE_PROOF=1` generates more of them, `TRACELAKE_SEED` other ones.
"""

import os
import random
import re
from dataclasses import dataclass
from pathlib import Path

from tracelake.control.deploys.dag_rules import ReadableDataset
from tracelake_sdk.dags import Layer

from .dag_drafts import Writer, draft
from .dag_mistakes import MISTAKES

PROOF = os.environ.get("TRACELAKE_PROOF") == "1"
SEED = int(os.environ.get("TRACELAKE_SEED", "20240110"))
ROUNDS = 8 if PROOF else 1

# What the files may name.
LOCATIONS = ["landing"]
BARRED_LOCATIONS = ["payroll"]
DATASETS = {
    "customers": ReadableDataset(Layer.SILVER, has_files=True), "raw_customers": ReadableDataset(Layer.BRONZE, has_files=True),
    "revenue": ReadableDataset(Layer.GOLD, has_files=True), "numbers": ReadableDataset(Layer.BRONZE, has_files=False),
}


@dataclass(frozen=True)
class Malformed:
    """A file, and the error that it is to be refused with."""

    title: str
    text: str
    code: str
    place: str
    line: int


def by_hand() -> list[Malformed]:
    """The first line of a file says what to expect, `# here` marks the line."""
    found: list[Malformed] = []
    for path in sorted((Path(__file__).parent / "malformed").glob("*.yaml")):
        text = path.read_text()
        lines = text.splitlines()
        expected = re.fullmatch(r"# expect: (\w+) at (.+)", lines[0])
        assert expected, f"{path.name} does not say what to expect"
        here = [number for number, line in enumerate(lines, 1) if line.endswith("# here")] or [1]
        assert len(here) == 1, f"{path.name} marks more than one line"
        found.append(Malformed(path.stem, text, expected[1], expected[2], here[0]))
    return found


def generated() -> list[Malformed]:
    """Every mistake, a few times, each in a draft of its own."""
    found: list[Malformed] = []
    for name, mistake in MISTAKES.items():
        for number in range(ROUNDS):
            rng = random.Random(f"{SEED} {name} {number}")
            it = draft(rng)
            expected = mistake(it)
            writer = Writer(rng, flow=it.flow)
            writer.write(it.dag)
            text = it.rewrite("\n".join(writer.lines) + "\n")
            place = expected.line_of if expected.line_of is not None else expected.place
            while place not in writer.places and place:
                place = place[: max(place.rfind("."), place.rfind("["), 0)]
            line = 1 if expected.place == "file" and place == "" else writer.places[place]
            found.append(Malformed(f"{name}-{number}", text, expected.code, expected.place, line))
    return found
