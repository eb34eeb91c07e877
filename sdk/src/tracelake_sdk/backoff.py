"""Backoff between retries: longer after each failure, with jitter."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Pauses in seconds that double from the first to the longest. Jitter shortens each pause by up to a share of it, so that clients that failed together
    do not retry together."""

    first: float
    longest: float
    shortened: float = 0.2

    def after(self, failures: int, *, at_least: float = 0) -> float:
        """The pause after this many failures in a row, 0 after none; `at_least` is the server's Retry-After."""
        doubled = min(self.first * 2 ** min(failures - 1, 30), self.longest) if failures > 0 else 0
        return max(doubled, at_least) * random.uniform(1 - self.shortened, 1)  # noqa: S311 spreading load, not keeping secrets
