"""Opens the storage that the settings name."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tracelake.settings import Settings, StorageSettings
from tracelake.storage.contract import Storage, Watch
from tracelake.storage.local import LocalStorage
from tracelake.storage.paths import UnsafePath, plain
from tracelake_sdk.errors import SettingInvalid

if TYPE_CHECKING:
    from obstore.store import S3Config


def open_storage(settings: Settings, watch: Watch) -> Storage:
    """Nothing is read or written yet; raises SettingInvalid for an invalid URL."""
    given = settings.storage
    if given.url is None:
        return LocalStorage(settings.home / "lake", watch)
    url = urlsplit(given.url)
    if url.scheme == "file" and url.netloc in ("", "localhost") and url.path.startswith("/"):
        return LocalStorage(Path(unquote(url.path)), watch)
    if url.scheme == "s3" and url.netloc and not url.query and not url.fragment:
        return _object_storage(given, url.netloc, url.path.strip("/"), watch)
    raise SettingInvalid("TRACELAKE__STORAGE__URL: write `file:///folder` or `s3://bucket/prefix`")


def _object_storage(given: StorageSettings, bucket: str, prefix: str, watch: Watch) -> Storage:
    from tracelake.storage.object_store import ObjectStorage  # noqa: PLC0415  # local systems never load this library

    try:
        plain(prefix or "root")
    except UnsafePath as error:
        raise SettingInvalid(f"TRACELAKE__STORAGE__URL: {error}") from None
    config: S3Config = {"region": given.region}
    if given.endpoint is not None:
        config["endpoint"] = given.endpoint
    if given.access_key_id is not None and given.secret_access_key is not None:
        config["access_key_id"] = given.access_key_id
        config["secret_access_key"] = given.secret_access_key.get_secret_value()
    return ObjectStorage(bucket, prefix, config, watch, timeout=timedelta(seconds=given.timeout_seconds), allow_http=given.allow_http)
