"""Fingerprints: what makes a task's result the same as one that already exists. Pure."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from tracelake import wire_json
from tracelake.control.versions.spans import stored
from tracelake_sdk.datasets.scopes import Scope


@dataclass(frozen=True, slots=True)
class Pin:
    """The one version of an input that an attempt reads."""

    index: int
    dataset_id: UUID
    dataset_version_id: UUID
    version: int


def fingerprint(config_hash: str, *, everything: bool, scopes: Sequence[Scope], pins: Iterable[Pin]) -> str:
    """Of config, scope and pins; for everything, scopes do not count."""
    written = [] if everything else sorted((stored(scope) for scope in scopes), key=lambda scope: wire_json.encode(scope, sort_keys=True))
    read = [[pin.index, str(pin.dataset_version_id), pin.version] for pin in sorted(pins, key=lambda pin: pin.index)]
    return hashlib.sha256(wire_json.encode([config_hash, everything, written, read], sort_keys=True)).hexdigest()
