"""JWTs: signed by a configured issuer, they prove who a user is and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tracelake.settings import AccessSettings
from tracelake_sdk.errors import SettingInvalid, Unauthenticated

_LEEWAY_SECONDS = 30


@dataclass(frozen=True)
class Issuer:
    """A trusted issuer: its audience, key, the one algorithm of that key, and the org of its users."""

    name: str
    audience: str
    key: Any
    algorithm: str
    org: str | None  # None: the org that operates the installation


def issuers_of(settings: AccessSettings) -> tuple[Issuer, ...]:
    """Raises SettingInvalid for a key that is too short or not supported, and for one issuer and audience with two orgs."""
    named = [(given.issuer, given.audience) for given in settings.issuers]
    if len(named) != len(set(named)):
        raise SettingInvalid("TRACELAKE__ACCESS__ISSUERS: an issuer with one audience is for one org; give each org its own audience.")
    return tuple(issuer(given.issuer, given.audience, given.public_key, org=given.org) for given in settings.issuers)


def issuer(name: str, audience: str, public_key: str, *, org: str | None = None) -> Issuer:
    """Raises SettingInvalid for a key that is too short or not supported."""
    try:
        key = load_pem_public_key(public_key.encode())
    except ValueError:
        raise SettingInvalid(f"The public key of issuer {name!r} is not a PEM public key.") from None
    match key:
        case Ed25519PublicKey():
            return Issuer(name, audience, key, "EdDSA", org)
        case EllipticCurvePublicKey() if isinstance(key.curve, SECP256R1):
            return Issuer(name, audience, key, "ES256", org)
        case RSAPublicKey() if key.key_size >= 2048:
            return Issuer(name, audience, key, "RS256", org)
        case _:
            raise SettingInvalid(f"The public key of issuer {name!r} must be Ed25519, P-256, or RSA of 2048 bits or more.")


def looks_signed(token: str) -> bool:
    return token.count(".") == 2


def subject_of(token: str, issuers: Sequence[Issuer]) -> tuple[Issuer, str]:
    """Issuer and subject of a valid token; raises Unauthenticated with a reason that quotes nothing of the token."""
    try:
        unverified = jwt.decode(token, options={"verify_signature": False})
        trusted = _named_issuer(issuers, unverified.get("iss"), unverified.get("aud"))
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
    return trusted, claims["sub"]


def _named_issuer(issuers: Sequence[Issuer], name: object, audience: object) -> Issuer:
    """The issuer that the unverified token names; the token is verified against this issuer only."""
    of_name = [one for one in issuers if one.name == name]
    if not of_name:
        raise Unauthenticated("The token's issuer is not configured here.")
    audiences = audience if isinstance(audience, list) else [audience]
    meant = [one for one in of_name if one.audience in audiences]
    if len(meant) > 1:
        raise Unauthenticated("The token is for the audiences of several orgs; get one for the audience of one org.")
    return (meant or of_name)[0]
