"""The state file of a running system: it names its processes, so that the next start can end exactly those that a killed system left behind."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from tracelake.embedded.processes import ProcessIdentity
from tracelake.files import write_whole
from tracelake_sdk.errors import StartFailed

Value = TypeVar("Value")

SUPERVISOR = "supervisor"


class SystemState:
    """`state.json` in the home: the pid and the start of every process, and the ports; absent after a clean stop."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def write(self, processes: Mapping[str, ProcessIdentity], ports: Mapping[str, int]) -> None:
        """Written atomically and synced."""
        state = {
            "processes": {name: {"pid": identity.pid, "started": identity.started} for name, identity in processes.items()},
            "ports": dict(ports),
        }
        write_whole(self._file, json.dumps(state, indent=2) + "\n")

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)

    def processes(self) -> dict[str, ProcessIdentity]:
        """Those of the last system, in the order in which they were written; empty after a clean stop."""
        return self._read("processes", lambda found: ProcessIdentity(int(found["pid"]), str(found["started"])))

    def ports(self) -> dict[str, int]:
        """The ports of its parts; empty after a clean stop."""
        return self._read("ports", int)

    def _read(self, section: str, value: Callable[[Any], Value]) -> dict[str, Value]:
        try:
            state = cast("dict[str, Any]", json.loads(self._file.read_text()))
            return {name: value(found) for name, found in state[section].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise StartFailed(f"{self._file} is damaged; make sure that no process of a former system runs, then remove it") from None

    def supervisor(self) -> ProcessIdentity | None:
        """The supervisor that runs in the home now, or None."""
        found = self.processes().get(SUPERVISOR)
        return found if found and found.alive else None

    def end_leftovers(self, *, except_for: frozenset[str]) -> list[str]:
        """End the processes of a system whose supervisor is gone, the last started first, and return the names of those that were still running."""
        ended: list[str] = []
        for name, identity in reversed(self.processes().items()):
            if name in except_for or not identity.alive:
                continue
            if not identity.end():
                raise StartFailed(f"process {identity.pid} ({name}) of a former system does not end; end it, then try again")
            ended.append(name)
        return ended
