"""Jars by the real Ivy, from a Maven repository that is a folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tracelake_sdk.errors import JarsMissing
from tracelake_spark.jars import Package, fetch_jars, find_jars
from tracelake_spark.java import find_java

PACKAGE = Package("org.example", "small", "1.0")
FETCH = """
import sys
from pathlib import Path
from tracelake_spark.jars import Package, fetch_jars
from tracelake_spark.java import find_java
messages = []
found = fetch_jars([Package("org.example", "small", "1.0")], Path(sys.argv[1]), java=find_java().path / "bin" / "java", log=lambda said: None,
                   fetching=messages.append, ivy_settings=sys.argv[2])
print(len(messages), *[jar.name for jar in found])
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a package that needs two others, of which PySpark has one."""
    needed = "".join(f"<dependency><groupId>org.example</groupId><artifactId>{name}</artifactId><version>2.0</version></dependency>" for name in ("needed", "guava"))
    for name, version, needs in (("small", "1.0", needed), ("needed", "2.0", ""), ("guava", "2.0", "")):
        folder = tmp_path / "maven" / "org" / "example" / name / version
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / f"{name}-{version}.jar", "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        (folder / f"{name}-{version}.pom").write_text(
            f"<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>{name}</artifactId>"
            f"<version>{version}</version><dependencies>{needs}</dependencies></project>"
        )
    return tmp_path / "maven"


def settings_of(repository: Path) -> str:
    file = repository.parent / "ivysettings.xml"
    pattern = f"{repository}/[organisation]/[module]/[revision]/[module]-[revision]"
    file.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers><filesystem name="folder" m2compatible="true">'
        f'<ivy pattern="{pattern}.pom"/><artifact pattern="{pattern}.[ext]"/></filesystem></resolvers></ivysettings>'
    )
    return str(file)


def test_jars_are_fetched_once_by_however_many_processes_ask_at_once(repository: Path, tmp_path: Path):
    folder, settings = tmp_path / "jars", settings_of(repository)
    (folder / ".draft-of-one-that-was-killed").mkdir(parents=True)
    asking = [subprocess.Popen([sys.executable, "-c", FETCH, str(folder), settings], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=240)[0].split() for process in asking)
    assert said == [["0", "needed-2.0.jar", "small-1.0.jar"], ["1", "needed-2.0.jar", "small-1.0.jar"]]
    assert [path.name for path in folder.iterdir() if path.name.startswith(".draft")] == []
    # Without any repository: what was fetched is enough.
    found = fetch_jars([PACKAGE], folder, java=Path("/nowhere"), log=lambda said: None, fetching=pytest.fail)
    assert [jar.name for jar in found] == ["needed-2.0.jar", "small-1.0.jar"]


def test_missing_packages_are_an_error_with_a_code_and_are_fetched_again(repository: Path, tmp_path: Path):
    folder, settings, log = tmp_path / "jars", settings_of(repository), list[bytes]()
    java, wanted = find_java().path / "bin" / "java", Package("org.example", "absent", "1.0")
    for _ in range(2):
        with pytest.raises(JarsMissing, match=r"cannot be fetched.*without absent-1\.0\.jar"):
            fetch_jars([wanted], folder, java=java, log=log.append, fetching=lambda what: None, ivy_settings=settings)
        assert find_jars([wanted], folder) is None
    assert b"UNRESOLVED" in log[0]


def test_coordinates_that_are_none_are_refused():
    with pytest.raises(JarsMissing, match="group:artifact:version"):
        Package.of("just-a-name")
