"""Opens the repository of an address; emitters and readers work with any of them."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from tracelake_sdk.errors import SettingInvalid
from tracelake_sdk.records.repository.contract import MetadataRepository

URL_SETTING = "TRACELAKE__RECORDS__URL"
TOKEN_SETTING = "TRACELAKE__RECORDS__TOKEN"  # noqa: S105  # the name of a setting
DEFAULT_TENANT = "main"


def open_repository(
    url: str | None = None,
    *,
    token: str | None = None,
    tenant: str | None = None,
    timeout: float = 30.0,
    fsync: bool = False,
    options: Mapping[str, str] | None = None,
) -> MetadataRepository:
    """The repository of a folder or an object store (`file:///…`, `s3://…`), of a service (`https://…`), or of the running system.

    If omitted, the address is TRACELAKE__RECORDS__URL, else the system that `Client` finds; the token is
    TRACELAKE__RECORDS__TOKEN, else the one that `Client` would use. `fsync` and `options` are for files.
    """
    url = url or os.environ.get(URL_SETTING) or None
    token = token or os.environ.get(TOKEN_SETTING) or None
    if url is None or is_service(url):
        from tracelake_sdk.client.addresses import find_system  # noqa: PLC0415  # who keeps records in files needs no HTTP
        from tracelake_sdk.records.repository.remote import RemoteRepository  # noqa: PLC0415

        found, token = find_system(url, token)
        return RemoteRepository(found, token, tenant=tenant, timeout=timeout)
    from tracelake_sdk.records.repository.embedded import EmbeddedRepository  # noqa: PLC0415

    return EmbeddedRepository(url, tenant=tenant or DEFAULT_TENANT, fsync=fsync, options=options)


def is_service(url: str) -> bool:
    """Whether a repository is used over HTTP; raises SettingInvalid for an invalid address."""
    try:
        return urlsplit(url).scheme in ("http", "https")
    except ValueError:
        raise SettingInvalid(f"{URL_SETTING}: a repository is `file:///folder`, `s3://bucket/prefix` or `https://service`") from None
