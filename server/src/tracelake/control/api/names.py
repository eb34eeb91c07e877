"""Names that callers give: what they may be, and the sentence for whoever gave another."""

import re

USER_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,127}$"

_SMALL = re.compile(r"\^\[a-z\]\[a-z0-9_\]\{0,([0-9]+)\}\$")  # of datasets, DAGs, roles, orgs, kinds and saved queries


def remedy_of(pattern: str) -> str | None:
    """How a name of this pattern is written; None for patterns of something else."""
    if pattern == USER_NAME:
        return "begin with a letter or digit and go on with at most 127 letters, digits and . _ @ + -"
    if small := _SMALL.fullmatch(pattern):
        return f"begin with a small letter and go on with at most {small[1]} small letters, digits and underscores"
    return None
