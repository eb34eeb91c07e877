"""JWTs: believed about who a user is when a configured issuer signed them, and about nothing else."""

from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tracelake_sdk.errors import SettingInvalid, Unauthenticated

_LEEWAY_SECONDS = 30


@dataclass(frozen=True)
class Issuer:
    """Whose signature counts, for which audience, with which key and the one algorithm that fits it."""

    name: str
    audience: str
    key: Any
    algorithm: str


def issuer(name: str, audience: str, public_key: str) -> Issuer:
    """Refuses keys that are too short or of a kind that is not supported."""
    try:
        key = load_pem_public_key(public_key.encode())
    except ValueError:
        raise SettingInvalid(f"The public key of issuer {name!r} is not a PEM public key.") from None
    match key:
        case Ed25519PublicKey():
            return Issuer(name, audience, key, "EdDSA")
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return Issuer(name, audience, key, "ES256")
        case RSAPublicKey() if key.key_size >= 2048:
            return Issuer(name, audience, key, "RS256")
        case _:
            raise SettingInvalid(f"The public key of issuer {name!r} must be Ed25519, P-256, or RSA of 2048 bits or more.")


def looks_signed(token: str) -> bool:
    return token.count(".") == 2


def subject_of(token: str, issuers: dict[str, Issuer]) -> tuple[str, str]:
    """(issuer, subject) of a valid token; raises Unauthenticated with a reason that repeats nothing of it."""
    try:
        claimed = jwt.decode(token, options={"verify_signature": False}).get("iss")
        trusted = issuers.get(claimed) if isinstance(claimed, str) else None
        if trusted is None:
            raise Unauthenticated("The token's issuer is not configured here.")
        claims = jwt.decode(
            token,
            trusted.key,
            algorithms=[trusted.algorithm],
            audience=trusted.audience,
            issuer=trusted.name,
            leeway=_LEEWAY_SECONDS,
            options={"require": ["iss", "aud", "sub", "exp"]},
        )
    except jwt.ExpiredSignatureError:
        raise Unauthenticated("The token has expired; get a new one from its issuer.") from None
    except jwt.InvalidTokenError:
        raise Unauthenticated("The token is not valid: it needs a good signature and the claims iss, aud, sub and exp.") from None
    return trusted.name, claims["sub"]
