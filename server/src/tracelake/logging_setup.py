"""Logs: one JSON object per line on stderr, times in UTC, values of secret-like names masked."""

import logging
import os
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TextIO, cast

import structlog

from tracelake.failures import described
from tracelake_sdk.errors import SettingInvalid

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_SECRET_NAMES = frozenset({"token", "secret", "password", "authorization", "lease_token", "claim_id", "sql"})
_SECRET_ENDINGS = ("_token", "_secret", "_password")
_MASK = "***"


class LossyText:
    """A log that loses lines if its disk is full, instead of raising."""

    def __init__(self, file: TextIO) -> None:
        self._file: TextIO = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()


def configure_logging() -> None:
    """Call it once, at the start of a process. `TRACELAKE_LOG_LEVEL` sets the level (default INFO)."""
    level = (os.environ.get("TRACELAKE_LOG_LEVEL") or "INFO").upper()
    if level not in _LEVELS:
        raise SettingInvalid(f"TRACELAKE_LOG_LEVEL: choose one of {', '.join(_LEVELS)}")
    before: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    ]
    after: list[structlog.typing.Processor] = [describe_exceptions, mask_secrets, structlog.processors.JSONRenderer(default=str)]
    structlog.configure(
        processors=[*before, *after],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", LossyText(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    # Logs of libraries get the same format.
    handler = logging.StreamHandler(sys.stderr)
    formatting = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *after]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=[structlog.stdlib.add_logger_name, *before], processors=formatting))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for chatty in ("httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    # Its warnings repeat errors that are raised anyway, and contain values.
    logging.getLogger("psycopg").setLevel(logging.ERROR)


def describe_exceptions(logger: Any, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """A structlog processor: replaces an exception by its class and where it was raised, never its message."""
    given = entry.pop("exc_info", None)
    match given:
        case BaseException():
            error = given
        case (_, BaseException() as error, _):
            pass
        case _:
            error = sys.exception() if given else None
    return entry if error is None else {**entry, **described(error)}


def mask_secrets(logger: Any, method: str, entry: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A structlog processor: masks the values of secret-like names, at any depth."""
    return {key: _masked(key, value) for key, value in entry.items()}


def _masked(key: str, value: Any) -> Any:
    name = key.lower()
    if name in _SECRET_NAMES or name.endswith(_SECRET_ENDINGS):
        return _MASK
    return _without_secrets(value)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked(str(key), inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_secrets(inner) for inner in value]
    return value
