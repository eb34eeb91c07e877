"""The control plane as Python."""

from tracelake_sdk.client.client import (
    FINAL,
    Answer,
    Client,
    Item,
)

__all__ = [
    "FINAL",
    "Answer",
    "Client",
    "Item",
]
