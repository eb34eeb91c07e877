"""What tests need and do not find in `.venv`: fetched once, kept in `.tools/readers`, and asked for again never.

What cannot be fetched is an error that says so: a reader that was not asked has not agreed, a broker that did not run proves nothing.
"""

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark

from tracelake_spark.jars import trust
from tracelake_spark.java import find_java

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = _ROOT / ".tools" / "readers"
SPARK_JARS = _ROOT / ".tools" / "jars"  # as `spark.jars_folder`: fetched by the first test that needs them
_LONGEST = 600  # seconds to fetch one of them


class NotFetched(Exception):
    """What a test needs is not here and cannot be brought; nothing is skipped in silence."""


def kept(name: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """The folder that this recipe made, now or on an earlier run; whole or absent, however many processes ask at once."""
    folder = _KEPT / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / f"{name}.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        finished = folder / ".finished"
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            finished.touch()
    return folder


def jars(name: str, module: str, wanted: str) -> list[Path]:
    """The jars of an Ivy module and all that it needs, by the Ivy that PySpark carries; one that matches `wanted` must be among them."""

    def fetch(folder: Path) -> None:
        ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
        (folder / "ivy.xml").write_text(module)
        java = find_java().path / "bin" / "java"
        command = [java, *trust(folder), "-jar", ivy, "-ivy", folder / "ivy.xml", "-confs", "default", "-types", "jar", "bundle", "-cache", folder / "cache",
                   "-retrieve", folder / "[artifact]-[revision].[ext]"]
        with contextlib.suppress(subprocess.CalledProcessError):  # what is not there afterwards says it better
            run(command, folder)
        shutil.rmtree(folder / "cache", ignore_errors=True)
        if not any(folder.glob(wanted)):
            raise NotFetched(f"the jars of {name} were not fetched: Ivy did not reach its repository; see {folder / 'log'}")

    return sorted(kept(name, module, fetch).glob("*.jar"))


def run(command: list[str | Path], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    with (folder / "log").open("a") as log:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_LONGEST, env=environment)
