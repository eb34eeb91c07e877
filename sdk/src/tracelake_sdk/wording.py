"""Shared wording of output: counted nouns and scopes."""

from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope, RangeScope, spell_cursor


def plural(number: int | None, one: str, many: str | None = None) -> str:
    """The noun in singular or plural for this number; None is any number."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 task`, `2 tasks`, `1,200 tasks`; `many` is for nouns such as `policies`."""
    return f"{number:,} {plural(number, one, many)}"


def scope_words(scope: FullScope | PartitionScope | CursorScope | RangeScope | None) -> str:
    """`5`, `[0, 100)`, `partition de`, `everything`; empty for a task without a scope."""
    match scope:
        case None:
            return ""
        case FullScope():
            return "everything"
        case PartitionScope(key=key):
            return f"partition {key}"
        case CursorScope(value=value):
            return str(spell_cursor(value))
        case RangeScope(start=start, end=end):
            return f"[{spell_cursor(start)}, {spell_cursor(end)})"
