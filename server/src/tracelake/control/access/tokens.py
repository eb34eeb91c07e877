"""Tokens: 256 random bits, of which the database stores only the SHA-256."""

import hashlib
import secrets

_PREFIX = "tl_"  # lets secret scanners and people recognise one


def new_token() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def token_sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
