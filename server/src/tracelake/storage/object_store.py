"""Tables as objects of an S3-compatible store that honours `If-None-Match: *`; one that ignores it would lose commits."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from tracelake.storage.contract import PutResult, StoredFile, Watch
from tracelake.storage.paths import contained, plain
from tracelake_sdk.errors import StorageOutcomeUnknown, StorageUnavailable

if TYPE_CHECKING:
    from obstore.store import S3Config

_DELETED_AT_ONCE = 1000


class ObjectStorage:
    """A bucket, or a prefix of one. Every request is sent once: the caller decides whether to retry."""

    def __init__(self, bucket: str, prefix: str, config: "S3Config", watch: Watch, *, timeout: timedelta, allow_http: bool) -> None:
        self._uri = f"s3a://{bucket}/{prefix}/" if prefix else f"s3a://{bucket}/"
        self._watch = watch
        self._store = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"timeout": timeout, "connect_timeout": min(timeout, timedelta(seconds=5)), "allow_http": allow_http},
            retry_config={"max_retries": 0},
        )

    def put_new(self, path: str, body: bytes, modified_at: datetime) -> PutResult:
        self._watch("put:before")
        try:
            obstore.put(self._store, plain(path), body, mode="create", use_multipart=False)
            result = PutResult.CREATED
        except AlreadyExistsError:
            result = self._compare(path, body)
        except (BaseError, OSError):
            raise StorageOutcomeUnknown from None  # the cause contains the address and the answer
        self._watch("put:answered")
        return result

    def _compare(self, path: str, body: bytes) -> PutResult:
        try:
            there = self.read(path)
        except StorageUnavailable:
            there = None
        if there is None:
            raise StorageOutcomeUnknown
        return PutResult.SAME if there == body else PutResult.OTHER

    def replace(self, path: str, body: bytes) -> None:
        try:
            obstore.put(self._store, plain(path), body, use_multipart=False)
        except (BaseError, OSError):
            raise StorageOutcomeUnknown from None

    def read(self, path: str) -> bytes | None:
        try:
            return obstore.get(self._store, plain(path)).bytes().to_bytes()
        except FileNotFoundError:
            return None
        except (BaseError, OSError):
            raise StorageUnavailable from None

    def size(self, path: str) -> int | None:
        try:
            return obstore.head(self._store, plain(path))["size"]
        except FileNotFoundError:
            return None
        except (BaseError, OSError):
            raise StorageUnavailable from None

    def seal(self, paths: Sequence[str]) -> dict[str, str]:
        """An object that exists is complete and durable; only its seal is returned."""
        found: dict[str, str] = {}
        try:
            for folder in sorted({plain(path).rpartition("/")[0] for path in paths}):
                for item in obstore.list_with_delimiter(self._store, folder or None)["objects"]:
                    tag = (item["e_tag"] or "").strip('"')
                    found[item["path"]] = f"{item['size']}-{tag}"
        except (BaseError, OSError):
            raise StorageUnavailable from None
        return {path: found[path] for path in paths if path in found}

    def list(self, folder: str) -> list[StoredFile]:
        try:
            pages = obstore.list(self._store, contained(folder))
            found = [StoredFile(item["path"], item["size"]) for page in pages for item in page]
        except (BaseError, OSError):
            raise StorageUnavailable from None
        return sorted(found, key=lambda file: file.path)

    def delete(self, paths: Sequence[str]) -> None:
        targets = [contained(path) for path in paths]
        try:
            for first in range(0, len(targets), _DELETED_AT_ONCE):
                obstore.delete(self._store, targets[first : first + _DELETED_AT_ONCE])
        except (BaseError, OSError):
            raise StorageUnavailable from None

    def uri(self, path: str) -> str:
        return self._uri + plain(path)

    def local_path(self, path: str) -> None:
        plain(path)
