"""A repository's files as objects below a prefix of an S3-compatible store that supports `If-None-Match: *`. Needs `tracelake-sdk[s3]`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import S3Store

from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records.repository.embedded.folders import RecordFile
from tracelake_sdk.records.repository.embedded.layout import second_path

if TYPE_CHECKING:
    from obstore.store import S3Config

_AT_ONCE = 16
_LONGEST = timedelta(seconds=30)
_DELETED_AT_ONCE = 1000

T = TypeVar("T")
R = TypeVar("R")


class ObjectFolder:
    """Objects are complete and durable; a put that returns an error may still have succeeded."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        config: S3Config = dict(options)  # pyright: ignore[reportAssignmentType]  # the names that the store takes: endpoint, region, …
        plain_http = options.get("endpoint", "").startswith("http://")
        self._store: S3Store = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"allow_http": plain_http, "timeout": _LONGEST, "connect_timeout": timedelta(seconds=5)},
            retry_config={"max_retries": 2, "retry_timeout": _LONGEST},
        )

    def read(self, path: str) -> bytes | None:
        try:
            return obstore.get(self._store, path).bytes().to_bytes()
        except FileNotFoundError:
            return None
        except (BaseError, OSError):
            raise _unavailable() from None  # the cause contains the address and the response

    def read_many(self, paths: Sequence[str]) -> list[bytes | None]:
        return self.each(self.read, paths)

    def put_new(self, path: str, body: bytes) -> bool:
        try:
            obstore.put(self._store, path, body, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return self._ours(path, body)
        except (BaseError, OSError):
            if self.read(path) is not None:
                return self._ours(path, body)
            raise _unavailable() from None
        return True

    def replace(self, path: str, body: bytes) -> None:
        try:
            obstore.put(self._store, path, body, use_multipart=False)
        except (BaseError, OSError):
            raise _unavailable() from None

    def paths(self, folder: str) -> list[str]:
        try:
            return sorted(item["path"] for page in obstore.list(self._store, folder or None) for item in page)
        except (BaseError, OSError):
            raise _unavailable() from None

    def delete(self, paths: Sequence[str]) -> None:
        try:
            for first in range(0, len(paths), _DELETED_AT_ONCE):
                obstore.delete(self._store, paths[first : first + _DELETED_AT_ONCE])
        except FileNotFoundError:
            pass
        except (BaseError, OSError):
            raise _unavailable() from None

    def stage(self, files: Sequence[RecordFile]) -> None:
        """Nothing to delete: files that no line names do not count."""
        self.each(self._put, files)

    def staged(self, file: RecordFile) -> bool:
        return True  # a rebuild logs files that no line names, and deletes only duplicates

    def keep(self, files: Sequence[RecordFile]) -> None:
        """There are no temporary files."""

    def discard(self, files: Sequence[RecordFile]) -> None:
        self.delete([file.path for file in files])

    def each(self, do: Callable[[T], R], items: Iterable[T]) -> list[R]:
        items = tuple(items)
        if len(items) == 1:
            return [do(items[0])]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return [*threads.map(do, items)]

    def _put(self, file: RecordFile) -> None:
        if not self.put_new(file.path, file.body):
            file.path = second_path(file.path, file.id)
            self.put_new(file.path, file.body)

    def _ours(self, path: str, body: bytes) -> bool:
        """Whether an earlier try of the same put succeeded: bodies contain ids, so no two writers put the same bytes."""
        return self.read(path) == body


def _unavailable() -> RepositoryUnavailable:
    return RepositoryUnavailable("The object store of the repository does not answer, or it refuses the key.")
