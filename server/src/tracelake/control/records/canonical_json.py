"""The canonical JSON of records, byte for byte as in the SDK, with an encoder that takes a third of the time. Pure."""

from typing import Any

import orjson

from tracelake_sdk.records.identity import canonical

# The two encoders differ for very large and small numbers: 1e16 and 1e+16, 0.00001 and 1e-05. Such a number ends in an exponent of up to
# three digits; after digits and ends are normalized, three searches find it. A text that looks like one only costs time.
_ALIKE = bytes.maketrans(b"0123456789]}", b"0000000000,,")
_SMALL = b"0.0000"


def canonical_json(value: Any) -> bytes:
    try:
        found = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # an integer of more than 64 bits, or a value without JSON form: the SDK's encoder handles or refuses it
        return canonical(value)
    shape = found.translate(_ALIKE, b"-") + b","
    if b"0e0," in shape or b"0e00," in shape or b"0e000," in shape or _SMALL in found:
        return canonical(value)
    return found
