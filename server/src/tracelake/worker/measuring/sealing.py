"""Seals: identify a file at the moment it is measured, so that a later replacement is noticed."""

from collections.abc import Mapping, Sequence

from tracelake.storage.contract import Storage
from tracelake.worker.measuring.contract import Refused


def seal(storage: Storage, paths: Sequence[str]) -> dict[str, str]:
    """Makes these files durable and read-only and returns their seals; raises Refused if one does not exist."""
    sealed = storage.seal(paths)
    missing = [path for path in paths if path not in sealed]
    if missing:
        raise Refused("file_missing", f"{len(missing)} of {len(paths)} files of the output do not exist, such as {missing[0]}.")
    return sealed


def still_sealed(storage: Storage, sealed: Mapping[str, str]) -> bool:
    """Whether all of these files are unchanged."""
    return storage.seal(list(sealed)) == dict(sealed)


def check_seals(storage: Storage, sealed: Mapping[str, str]) -> None:
    if not still_sealed(storage, sealed):
        raise Refused("seal_broken", "A file of the output was changed or removed after it was sealed; the output is refused.")
