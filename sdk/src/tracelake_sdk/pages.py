"""Pages of a long list, with the token of the next page."""

from typing import Generic, TypeVar

from tracelake_sdk.deferred import Deferred

Item = TypeVar("Item")


class Page(Deferred, Generic[Item]):
    items: list[Item]
    next: str | None = None  # pass it as `token=` for the next page; None: this is the last page
