"""Where a Tracelake system is found, and the token for it."""

import ipaddress
import logging
import os
import time
from collections.abc import Callable

import httpx2

from tracelake_sdk.errors import NotRunning, SettingInvalid, Unauthenticated
from tracelake_sdk.home import HomeFiles, default_home

_LOOK_SECONDS = 0.1
_log = logging.getLogger(__name__)


def find_system(api_url: str | None = None, token: str | None = None, *, patience: float = 0) -> tuple[str, str]:
    """Address and token, as documented in `Client`; raises NotRunning, Unauthenticated or SettingInvalid. A system that is starting has `patience` seconds."""
    files = HomeFiles(default_home())
    found = address_of(api_url or os.environ.get("TRACELAKE_API_URL") or _started(files, patience) or _nowhere(files))
    kept = _kept(files, HomeFiles.admin_token) if is_this_machine(found) else None
    token = (token or os.environ.get("TRACELAKE_TOKEN") or kept or "").strip()
    if not token:
        raise Unauthenticated(f"No token for {found}; set TRACELAKE_TOKEN.")
    if not token.isascii() or not token.isprintable():
        raise SettingInvalid("TRACELAKE_TOKEN: a token is one line of plain characters")
    return found, token


def _started(files: HomeFiles, patience: float) -> str | None:
    """The address of the system in this home, once it has started."""
    deadline, warned = time.monotonic() + patience, False
    while (found := _kept(files, HomeFiles.api_url)) is None and time.monotonic() < deadline and files.is_starting():
        if not warned:
            _log.warning("A Tracelake system is starting in %s; waiting for it.", files.home)
            warned = True
        time.sleep(_LOOK_SECONDS)
    return found


def _nowhere(files: HomeFiles) -> str:
    if files.is_stopping():
        raise NotRunning(f"The Tracelake system in {files.home} is stopping; when it has stopped, start it again with `tracelake up`.")
    raise NotRunning(f"No Tracelake system runs in {files.home}; start one with `tracelake up`, or set TRACELAKE_API_URL and TRACELAKE_TOKEN.")


def _kept(files: HomeFiles, value: Callable[[HomeFiles], str | None]) -> str | None:
    try:
        return value(files)
    except (OSError, ValueError) as error:
        raise SettingInvalid(f"TRACELAKE_HOME: {files.home} cannot be read ({type(error).__name__}); choose a home of this user") from error


def address_of(api_url: str) -> str:
    """The normalized address; raises SettingInvalid."""
    try:
        address = httpx2.URL(api_url)
        usable = address.scheme in ("http", "https") and bool(address.host) and 0 < (address.port or 80) < 65536
    except httpx2.InvalidURL:
        usable = False
    if not usable:
        raise SettingInvalid("TRACELAKE_API_URL: an address is like http://127.0.0.1:8000")
    return api_url.rstrip("/")


def is_this_machine(api_url: str) -> bool:
    host = httpx2.URL(api_url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
