"""The control plane as Python: `Client`, with one part for each noun of the API."""

from tracelake_sdk.client.client import Client

__all__ = ["Client"]
