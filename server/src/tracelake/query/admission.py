"""Admission: checks with control that a caller is known, before the body of its query is read."""

import hashlib
from dataclasses import dataclass, field

from tracelake.query.pin_client import PinClient
from tracelake_sdk.bounded_cache import BoundedCache

_REMEMBERED_SECONDS = 10.0  # it only decides that a body is read: control checks the token again when it pins
_MOST_REMEMBERED = 1_000


@dataclass(frozen=True)
class Admission:
    control: PinClient
    _admitted: BoundedCache[bytes, bool] = field(default_factory=lambda: BoundedCache(_MOST_REMEMBERED, seconds=_REMEMBERED_SECONDS))

    def is_remembered(self, token: str) -> bool:
        return self._admitted.find(_key(token)) is not None

    def admit(self, token: str) -> None:
        """Raises control's refusal of the token; Unavailable if control does not answer."""
        self.control.admit(token)
        self._admitted.put(_key(token), True)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
