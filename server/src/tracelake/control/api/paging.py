"""Parameters that routes share: page size, page token, and idempotency key."""

from typing import Annotated
from uuid import UUID

from fastapi import Header, Query

from tracelake_sdk.errors import Malformed

Limit = Annotated[int, Query(ge=1, le=1000)]
Token = Annotated[str | None, Query(max_length=64, description="`next` of the previous page.")]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]


def id_of(token: str | None) -> UUID | None:
    try:
        return UUID(token) if token else None
    except ValueError:
        raise Malformed("The page token is not valid; use `next` of the previous page.") from None


def number_of(token: str | None) -> int | None:
    if token and not (token.isascii() and token.isdecimal() and len(token) < 19):
        raise Malformed("The page token is not valid; use `next` of the previous page.")
    return int(token) if token else None
