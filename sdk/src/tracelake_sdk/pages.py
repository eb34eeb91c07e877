"""Pages: a list too long for one answer, with the token that fetches what follows."""

from typing import Generic, TypeVar

from tracelake_sdk.deferred import Deferred

Item = TypeVar("Item")


class Page(Deferred, Generic[Item]):
    items: list[Item]
    next: str | None = None  # ask again with `token=` this; None: that was all
