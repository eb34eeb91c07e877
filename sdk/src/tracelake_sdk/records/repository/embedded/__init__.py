"""The repository as files: one folder, or one prefix of an object store, is one tenant; any number of processes read and write it at once."""

from tracelake_sdk.records.repository.embedded.repository import EmbeddedRepository

__all__ = ["EmbeddedRepository"]
