"""Did-you-mean suggestions for names."""

import difflib
from collections.abc import Collection

_LONGEST_NAME = 128  # longer text is cut before it is compared


def nearest(name: str, names: Collection[str]) -> str | None:
    """The closest name, ignoring case."""
    spelled = {candidate.lower(): candidate for candidate in sorted(names)}
    near = difflib.get_close_matches(name[:_LONGEST_NAME].lower(), spelled, n=1, cutoff=0.6)
    return spelled[near[0]] if near else None


def did_you_mean(name: str, names: Collection[str], otherwise: str) -> str:
    """The end of a sentence that says that a name was not found. `names` must contain only names that the reader may see."""
    near = nearest(name, names)
    return f"did you mean {near}?" if near else otherwise
