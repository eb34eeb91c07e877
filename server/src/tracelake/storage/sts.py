"""Temporary credentials from an S3-compatible store's STS: one signed request, `AssumeRole` with a session policy."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode, urlsplit

import httpx2

from tracelake_sdk.errors import OperatorCredentialsRefused

_FORM = "application/x-www-form-urlencoded; charset=utf-8"
_VERSION = "2011-06-15"
_REASON = re.compile(r"[A-Za-z.]{1,100}")


@dataclass(frozen=True)
class Credentials:
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None
    expires_at: datetime | None = None  # None: never


@dataclass(frozen=True)
class Prefixes:
    """What a task may access, each as `bucket/prefix`."""

    read: tuple[str, ...] = ()   # and list: Hadoop lists what it opens
    write: tuple[str, ...] = ()  # and read, list and delete


@dataclass(frozen=True)
class StsEndpoint:
    url: str
    region: str
    timeout_seconds: float


def assume_role(endpoint: StsEndpoint, key: Credentials, role: str, *, name: str, prefixes: Prefixes, seconds: int) -> Credentials:
    """Raises OperatorCredentialsRefused with the store's error code and nothing else of its answer."""
    form = {
        "Action": "AssumeRole", "Version": _VERSION, "RoleArn": role, "RoleSessionName": name, "DurationSeconds": str(seconds),
        "Policy": session_policy(prefixes, partition=_partition(role)),
    }  # fmt: skip
    body = urlencode(form).encode()
    headers = _signed(endpoint, key, body, datetime.now(UTC))
    try:
        answer = httpx2.post(f"{endpoint.url.rstrip('/')}/", content=body, headers=headers, timeout=endpoint.timeout_seconds)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OperatorCredentialsRefused(f"The object store's STS does not answer ({type(error).__name__}); check `storage.sts_endpoint` and the network.") from None
    if not answer.is_success:
        reason = _REASON.fullmatch(_text(answer.text, "Code") or "")
        raise OperatorCredentialsRefused(f"{OperatorCredentialsRefused.__doc__} It answered {answer.status_code} {reason[0] if reason else ''}".rstrip() + ".")
    found = {tag: _text(answer.text, tag) for tag in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}
    if not all(found.values()):
        raise OperatorCredentialsRefused("The object store's STS returned no credentials; check `storage.sts_endpoint`.")
    return Credentials(
        found["AccessKeyId"] or "", found["SecretAccessKey"] or "", found["SessionToken"], datetime.fromisoformat(found["Expiration"] or "").astimezone(UTC)
    )


def session_policy(prefixes: Prefixes, *, partition: str = "aws") -> str:
    """The policy that limits the role's permissions, as short as possible: Amazon accepts 2,048 characters."""
    statements = [
        _statement(["s3:GetObject"], prefixes.read, partition),
        _statement(["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"], prefixes.write, partition),
    ]
    listed = [*prefixes.read, *prefixes.write]
    for bucket in sorted({prefix.partition("/")[0] for prefix in listed}):
        inside = [prefix.partition("/")[2] for prefix in listed if prefix.partition("/")[0] == bucket]
        statements.append({
            "Effect": "Allow", "Action": ["s3:ListBucket", "s3:ListBucketMultipartUploads"], "Resource": [f"arn:{partition}:s3:::{bucket}"],
            "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*" if prefix else "*" for prefix in inside]}},
        })  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": [each for each in statements if each["Resource"]]}, separators=(",", ":"))


def _statement(actions: list[str], prefixes: tuple[str, ...], partition: str) -> dict[str, object]:
    return {"Effect": "Allow", "Action": actions, "Resource": [f"arn:{partition}:s3:::{prefix}/*" for prefix in prefixes]}


def _partition(role: str) -> str:
    """`aws-cn` of `arn:aws-cn:iam::…`."""
    parts = role.split(":")
    return parts[1] if len(parts) > 1 and parts[0] == "arn" else "aws"


def _text(xml: str, tag: str) -> str | None:
    found = re.search(rf"<{tag}>([^<]*)</{tag}>", xml)
    return found[1].strip() if found else None


def _signed(endpoint: StsEndpoint, key: Credentials, body: bytes, now: datetime) -> Mapping[str, str]:
    """The headers of a request to STS, signed with AWS Signature Version 4."""
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    headers = {"content-type": _FORM, "host": urlsplit(endpoint.url).netloc, "x-amz-date": moment}
    if key.session_token:
        headers["x-amz-security-token"] = key.session_token
    names = ";".join(sorted(headers))
    request = "\n".join(["POST", "/", "", *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, hashlib.sha256(body).hexdigest()])
    scope = f"{moment[:8]}/{endpoint.region}/sts/aws4_request"
    signing = ("AWS4" + key.secret_access_key).encode()
    for part in scope.split("/"):
        signing = _mac(signing, part)
    signature = _mac(signing, "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])).hex()
    authorization = f"AWS4-HMAC-SHA256 Credential={key.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return headers | {"authorization": authorization}


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
