"""Log fields of an unexpected error: its class and where it was raised, never its message, which may contain statements and values of a database."""

import traceback
from pathlib import Path

_FRAMES = 6


def described(error: BaseException) -> dict[str, object]:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    cause = type(error.__cause__).__name__ if error.__cause__ else None
    raised_in = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "cause": cause, "raised_in": raised_in}
