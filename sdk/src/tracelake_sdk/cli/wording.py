"""Turns validation errors of input into one readable sentence."""

from pydantic import ValidationError

_A_PATH = "write a path such as payload.rows or extras.dataset.version"
_A_NAME = "write lowercase letters, digits and `_`, beginning with a letter"
_SPELLINGS = {
    "path": _A_PATH, "identity": _A_PATH, "group_by": "write kind, target, producer_id, day, or a path such as payload.mode",
    "producer_id": "write a name and the version of its contract, such as ingest.v1", "kind": _A_NAME, "kinds": _A_NAME, "name": _A_NAME,
}  # fmt: skip


def fault(error: ValueError, *, placed: bool = False) -> str:
    """The first problem; with `placed`, the sentence begins with the field."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False)[0]
    fields = [step for step in first["loc"] if isinstance(step, str)]
    sentence = first["msg"].removeprefix("Value error, ")
    match first["type"]:
        case "string_pattern_mismatch" if fields:
            sentence = _SPELLINGS.get(fields[-1], sentence)
        case "model_type":
            sentence = "a JSON object is expected"
        case "timezone_aware":
            sentence = "a time needs its zone, such as 2026-03-01T08:00:00Z"
        case "extra_forbidden":
            sentence = "unknown field"
        case _:
            pass
    path = ".".join(str(step) for step in first["loc"])
    return f"{path}: {sentence}" if placed and path else sentence
