"""The kinds that every tenant has, one JSON file each: those of ingestion, reconciliation and catalogs, and those of the platform itself."""

from functools import cache
from importlib.resources import files

from tracelake_sdk.records.kinds.kind import Kind


@cache
def _read() -> tuple[Kind, ...]:
    found = (entry for entry in files(__name__).iterdir() if entry.name.endswith(".json"))
    kinds = [Kind.model_validate_json(entry.read_bytes()).model_copy(update={"built_in": True}) for entry in found]
    return tuple(sorted(kinds, key=lambda kind: kind.name))


def builtin_kinds() -> list[Kind]:
    """The built-in kinds by name."""
    return list(_read())
