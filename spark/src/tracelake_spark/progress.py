"""How an operator reports its progress, and the named moments at which a test may kill its process."""

import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass

KILL_AT = "TRACELAKE__CHAOS__KILL_AT"  # only for tests, as in every process: `name`, or `name*3` for the third time that it is reached

_KILL_AT = re.compile(r"([a-z0-9_:.-]+)(?:\*([1-9][0-9]{0,8}))?")


def _ignore(*_arguments: object) -> None:
    pass


@dataclass(frozen=True)
class Progress:
    """The default reports nothing: a plain PySpark test passes it to an operator.

    In a host both calls raise `Canceled` after the task was canceled.
    """

    report: Callable[[float | None, str], None] = _ignore    # the fraction done, 0 to 1 if known, and the current step; never data
    moment: Callable[[str], None] = _ignore                # a named moment was reached


QUIET = Progress()


class Canceled(Exception):
    """The task was canceled."""


def watch_for(kill_at: str | None) -> Callable[[str], None]:
    """The function that a process calls at each named moment; at the moment `kill_at` it kills itself with SIGKILL."""
    if not kill_at:
        return _ignore
    found = _KILL_AT.fullmatch(kill_at)
    if found is None:
        raise ValueError(f"{KILL_AT}: write the name of a moment, or `name*3` for the third time it is reached")
    name, left = found[1], int(found[2] or 1)
    lock = threading.Lock()

    def watch(moment: str) -> None:
        nonlocal left
        if moment == name:
            with lock:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

    return watch
