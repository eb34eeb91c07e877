"""Ids: UUIDv7, so that an id contains its time and new rows are stored together."""

from datetime import UTC, datetime
from uuid import UUID

from uuid_utils.compat import uuid7


def new_id() -> UUID:
    return uuid7()


def first_id_of(moment: datetime) -> UUID:
    """The smallest UUIDv7 of a moment: `id >= first_id_of(t)` is 'made at or after t'."""
    milliseconds = int(moment.astimezone(UTC).timestamp() * 1000)
    return UUID(int=(milliseconds << 80) | (0x7 << 76) | (0b10 << 62))


def time_of(id: UUID) -> datetime:
    """When a UUIDv7 was made."""
    return datetime.fromtimestamp((id.int >> 80) / 1000, UTC)
