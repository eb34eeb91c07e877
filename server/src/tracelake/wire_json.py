"""The JSON encoder and decoder of the whole server; whole numbers keep all their digits.

The fast encoder accepts only whole numbers of 64 bits, and the fast decoder silently turns longer ones into floating-point numbers. A
`decimal(38,0)` key has more. Values that JSON cannot represent never get here: `tracelake_sdk.json_values` refuses them at the edge.
"""

import json
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

_SMALLEST, _LARGEST = -(2**63), 2**64 - 1  # that the encoder accepts
_ALIKE = bytes.maketrans(b"0123456789", b"0000000000")
_MANY_DIGITS = b"0" * 19  # a number with more digits may need more than 64 bits

JSONDecodeError = json.JSONDecodeError


def encode(value: Any, *, sort_keys: bool = False, default: Callable[[Any], Any] | None = None) -> bytes:
    """Whole numbers have all their digits, times are ISO 8601, keys keep their order unless they are sorted.

    NaN and infinities become null, as in pydantic. Raises TypeError for values that JSON cannot represent.
    """
    option = orjson.OPT_SORT_KEYS if sort_keys else 0
    try:
        return orjson.dumps(value, default=default, option=option)
    except orjson.JSONEncodeError:
        return orjson.dumps(_with_long_numbers(value), default=default, option=option)


def text(value: Any) -> str:
    """For a column of type json or jsonb."""
    return encode(value).decode()


def decode(text: bytes | bytearray | memoryview | str) -> Any:
    """Raises JSONDecodeError, and nothing else, for invalid JSON."""
    raw = text.encode() if isinstance(text, str) else bytes(text)
    return _decode_long_numbers(raw) if _MANY_DIGITS in raw.translate(_ALIKE) else orjson.loads(raw)


def _decode_long_numbers(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode(), parse_constant=_refuse_number)
    except JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # thousands of digits, invalid UTF-8, endless nesting
        raise JSONDecodeError(str(error), "", 0) from None


def _with_long_numbers(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() if not _SMALLEST <= value <= _LARGEST:
            return orjson.Fragment(str(value))
        case dict():
            return {key: _with_long_numbers(item) for key, item in value.items()}
        case list() | tuple():
            return [_with_long_numbers(item) for item in value]
        case _:
            return value


def _refuse_number(word: str) -> NoReturn:
    raise JSONDecodeError("a number is not finite, which JSON does not support", word, 0)
