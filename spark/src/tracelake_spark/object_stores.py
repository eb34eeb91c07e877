"""Object stores: how Hadoop connects to one, and how each task uses its own credentials in a host that tasks share.

Hadoop keeps one connection per scheme and bucket, with the credentials of its first user. So each task has its
own scheme, which cannot be guessed, and its connection is closed when the task ends.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

from tracelake_sdk.spark_settings import S3Connection
from tracelake_sdk.tasks.operator_files import CREDENTIALS_PROFILE, Order
from tracelake_spark.jvm import java_class, session_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMES = ("s3a://", "s3://")
_AUTH = "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
_FIXED = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_FIXED_FOREVER = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_OF_THE_MACHINE = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def connection_settings(connection: S3Connection) -> dict[str, str]:
    """The settings that all tasks of a host share."""
    hadoop = {
        "fs.s3a.endpoint.region": connection.region,
        "fs.s3a.connection.ssl.enabled": str(not connection.allow_http).lower(),
        "fs.s3a.connection.timeout": f"{connection.timeout_seconds * 1000:.0f}ms",
        # A file is written once and under a unique name: Hadoop need not check whether it, or a parent folder, exists.
        # With limited credentials it may not check, either.
        "fs.s3a.performance.flags": "create,mkdir,delete",
        # Parts are buffered in memory, few and small: Hadoop's buffering on disk does not work without its checksum files.
        "fs.s3a.fast.upload.buffer": "bytebuffer",
        "fs.s3a.multipart.size": "16M",
        "fs.s3a.fast.upload.active.blocks": "2",
        # Uploads become objects at their final path when their job commits: no copy, and nothing of a failed task.
        "fs.s3a.committer.name": "magic",
        "fs.s3a.committer.magic.enabled": "true",
    }
    if connection.endpoint:
        hadoop |= {"fs.s3a.endpoint": connection.endpoint, "fs.s3a.path.style.access": "true"}
    return {f"spark.hadoop.{name}": value for name, value in hadoop.items()}


@contextmanager
def own_connection(spark: "SparkSession", order: Order) -> Generator[Order]:
    """The order with every URI of an object store under the task's own scheme, as long as the task runs."""
    uris = [*(uri for given in order.inputs for uri in given.files), *(output.staging for output in order.outputs), *order.locations.values()]
    buckets = {urlsplit(uri).netloc for uri in uris if uri.startswith(_SCHEMES)}
    if not buckets:
        yield order
        return
    scheme = f"s3-{uuid4().hex}"
    for name, value in _task_settings(spark, scheme, order).items():
        spark.conf.set(name, value)
    try:
        yield _under(scheme, order)
    finally:
        _close(spark, scheme, buckets)


def _task_settings(spark: "SparkSession", scheme: str, order: Order) -> dict[str, str]:
    return {
        f"fs.{scheme}.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"mapreduce.outputcommitter.factory.scheme.{scheme}": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
        "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    } | _credentials(spark, order)


def _credentials(spark: "SparkSession", order: Order) -> dict[str, str]:
    if order.credentials is None:
        return {"fs.s3a.aws.credentials.provider": _OF_THE_MACHINE}
    if str(spark.sparkContext.master).startswith("local"):
        # Read again when they expire; the worker has renewed them by then.
        return {"fs.s3a.aws.credentials.provider": _AUTH, "fs.s3a.auth.profile.file": order.credentials, "fs.s3a.auth.profile.name": CREDENTIALS_PROFILE}
    # Executors of a cluster do not have this file: they get the current credentials.
    held = json.loads(Path(order.credentials).with_name("credentials.json").read_bytes())
    keys = {"fs.s3a.access.key": held["AccessKeyId"], "fs.s3a.secret.key": held["SecretAccessKey"]}
    if token := held.get("SessionToken"):
        return keys | {"fs.s3a.session.token": token, "fs.s3a.aws.credentials.provider": _FIXED}
    return keys | {"fs.s3a.aws.credentials.provider": _FIXED_FOREVER}


def _under(scheme: str, order: Order) -> Order:
    def moved(uri: str) -> str:
        return f"{scheme}://{uri.partition('://')[2]}" if uri.startswith(_SCHEMES) else uri

    return order.model_copy(
        update={
            "locations": {name: moved(url) for name, url in order.locations.items()},
            "inputs": [given.model_copy(update={"files": [moved(uri) for uri in given.files]}) for given in order.inputs],
            "outputs": [output.model_copy(update={"staging": moved(output.staging)}) for output in order.outputs],
        }
    )


def _close(spark: "SparkSession", scheme: str, buckets: set[str]) -> None:
    conf, files, uri = session_state(spark).newHadoopConf(), java_class(spark, "org.apache.hadoop.fs.FileSystem"), java_class(spark, "java.net.URI")
    for bucket in buckets:
        files.get(uri.create(f"{scheme}://{bucket}/"), conf).close()
