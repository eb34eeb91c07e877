"""Failures of the engine as errors for the caller: DuckDB's message, without the statement, paths or advice about settings."""

import re

from tracelake_sdk.errors import QueryInvalid, QueryOverLimit, QueryRefused, TracelakeError

_KIND = re.compile(r"^(?:Invalid Input Error: )?([A-Z][A-Za-z ]+?) Error: ")
_PATH = re.compile(r"(?:/[\w.@%+-]+){2,}")
_BINDINGS = re.compile(r"^Candidate bindings?: .+$", re.MULTILINE)
_LONGEST = 500
_FATAL = ("FATAL", "INTERNAL", "Fatal", "Internal")


def failure_of(error: BaseException, *, max_seconds: float, memory_mib: int, spill_mib: int) -> tuple[TracelakeError, bool]:
    """The error, and whether the engine is unfit for the next query: one that ran out of memory may not have released all of it."""
    if isinstance(error, MemoryError):
        return _too_much_memory(memory_mib), True
    text = str(error)
    found = _KIND.match(text)
    kind = found[1] if found else ""
    if kind == "INTERRUPT":
        return QueryOverLimit(f"The query took longer than {max_seconds:g} seconds; select less, or split the query.", limit="time"), False
    if kind == "Out of Memory" and ("max_temp_directory_size" in text or "offload" in text):
        return QueryOverLimit(f"The query needs more than {spill_mib} MiB of space beside its memory; select less, or split the query.", limit="spill"), True
    if kind == "Out of Memory" or "bad_alloc" in text:
        return _too_much_memory(memory_mib), True
    if "total string size" in text:
        return QueryOverLimit("The result holds texts that are too large for one answer; select less, or split the query.", limit="bytes"), False
    if kind == "Permission":
        return QueryRefused("The statement accesses something outside of the datasets that it names."), False
    return QueryInvalid(_sentence(text)), kind in _FATAL


def _too_much_memory(memory_mib: int) -> TracelakeError:
    return QueryOverLimit(f"The query needs more than {memory_mib} MiB of memory; select less, or split the query.", limit="memory")


def _sentence(text: str) -> str:
    first = _KIND.sub("", text.strip().split("\n", 1)[0])
    bindings = _BINDINGS.search(text)
    words = first + (f" {bindings[0]}" if bindings and bindings[0] not in first else "")
    return _PATH.sub("(a file)", words)[:_LONGEST] or "The engine could not run the statement."
