"""Variables: what `${name}` in a job's config stands for on this installation."""

import re
from collections.abc import Mapping
from typing import Any

from tracelake.worker.operators.contract import OperatorFailed

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(config: Mapping[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """The config with every `${name}` in its texts, at any depth, replaced once; raises OperatorFailed `variable_missing`."""
    return {key: _filled(value, variables) for key, value in config.items()}


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value(found[1], variables), value)
    if isinstance(value, Mapping):
        return fill(value, variables)
    if isinstance(value, list):
        return [_filled(inner, variables) for inner in value]
    return value


def _value(name: str, variables: Mapping[str, str]) -> str:
    try:
        return variables[name]
    except KeyError:
        message = f"The config names the variable {name!r}, which this worker's settings lack; declare it under `vars` in its tracelake.yaml."
        # Settings change by a restart, not between two attempts.
        raise OperatorFailed("variable_missing", message, retry=False) from None
