"""One way to wait between tries: longer after each failure, and never all at the same moment."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Pauses in seconds that double from the first to the longest. Chance shortens each by up to a share of it, so that many who failed together do not
    come back together."""

    first: float
    longest: float
    shortened: float = 0.2

    def after(self, failures: int, *, at_least: float = 0) -> float:
        """The pause behind so many failures in a row, none behind none; `at_least` is what the other side asked for."""
        doubled = min(self.first * 2 ** min(failures - 1, 30), self.longest) if failures > 0 else 0
        return max(doubled, at_least) * random.uniform(1 - self.shortened, 1)  # noqa: S311 spreading load, not keeping secrets
