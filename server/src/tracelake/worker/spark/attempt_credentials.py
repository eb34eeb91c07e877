"""The credentials of one attempt: files in its own folder that an operator reads, renewed while it runs."""

import json
import shlex
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from tracelake.files import write_whole
from tracelake.storage.contract import Storage
from tracelake.storage.operator_credentials import OperatorCredentials
from tracelake.storage.sts import Credentials, Prefixes
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.orders import staging_path
from tracelake_sdk.errors import OperatorCredentialsRefused
from tracelake_sdk.tasks import TaskPayload
from tracelake_sdk.tasks.operator_files import CREDENTIALS_PROFILE

_log = structlog.get_logger()

_RENEWED_BEFORE = timedelta(minutes=10)  # before they expire
_RETRY_SECONDS = 10.0


def prefixes_of(payload: TaskPayload, storage: Storage) -> Prefixes:
    """Read access to the tables of its inputs and to its locations, and full access to the staging folders of the attempt."""
    # The id of a dataset version is in no other path; the wildcard keeps the policy of many inputs within the size limit of STS.
    tables = sorted({_place(storage.uri(given.pinned.location)) for given in payload.inputs if given.pinned})
    staging = [_place(storage.uri(staging_path(output.staged))) for output in payload.outputs if output.staged]
    locations = [_place(url) for url in payload.locations.values() if url.startswith("s3:")]
    return Prefixes(read=(*(f"{table.partition('/')[0]}/*/{table.rpartition('/')[2]}" for table in tables), *locations), write=tuple(staging))


def _place(uri: str) -> str:
    """`bucket/prefix` of `s3a://bucket/prefix` or `s3://bucket/prefix`."""
    return uri.partition("://")[2]


class AttemptCredentials:
    """`renew()` is called often and renews rarely."""

    def __init__(self, source: OperatorCredentials, name: str, prefixes: Prefixes, folder: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._name, self._prefixes, self._folder, self._clock = source, name, prefixes, folder, clock
        self._not_before: float = float("-inf")
        try:
            self._held: Credentials | None = source.issue(name, prefixes)
        except OperatorCredentialsRefused as refused:
            raise OperatorFailed(refused.code, refused.detail, retry=True) from None
        if self._held is not None:
            self._write(self._held)
            write_whole(self._folder / "profile", f"[{CREDENTIALS_PROFILE}]\ncredential_process = /bin/cat {shlex.quote(str(self._folder / 'credentials.json'))}\n")

    @property
    def profile(self) -> str | None:
        """The AWS profile file for a host; it names a program that prints the current credentials, so that they are read again when they expire."""
        return None if self._held is None else str(self._folder / "profile")

    def environment(self, *, seconds: float) -> Mapping[str, str]:
        """For a program that is started for this attempt alone and may run that long: the names that every S3 library reads.

        Keys in the environment cannot be renewed, and a library that finds them there looks nowhere else; so a program that may outlast them gets
        the profile instead.
        """
        if self._held is None:
            return {}
        if self._held.expires_at is not None and self._held.expires_at - datetime.now(UTC) <= timedelta(seconds=seconds):
            return {"AWS_SHARED_CREDENTIALS_FILE": str(self._folder / "profile"), "AWS_PROFILE": CREDENTIALS_PROFILE}
        token = {"AWS_SESSION_TOKEN": self._held.session_token} if self._held.session_token else {}
        return {"AWS_ACCESS_KEY_ID": self._held.access_key_id, "AWS_SECRET_ACCESS_KEY": self._held.secret_access_key, **token}

    def renew(self) -> None:
        if self._held is None or self._held.expires_at is None or self._held.expires_at - datetime.now(UTC) > _RENEWED_BEFORE or self._clock() < self._not_before:
            return
        try:
            self._held = self._source.issue(self._name, self._prefixes)
        except OperatorCredentialsRefused as refused:
            self._not_before = self._clock() + _RETRY_SECONDS
            _log.warning("credentials of an attempt were not renewed", attempt=self._name, code=refused.code, detail=refused.detail)
            return
        if self._held is not None:
            self._write(self._held)

    def _write(self, held: Credentials) -> None:
        content: dict[str, object] = {"Version": 1, "AccessKeyId": held.access_key_id, "SecretAccessKey": held.secret_access_key}
        if held.session_token is not None:
            content["SessionToken"] = held.session_token
        if held.expires_at is not None:
            content["Expiration"] = held.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        write_whole(self._folder / "credentials.json", json.dumps(content))
