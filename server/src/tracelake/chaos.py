"""Chaos: a process that kills itself at a named moment, so that a test can say exactly where it died."""

import os
import re
import signal
import threading
from collections.abc import Callable, Mapping

from tracelake_sdk.errors import SettingInvalid

_KILL_AT = re.compile(r"([a-z0-9_:.-]+)(?:\*([1-9][0-9]{0,8}))?")


def watch_for(kill_at: str | None) -> Callable[[str], None]:
    """The function that a process calls at each named moment; at the moment `kill_at` (`name`, or `name*3` for the third time) it kills itself with SIGKILL."""
    if kill_at is None:
        return lambda moment: None
    found = _KILL_AT.fullmatch(kill_at)
    if found is None:
        raise SettingInvalid("TRACELAKE__CHAOS__KILL_AT: write the name of a moment, or `name*3` for the third time it is reached")
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


class Chaos:
    """The environment that makes a program kill itself at a named moment, until one program has done so."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment: dict[str, str] = dict(environment or {})

    def environment(self) -> dict[str, str]:
        return dict(self._environment)

    def ended(self, exit_code: int | None) -> None:
        """A program ended by itself."""
        if exit_code == -signal.SIGKILL:
            self._environment = {}
