"""Turns validation errors of input into one readable sentence."""

from pydantic import ValidationError

_A_PATH = "write a path such as payload.rows or extras.dataset.version"
_A_NAME = "write lowercase letters, digits and `_`, beginning with a letter"
_SPELLINGS = {
    "path": _A_PATH, "identity": _A_PATH, "group_by": "write kind, target, producer_id, day, or a path such as payload.mode",
    "producer_id": "write a name and the version of its contract, such as ingest.v1", "kind": _A_NAME, "kinds": _A_NAME, "name": _A_NAME,
}  # fmt: skip


def fault(error: ValueError, *, placed: bool = False) -> str:
    """The first fault, where there are several; `placed` begins with the field that has it."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    fields = [step for step in first["loc"] if isinstance(step, str)]
    said = first["msg"].removeprefix("Value error, ")
    match first["type"]:
        case "string_pattern_mismatch" if fields:
            said = _SPELLINGS.get(fields[-1], said)
        case "model_type":
            said = "a JSON object is expected"
        case "timezone_aware":
            said = "a time says its zone, such as 2026-03-01T08:00:00Z"
        case "extra_forbidden":
            said = "unknown field"
        case _:
            pass
    place = ".".join(str(step) for step in first["loc"])
    return f"{place}: {said}" if placed and place else said
