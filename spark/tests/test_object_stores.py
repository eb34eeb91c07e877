"""Tasks that share a JVM reach a real S3 server each with credentials of its own, which its STS narrowed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.fetched import SPARK_JARS
from support.s3_servers import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("s3")]

PROGRAM = """
import json, sys, time
from datetime import UTC, datetime, timedelta
from pathlib import Path
given = json.loads(sys.argv[1])
sys.path.insert(0, given["tests"])
from support.orders import order_of
from tracelake_sdk.spark_settings import S3Connection
from tracelake_spark.host import _SETTINGS
from tracelake_spark.jars import S3, fetch_jars
from tracelake_spark.java import find_java
from tracelake_spark.object_stores import connection_settings, own_connection
from tracelake_spark.reading import exact_files
from tracelake_spark.session import local_session
from tracelake_spark.staging import stage

folder, root = Path(given["folder"]), given["url"].removeprefix("s3://")
jars = fetch_jars(S3, Path(given["jars"]), java=find_java().path / "bin" / "java", log=lambda said: None, fetching=lambda what: None)
connection = S3Connection(endpoint=given["endpoint"], region="us-east-1", allow_http=True, timeout_seconds=30)
spark = local_session("stores", memory="600m", **connection_settings(connection), **_SETTINGS, **{"spark.jars": ",".join(map(str, jars))})
spark.sparkContext.setLogLevel("FATAL")

def order(name):
    (folder / name).mkdir(exist_ok=True)
    made = order_of(folder / name, "sql", {}).model_copy(update={"credentials": given["profiles"][name]})
    return made.model_copy(update={"outputs": [made.outputs[0].model_copy(update={"staging": f"s3a://{root}/{name}"})]})

def counted(session, uri):
    try:
        return exact_files(session, [uri]).schema("id BIGINT").parquet(uri).count()
    except Exception as error:
        return "AccessDenied" if "AccessDenied" in str(error) or "Forbidden" in str(error) else f"{type(error).__name__}: {error}"

said = {}
one, two = spark.newSession(), spark.newSession()
with own_connection(one, order("one")) as first, own_connection(two, order("two")) as second:
    staged = stage(one.range(1000), first.outputs[0])
    file = f"{first.outputs[0].staging}/{staged.files[0]}"
    said["its own"] = counted(one, file)
    said["of another, side by side"] = counted(two, f"{second.outputs[0].staging.removesuffix('/two')}/one/{staged.files[0]}")
    try:
        stage(two.range(3), second.outputs[0].model_copy(update={"staging": second.outputs[0].staging.removesuffix("/two") + "/one"}))
    except Exception as error:
        said["written for another"] = "AccessDenied" in str(error)
# Credentials that expire are read again: here those of the first task take the place of the second's.
held = Path(given["profiles"]["two"]).with_name("credentials.json")
early = json.loads(held.read_text()) | {"Expiration": (datetime.now(UTC) + timedelta(seconds=20)).strftime("%Y-%m-%dT%H:%M:%SZ")}
held.write_text(json.dumps(early))
with own_connection(two, order("two")) as second:
    other = f"{second.outputs[0].staging.removesuffix('/two')}/one/{staged.files[0]}"
    said["before"] = counted(two, other)
    held.write_text(Path(given["profiles"]["one"]).with_name("credentials.json").read_text())
    deadline = time.monotonic() + 60
    while (seen := counted(two, other)) == "AccessDenied" and time.monotonic() < deadline:
        time.sleep(1)
    said["after"] = seen
spark.stop()
print(json.dumps(said))
"""


@pytest.mark.proves("T3.4")
def test_tasks_side_by_side_reach_their_own_files_alone_and_credentials_are_read_again(s3_server: S3Server, tmp_path: Path):
    from tracelake.storage.operator_credentials import NarrowedByRole  # noqa: PLC0415  # of the server, which issues them
    from tracelake.storage.sts import Credentials, Prefixes, StsEndpoint  # noqa: PLC0415
    from tracelake.worker.spark.attempt_credentials import AttemptCredentials  # noqa: PLC0415

    url = s3_server.fresh_url()
    source = NarrowedByRole(StsEndpoint(s3_server.endpoint, "us-east-1", 30), Credentials(s3_server.access_key_id, s3_server.secret_access_key), s3_server.role)
    profiles: dict[str, str | None] = {}
    for name in ("one", "two"):
        (tmp_path / f"credentials-{name}").mkdir()
        prefixes = Prefixes(write=(f"{url.removeprefix('s3://')}/{name}",))
        profiles[name] = AttemptCredentials(source, name, prefixes, tmp_path / f"credentials-{name}").profile
    given = {
        "tests": str(Path(__file__).parents[2] / "tests"), "folder": str(tmp_path), "url": url, "jars": str(SPARK_JARS),
        "endpoint": s3_server.endpoint, "profiles": profiles,
    }  # fmt: skip
    said = subprocess.run([sys.executable, "-c", PROGRAM, json.dumps(given)], capture_output=True, text=True, check=False, timeout=400)
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout) == {
        "its own": 1000, "of another, side by side": "AccessDenied", "written for another": True, "before": "AccessDenied", "after": 1000,
    }  # fmt: skip
