"""The webhook sender: one signed POST per entry, only to public addresses unless the operator allows private ones."""

import hashlib
import hmac
import ipaddress
import socket
import ssl
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

import httpx2

from tracelake import wire_json
from tracelake.control.outbox.service import SendingFailed
from tracelake.control.outbox.store import Errand


@dataclass(frozen=True)
class Webhook:
    """Sends entries to one URL. Redirects are not followed; the reply's body is not read."""

    url: str
    secret: str | None
    timeout_seconds: float
    allow_private_addresses: bool

    def __call__(self, errand: Errand) -> None:
        body = wire_json.encode({"id": str(errand.id), "kind": errand.kind, "at": errand.created_at.isoformat(), **errand.body})
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(errand.id)}
        if self.secret is not None:
            headers["Tracelake-Signature"] = "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        address = self._address()
        parts = urlsplit(self.url)
        # Sent to the checked address: resolving the name again could give another one.
        literal = f"[{address}]" if ":" in address else address
        url = parts._replace(netloc=f"{literal}:{parts.port}" if parts.port else literal).geturl()
        headers["Host"] = parts.netloc.rpartition("@")[2]
        try:
            with httpx2.Client(timeout=self.timeout_seconds, follow_redirects=False, trust_env=False, verify=self._tls) as client:
                answer = client.post(url, content=body, headers=headers, extensions={"sni_hostname": parts.hostname})
        except httpx2.HTTPError as error:
            raise SendingFailed(f"the receiver did not answer ({type(error).__name__})") from None
        if answer.status_code >= 300:
            raise SendingFailed(f"the receiver answered {answer.status_code}")

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Read once: it takes 30 ms, more than a delivery. Without TLS, a context that trusts no certificate."""
        return httpx2.create_ssl_context() if urlsplit(self.url).scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def _address(self) -> str:
        parts = urlsplit(self.url)
        try:
            found = socket.getaddrinfo(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), type=socket.SOCK_STREAM)
        except OSError:
            raise SendingFailed("the receiver's name does not resolve") from None
        addresses = [str(entry[4][0]) for entry in found]
        if not self.allow_private_addresses and not all(ipaddress.ip_address(address.partition("%")[0]).is_global for address in addresses):
            raise SendingFailed("the receiver's address is private; set TRACELAKE__WEBHOOK__ALLOW_PRIVATE_ADDRESSES to allow it", final=True)
        return addresses[0]
