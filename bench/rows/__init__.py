"""The rows: what each measures, its sizes, its goals, and who takes part."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.contenders import Contender, Stage
from bench.figures import Figure


@dataclass(frozen=True)
class Row:
    name: str
    what: str                    # one line: what is measured
    figures: tuple[Figure, ...]
    sizes: Mapping[str, int]     # n by size: `small` for every day, `full`
    contenders: Callable[[Stage, int], AbstractContextManager[list[Contender]]]  # ours first; the int is n
