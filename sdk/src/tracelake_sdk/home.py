"""The home of an embedded system: where it lives, and how a client finds its address and its token there."""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path


def default_home() -> Path:
    """`TRACELAKE_HOME`, else `~/.tracelake`."""
    return Path(os.environ.get("TRACELAKE_HOME") or Path.home() / ".tracelake")


@dataclass(frozen=True)
class HomeFiles:
    """The files of one home that more than one program knows."""

    home: Path

    @property
    def running(self) -> Path:
        """Written by `tracelaked up` when everything answers: `{"api_url": …, "pid": …}`; absent while it is down."""
        return self.home / "running.json"

    @property
    def credentials(self) -> Path:
        """The tokens of the first admin, the worker and the query process: `{"admin_token": …, …}`, readable by its owner alone."""
        return self.home / "credentials.json"

    @property
    def lock(self) -> Path:
        """Held by `tracelaked up` for as long as it lives, also while it starts and stops."""
        return self.home / "lock"

    def is_held(self) -> bool:
        """Whether a system starts, runs or stops here."""
        try:
            descriptor = os.open(self.lock, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def api_url(self) -> str | None:
        return _value(self.running, "api_url")

    def admin_token(self) -> str | None:
        return _value(self.credentials, "admin_token")

    def worker_token(self) -> str | None:
        return _value(self.credentials, "worker_token")

    def query_token(self) -> str | None:
        return _value(self.credentials, "query_token")


def _value(path: Path, key: str) -> str | None:
    try:
        found = json.loads(path.read_text()).get(key)
    except FileNotFoundError:
        return None
    return found if isinstance(found, str) else None
