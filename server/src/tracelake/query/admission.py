"""Admission: whether control knows a caller, asked before a byte of its question is read."""

import hashlib
import time
from dataclasses import dataclass, field

from tracelake.query.pin_client import PinClient

_REMEMBERED_SECONDS = 10.0  # it decides that a body is read, nothing more: control judges the token again when it pins
_MOST_REMEMBERED = 1_000


@dataclass(frozen=True)
class Admission:
    control: PinClient
    _until: dict[bytes, float] = field(default_factory=dict)

    def is_remembered(self, token: str) -> bool:
        return self._until.get(_key(token), 0.0) > time.monotonic()

    def admit(self, token: str) -> None:
        """Raises what control says of the token; Unavailable where control does not answer."""
        self.control.admit(token)
        if len(self._until) >= _MOST_REMEMBERED:
            self._until.clear()
        self._until[_key(token)] = time.monotonic() + _REMEMBERED_SECONDS


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
