"""The credentials that operators get for the object store: limited by STS to one task, or a second key, or, with a warning, the platform's own key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from tracelake.settings import Settings
from tracelake.storage.sts import Credentials, Prefixes, StsEndpoint, assume_role
from tracelake_sdk.errors import SettingInvalid

SECONDS = 3600  # the default maximum session of a role
# Environment variables with the credentials of a machine, as every S3 library reads them.
AMBIENT = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"})


class OperatorCredentials(Protocol):
    """The source of the credentials of one attempt."""

    @property
    def narrowed(self) -> bool:
        """Whether an operator has fewer permissions than the platform."""
        ...

    @property
    def described(self) -> str:
        """For `doctor`."""
        ...

    def issue(self, name: str, prefixes: Prefixes) -> Credentials | None:
        """None if the operator finds them by itself, or needs none; raises OperatorCredentialsRefused."""
        ...


@dataclass(frozen=True)
class NarrowedByRole:
    endpoint: StsEndpoint
    key: Credentials
    role: str
    narrowed: bool = True

    @property
    def described(self) -> str:
        return f"limited by STS to the prefixes of each task, with the role {self.role}"

    def issue(self, name: str, prefixes: Prefixes) -> Credentials:
        return assume_role(self.endpoint, self.key, self.role, name=name, prefixes=prefixes, seconds=SECONDS)


@dataclass(frozen=True)
class FixedKey:
    key: Credentials
    narrowed: bool
    described: str

    def issue(self, name: str, prefixes: Prefixes) -> Credentials:
        return self.key


@dataclass(frozen=True)
class OfTheMachine:
    """Nothing is issued: files are local, or the operator uses the credentials of the machine."""

    narrowed: bool
    described: str

    def issue(self, name: str, prefixes: Prefixes) -> None:
        return None


def operator_credentials(settings: Settings, environment: Mapping[str, str]) -> OperatorCredentials:
    """As configured; raises SettingInvalid for a role without a key to assume it with."""
    given = settings.storage
    if not given.is_s3:
        return OfTheMachine(narrowed=True, described="not needed, because the lake is a local folder")
    if (given.operator_access_key_id is None) != (given.operator_secret_access_key is None):
        raise SettingInvalid("TRACELAKE__STORAGE__OPERATOR_ACCESS_KEY_ID: set it together with TRACELAKE__STORAGE__OPERATOR_SECRET_ACCESS_KEY, or set neither")
    own = _own_key(settings, environment)
    if given.operator_role is not None:
        if own is None:
            raise SettingInvalid("TRACELAKE__STORAGE__OPERATOR_ROLE: a role is assumed with a key; set access_key_id and secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        url = given.sts_endpoint or given.endpoint or f"https://sts.{given.region}.amazonaws.com"
        return NarrowedByRole(StsEndpoint(url, given.region, given.timeout_seconds), own, given.operator_role)
    if given.operator_access_key_id is not None and given.operator_secret_access_key is not None:
        key = Credentials(given.operator_access_key_id, given.operator_secret_access_key.get_secret_value())
        return FixedKey(key, narrowed=True, described="a second key, with the limits that its admin has set")
    if given.access_key_id is not None and own is not None:
        return FixedKey(own, narrowed=False, described="operators use the platform's own key")
    return OfTheMachine(narrowed=False, described="operators use the credentials of this machine, as the platform does")


def _own_key(settings: Settings, environment: Mapping[str, str]) -> Credentials | None:
    given = settings.storage
    if given.access_key_id is not None and given.secret_access_key is not None:
        return Credentials(given.access_key_id, given.secret_access_key.get_secret_value())
    if environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return Credentials(environment["AWS_ACCESS_KEY_ID"], environment["AWS_SECRET_ACCESS_KEY"], environment.get("AWS_SESSION_TOKEN"))
    return None
