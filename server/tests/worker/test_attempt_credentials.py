"""Credentials of one attempt, on a real store with a real STS: what they reach, what they do not, and that they are renewed."""

import json
import subprocess
from configparser import ConfigParser
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store
from support.s3_servers import S3Server

from tracelake.embedded.doctor import examine
from tracelake.settings import read_settings
from tracelake.storage.operator_credentials import operator_credentials
from tracelake.storage.paths import table_location
from tracelake.storage.sts import Credentials, Prefixes, session_policy
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.attempt_credentials import AttemptCredentials, prefixes_of
from tracelake_sdk.errors import SettingInvalid

from .workshop import LOCATION, payload

pytestmark = pytest.mark.xdist_group("s3")


def held(credentials: AttemptCredentials) -> dict[str, Any]:
    """What a library finds that is given the profile file."""
    profile = ConfigParser()
    profile.read(credentials.profile or "")
    return json.loads(subprocess.run(["/bin/sh", "-c", profile["operator"]["credential_process"]], capture_output=True, check=True, timeout=60).stdout)


def store_of(server: S3Server, url: str, found: dict[str, Any]) -> S3Store:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    token = {"session_token": found["SessionToken"]} if "SessionToken" in found else {}
    config: Any = {"endpoint": server.endpoint, "region": "us-east-1", "access_key_id": found["AccessKeyId"], "secret_access_key": found["SecretAccessKey"]} | token
    return S3Store(bucket, prefix=prefix, config=config, client_options={"allow_http": True}, retry_config={"max_retries": 0})


def refused(call: Any) -> bool:
    try:
        call()
    except (BaseError, OSError) as error:
        assert "403" in str(error) or "Access Denied" in str(error) or "privileges" in str(error), error
        return True
    return False


@pytest.mark.proves("T3.4")
def test_an_attempt_reaches_its_inputs_and_its_own_folder_and_nothing_else(s3_server: S3Server, tmp_path: Path):
    url = s3_server.fresh_url()
    settings = read_settings(storage=s3_server.section(url) | {"operator_role": s3_server.role})
    mine, input, other = (table_location(uuid4(), uuid4(), uuid4()) for _ in range(3))
    root = url.removeprefix("s3://")
    prefixes = Prefixes(read=(f"{root.partition('/')[0]}/*/{input.rpartition('/')[2]}",), write=(f"{root}/{mine}/task-1",))
    files = s3_server.open(url)
    for name in (f"{input}/a-1/full/x.parquet", f"{other}/a-1/full/x.parquet", f"{other}/_delta_log/0.json", f"{mine}/_delta_log/0.json", f"{mine}/task-0/full/x.parquet"):
        files.replace(name, b"x")
    credentials = AttemptCredentials(operator_credentials(settings, {}), "task-1", prefixes, tmp_path)
    found = held(credentials)
    assert s3_server.secret_access_key not in json.dumps(found) + json.dumps(dict(credentials.environment(seconds=60)))
    store = store_of(s3_server, url, found)
    assert obstore.get(store, f"{input}/a-1/full/x.parquet").bytes().to_bytes() == b"x"
    obstore.put(store, f"{mine}/task-1/full/y.parquet", b"y")
    obstore.put(store, f"{mine}/task-1/full/z.parquet", b"z" * 6_000_000, use_multipart=True, chunk_size=5 << 20)
    assert len(obstore.list(store, f"{mine}/task-1").collect()) == 2
    assert len(obstore.list(store, f"{input}/a-1").collect()) == 1
    obstore.delete(store, f"{mine}/task-1/full/y.parquet")
    for name in (f"{other}/a-1/full/x.parquet", f"{other}/_delta_log/0.json", f"{mine}/_delta_log/0.json", f"{mine}/task-0/full/x.parquet"):
        assert refused(lambda name=name: obstore.get(store, name)), name
    for name in (f"{input}/a-1/full/x.parquet", f"{other}/_delta_log/1.json", f"{mine}/_delta_log/1.json", f"{mine}/task-10/x.parquet"):
        assert refused(lambda name=name: obstore.put(store, name, b"evil")), name
        assert refused(lambda name=name: obstore.delete(store, name)), name
    for folder in (other, mine, None):
        assert refused(lambda folder=folder: obstore.list(store, folder).collect()), folder


def test_a_second_key_is_given_as_it_is_and_the_store_limits_it(s3_server: S3Server, tmp_path: Path):
    url = s3_server.fresh_limited_url()
    limits = {"operator_access_key_id": s3_server.limited_access_key_id, "operator_secret_access_key": s3_server.limited_secret_access_key}
    settings = read_settings(storage=s3_server.section(url) | limits)
    found = held(AttemptCredentials(operator_credentials(settings, {}), "task-1", Prefixes(), tmp_path))
    assert found == {"Version": 1, "AccessKeyId": "limited", "SecretAccessKey": s3_server.limited_secret_access_key}
    obstore.put(store_of(s3_server, url, found), "x", b"x")
    assert refused(lambda: obstore.put(store_of(s3_server, s3_server.fresh_url(), found), "x", b"x"))


@dataclass
class Expiring:
    """Issues credentials that expire in a moment, then ones that do not."""

    narrowed: bool = True
    described: str = "for a test"
    issued: list[Credentials] = field(default_factory=list)

    def issue(self, name: str, prefixes: Prefixes) -> Credentials:
        self.issued.append(Credentials(f"id-{len(self.issued)}", "secret", "token", datetime.now(UTC) + timedelta(minutes=5 if not self.issued else 60)))
        return self.issued[-1]


def test_credentials_are_renewed_before_they_expire_and_only_then(tmp_path: Path):
    source = Expiring()
    credentials = AttemptCredentials(source, "task-1", Prefixes(), tmp_path)
    assert held(credentials)["AccessKeyId"] == "id-0"
    credentials.renew()
    credentials.renew()
    assert (held(credentials)["AccessKeyId"], len(source.issued)) == ("id-1", 2)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_program_that_may_outlast_its_credentials_gets_a_profile_that_is_renewed_instead_of_keys(tmp_path: Path):
    credentials = AttemptCredentials(Expiring(), "task-1", Prefixes(), tmp_path)
    assert credentials.environment(seconds=60) == {"AWS_ACCESS_KEY_ID": "id-0", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    given = credentials.environment(seconds=600)
    assert given == {"AWS_SHARED_CREDENTIALS_FILE": credentials.profile, "AWS_PROFILE": "operator"}
    credentials.renew()
    assert held(credentials)["AccessKeyId"] == "id-1"
    lasting = {"operator_access_key_id": "a", "operator_secret_access_key": "b"}
    second_key = operator_credentials(read_settings(storage={"url": "s3://bucket", "region": "r"} | lasting), {})
    assert AttemptCredentials(second_key, "task-1", Prefixes(), tmp_path).environment(seconds=1e6) == {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}


def test_an_attempt_reads_its_inputs_and_locations_and_writes_its_own_staging(s3_server: S3Server):
    storage = s3_server.open("s3://bucket/lake")
    table = table_location(uuid4(), uuid4(), version := uuid4())
    pinned = {"version": 1, "table_schema": {}, "location": table, "files": [], "scopes": None, "partition_by": None}
    input = {"index": 0, "name": "orders", "dataset_uuid": uuid4(), "dataset_version": version, "trigger": True, "where": None}
    inputs = [input | {"pinned": pinned}, input | {"index": 1, "pinned": pinned}, input | {"index": 2, "pinned": None}]
    locations = {"landing": "s3://other/landing", "here": "file:///data"}
    found = prefixes_of(payload(config={}, staging="task-1", inputs=inputs, locations=locations), storage)
    assert found == Prefixes(read=(f"bucket/*/{version}", "other/landing"), write=(f"bucket/lake/{LOCATION}/task-1",))


def test_a_store_that_issues_none_fails_the_attempt_for_now(s3_server: S3Server, tmp_path: Path):
    storage = s3_server.section(s3_server.fresh_url()) | {"operator_role": s3_server.role}
    wrong = read_settings(storage=storage | {"secret_access_key": "wrong"})
    with pytest.raises(OperatorFailed, match="403 SignatureDoesNotMatch") as failed:
        AttemptCredentials(operator_credentials(wrong, {}), "task-1", Prefixes(), tmp_path)
    assert (failed.value.error_class, failed.value.retry) == ("operator_credentials_refused", True)
    away = read_settings(storage=storage | {"sts_endpoint": "http://127.0.0.1:1"})
    with pytest.raises(OperatorFailed, match="does not answer"):
        AttemptCredentials(operator_credentials(away, {}), "task-1", Prefixes(), tmp_path)


def test_a_policy_of_many_inputs_is_within_what_amazon_takes():
    tables = tuple(f"bucket-of-some-length/*/{number:036}" for number in range(10))
    assert len(session_policy(Prefixes(read=tables, write=("bucket-of-some-length/prefix/" + "x" * 160,)))) <= 2048
    assert "arn:aws-cn:s3:::" in session_policy(Prefixes(read=("bucket/x",)), partition="aws-cn")


def test_doctor_says_what_operators_hold(s3_server: S3Server, tmp_path: Path):
    url = s3_server.fresh_url()

    def said(**storage: str) -> tuple[bool | None, str]:
        settings = read_settings(home=tmp_path, database={"url": "postgresql://127.0.0.1:1/none"}, storage=s3_server.section(url) | storage)
        [check] = [check for check in examine(settings) if check.name == "operator credentials"]
        return check.ok, check.detail

    assert said() == (False, "operators use the platform's own key")
    assert said(operator_access_key_id="a", operator_secret_access_key="b") == (True, "a second key, with the limits that its admin has set")
    assert said(operator_role=s3_server.role) == (True, f"limited by STS to the prefixes of each task, with the role {s3_server.role}")
    assert said(operator_role="arn:aws:iam::role/absent")[0] is False
    assert said(operator_access_key_id="a")[1].startswith("TRACELAKE__STORAGE__OPERATOR_ACCESS_KEY_ID: set it together")


def test_a_role_without_a_key_to_assume_it_with_is_a_wrong_setting():
    settings = read_settings(storage={"url": "s3://bucket", "operator_role": "arn:aws:iam::1:role/x"})
    with pytest.raises(SettingInvalid, match="OPERATOR_ROLE"):
        operator_credentials(settings, {})
    assert operator_credentials(settings, {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}).narrowed
