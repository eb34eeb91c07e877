"""Jars that PySpark does not include: fetched once from a Maven repository with the Ivy that PySpark includes, and kept.

A set of jars is a folder whose name derives from the requested packages; it is created atomically, even if several processes
fetch at once or one of them is killed. A machine without a network can use a folder that was copied to it.

`python -m tracelake_spark.jars FOLDER [PACKAGE…] [--s3]` prints which jars a host would use, as JSON, and fetches nothing.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4
from xml.sax.saxutils import quoteattr

from tracelake_sdk.errors import JarsMissing

_HADOOP, _AWS = "3.5.0", "2.35.4"  # those of PySpark 4.2; the AWS SDK is the one that this Hadoop is built with
_LONGEST_SECONDS = 1800

Fetching = Callable[[str], None]


@dataclass(frozen=True)
class Package:
    group: str
    artifact: str
    version: str
    without: tuple[str, str] | None = None  # group and artifact of a dependency that is not needed
    alone: bool = False                     # its dependencies are already included

    @staticmethod
    def of(coordinates: str) -> "Package":
        """Parses `group:artifact:version`."""
        found = re.fullmatch(r"([A-Za-z0-9_.-]+):([A-Za-z0-9_.-]+):([A-Za-z0-9_.-]+)", coordinates)
        if found is None:
            raise JarsMissing(f"`{coordinates}` is not a package; write Maven coordinates, `group:artifact:version`.")
        return Package(found[1], found[2], found[3])

    @property
    def jar(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


S3 = (
    Package("org.apache.hadoop", "hadoop-aws", _HADOOP, without=("software.amazon.awssdk", "bundle")),  # 686 MB, of which these three are used
    Package("software.amazon.awssdk", "s3", _AWS),
    Package("software.amazon.awssdk", "s3-transfer-manager", _AWS),
    Package("software.amazon.awssdk", "sts", _AWS),
    # Binds the committers of Hadoop to Parquet; it has no classes of Spark itself, and the newest published version works.
    Package("org.apache.spark", "spark-hadoop-cloud_2.13", "4.1.1", alone=True),
)


def find_jars(packages: Sequence[Package], folder: Path) -> list[Path] | None:
    """The jars if they were fetched before, else None."""
    if not packages:
        return []
    kept = folder / _name(packages)
    return sorted(kept.glob("*.jar")) if kept.is_dir() else None


def fetch_jars(
    packages: Sequence[Package], folder: Path, *, java: Path, log: Callable[[bytes], None], fetching: Fetching, ivy_settings: str | None = None
) -> list[Path]:
    """The jars of these packages and their dependencies, without those that PySpark has; raises JarsMissing."""
    if (found := find_jars(packages, folder)) is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # released when this process ends, for any reason
            if (found := find_jars(packages, folder)) is not None:
                return found
            for left in folder.glob(".draft-*"):
                shutil.rmtree(left)
            fetching(f"fetching {', '.join(package.jar for package in packages)} and dependencies into {folder}; this happens once")
            draft = folder / f".draft-{uuid4().hex}"
            (draft / "jars").mkdir(parents=True)
            _retrieve(packages, draft, java, log, ivy_settings)
            (draft / "jars").rename(folder / _name(packages))
            shutil.rmtree(draft)
    except OSError as error:
        raise JarsMissing(f"The folder of jars, {folder}, cannot be written: {error.strerror}; free some space, or set `spark.jars_folder` to another folder.") from None
    return find_jars(packages, folder) or []


def _name(packages: Sequence[Package]) -> str:
    return hashlib.sha256(_module(packages).encode()).hexdigest()[:16]


def _retrieve(packages: Sequence[Package], draft: Path, java: Path, log: Callable[[bytes], None], ivy_settings: str | None) -> None:
    (draft / "ivy.xml").write_text(_module(packages))
    ours = _pyspark_jars()
    ivy = next(jar for name, jar in ours.items() if name == "ivy")
    command = [
        str(java), *trust(draft), "-jar", str(ivy), *(["-settings", ivy_settings] if ivy_settings else []), "-ivy", str(draft / "ivy.xml"), "-confs", "default",
        "-types", "jar", "bundle", "-cache", str(draft / "cache"), "-retrieve", str(draft / "jars" / "[artifact]-[revision].[ext]"),
    ]  # fmt: skip
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=_LONGEST_SECONDS)
    except subprocess.TimeoutExpired as slow:
        log(slow.output or b"")
        raise JarsMissing(f"Fetching jars took longer than {_LONGEST_SECONDS} seconds; try again, or copy them into `spark.jars_folder`.") from None
    log(result.stdout)
    missing = [package.jar for package in packages if not (draft / "jars" / package.jar).is_file()]
    if missing or result.returncode != 0:
        raise JarsMissing(f"{JarsMissing.__doc__} Ivy ended with exit code {result.returncode}{' without ' + ', '.join(missing) if missing else ''}; its output is in the host's log.")
    for jar in (draft / "jars").glob("*.jar"):
        if _artifact(jar) in ours:  # Spark's own version comes first anyway; avoid two versions of one library
            jar.unlink()


def _module(packages: Sequence[Package]) -> str:
    return "\n".join(['<ivy-module version="2.0">', '<info organisation="tracelake" module="jars"/>', "<dependencies>", *map(_dependency, packages), "</dependencies>", "</ivy-module>"])


def _dependency(package: Package) -> str:
    without = f"<exclude org={quoteattr(package.without[0])} module={quoteattr(package.without[1])}/>" if package.without else ""
    names = f"org={quoteattr(package.group)} name={quoteattr(package.artifact)} rev={quoteattr(package.version)}"
    return f'<dependency {names} conf="default" transitive="{str(not package.alone).lower()}">{without}</dependency>'


def _pyspark_jars() -> dict[str, Path]:
    import pyspark  # noqa: PLC0415

    return {_artifact(jar): jar for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}


def _artifact(jar: Path) -> str:
    """`netty-codec` of `netty-codec-4.2.13.Final.jar`."""
    return re.split(r"-[0-9]", jar.name, maxsplit=1)[0]


def trust(folder: Path) -> list[str]:
    """Java has its own list of trusted authorities; if the machine sets another one for every program (`SSL_CERT_FILE`), Java gets that."""
    bundle = os.environ.get("SSL_CERT_FILE")
    if not bundle:
        return []
    from cryptography import x509  # noqa: PLC0415  # only on machines with their own authorities
    from cryptography.hazmat.primitives.serialization import NoEncryption  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore  # noqa: PLC0415

    with warnings.catch_warnings(action="ignore"):  # some old authorities have odd serial numbers
        certificates = [PKCS12Certificate(found, None) for found in x509.load_pem_x509_certificates(Path(bundle).read_bytes())]
    store = folder / "authorities.p12"
    store.write_bytes(serialize_java_truststore(certificates, NoEncryption()))
    return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=PKCS12"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tracelake_spark.jars", description="Prints the additional jars that Spark uses; null if they are not fetched yet.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("package", nargs="*")
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    try:
        found = find_jars([*(S3 if given.s3 else ()), *map(Package.of, given.package)], given.folder)
    except JarsMissing as missing:
        sys.stderr.write(f"{missing.detail}\n")
        return 1
    jars = None if found is None else [jar.name for jar in found]
    sys.stdout.write(json.dumps({"spark": version("pyspark"), "folder": str(given.folder), "jars": jars}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
