"""Names that callers choose: their patterns, and the error sentence for an invalid one."""

import re

USER_NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._@+-]{0,127}$"

_SMALL = re.compile(r"\^\[a-z\]\[a-z0-9_\]\{0,([0-9]+)\}\$")  # of datasets, DAGs, roles, orgs, kinds and saved queries


def remedy_of(pattern: str) -> str | None:
    """How to write a name of this pattern; None for other patterns."""
    if pattern == USER_NAME:
        return "use a letter or digit, then at most 127 letters, digits and . _ @ + -"
    if small := _SMALL.fullmatch(pattern):
        return f"use a lowercase letter, then at most {small[1]} lowercase letters, digits and underscores"
    return None
