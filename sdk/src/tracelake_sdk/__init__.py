"""The SDK of Tracelake: models, client and command line for notebooks and services, with few dependencies.

`from tracelake_sdk import Client` is all that most people need; each name is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelake_sdk.client import Client
    from tracelake_sdk.errors import TracelakeError
    from tracelake_sdk.queries.results import QueryResult
    from tracelake_sdk.records import MetadataContext, MetadataRecord, MetadataRequest, MetadataTarget, Window
    from tracelake_sdk.records.builders import RecordBuilder
    from tracelake_sdk.records.emitter import Emitter
    from tracelake_sdk.records.repository.opening import open_repository
    from tracelake_sdk.records.view import RecordView

__all__ = [
    "Client",
    "Emitter",
    "MetadataContext",
    "MetadataRecord",
    "MetadataRequest",
    "MetadataTarget",
    "QueryResult",
    "RecordBuilder",
    "RecordView",
    "TracelakeError",
    "Window",
    "open_repository",
]

_MODULES = {
    "Client": "client",
    "Emitter": "records.emitter",
    "MetadataContext": "records",
    "MetadataRecord": "records",
    "MetadataRequest": "records",
    "MetadataTarget": "records",
    "QueryResult": "queries.results",
    "RecordBuilder": "records.builders",
    "RecordView": "records.view",
    "TracelakeError": "errors",
    "Window": "records",
    "open_repository": "records.repository.opening",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
