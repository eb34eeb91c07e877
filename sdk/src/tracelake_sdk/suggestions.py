"""Suggestions: the name that was most likely meant."""

import difflib
from collections.abc import Collection

_LONGEST_NAME = 128  # what is longer is not compared: it is not a name


def nearest(name: str, names: Collection[str]) -> str | None:
    """Whatever the case of the letters."""
    spelled = {known.lower(): known for known in sorted(names)}
    near = difflib.get_close_matches(name[:_LONGEST_NAME].lower(), spelled, n=1, cutoff=0.6)
    return spelled[near[0]] if near else None


def did_you_mean(name: str, names: Collection[str], otherwise: str) -> str:
    """The end of a sentence that says that a name was not found. `names`: only those that the reader may know of."""
    near = nearest(name, names)
    return f"did you mean {near}?" if near else otherwise
