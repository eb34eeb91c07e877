"""JSON input of people, producers and operators: values that every repository can store, and error text that every client can show."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

MOST_DEPTH = 64  # JSON parsers limit the depth, and a record is nested in a page of answers
_UNSHOWN = "\N{REPLACEMENT CHARACTER}"
_CUT = " …"

_PLAIN = frozenset({int, bool, type(None)})


def storable(value: Any, room: int = MOST_DEPTH) -> Any:
    """Refuses values that some repository cannot store: NUL, halves of surrogate pairs, numbers that JSON does not have, and values nested too deep.

    Each error has its own type, which names the problem where the text of an error may not be shown.
    """
    kind = type(value)
    if kind is dict:
        _entries(value, room)
        return value
    if kind in _PLAIN or (kind is str and value.isascii() and "\0" not in value):
        return value
    match value:
        case str() if "\0" in value:
            raise PydanticCustomError("nul_character", "text contains a NUL character")
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise PydanticCustomError("half_surrogate", "text contains half of a surrogate pair") from None
        case float() if not math.isfinite(value):
            raise PydanticCustomError("not_finite", "a number is not finite, which JSON does not support")
        case dict():
            _entries(value, room)
        case list() | tuple():
            _any_room(room)
            for item in value:
                storable(item, room - 1)
        case None | bool() | int() | float():
            pass
        case _:
            raise PydanticCustomError("not_json", "{type} is not JSON", {"type": type(value).__name__})
    return value


def _any_room(room: int) -> None:
    if room == 0:
        raise PydanticCustomError("too_deep", "it is nested deeper than {most}", {"most": MOST_DEPTH})


def _entries(entries: dict[Any, Any], room: int) -> None:
    _any_room(room)
    for key, item in entries.items():
        of = type(item)
        if type(key) is str and key.isascii() and "\0" not in key and (of in _PLAIN or (of is str and item.isascii() and "\0" not in item)):
            continue  # the common case
        if not isinstance(key, str):
            raise PydanticCustomError("not_json", "names in JSON must be text")
        storable(key)
        storable(item, room - 1)


Json = Annotated[dict[str, Any], AfterValidator(storable)]
StorableText = Annotated[str, AfterValidator(storable)]


def shown(text: str, longest: int) -> str:
    """Text for people: NUL and halves of surrogate pairs are replaced visibly, and long text is cut."""
    cut = text if len(text) <= longest else text[: longest - len(_CUT)] + _CUT
    return "".join(_UNSHOWN if letter == "\0" or "\ud800" <= letter <= "\udfff" else letter for letter in cut)


def shown_text(longest: int) -> BeforeValidator:
    """For a field whose text comes from a program: any text is accepted and made displayable."""
    return BeforeValidator(lambda value: shown(value, longest) if isinstance(value, str) else value)
