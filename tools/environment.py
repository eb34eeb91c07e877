"""Makes `.venv` from the locks with nothing but a Python of 3.11 or newer; `make setup` runs it.

Everything that is fetched is checked by hash. Nothing is done when the locks, the projects and the interpreter are as they were.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".setup.json"
TOOLS = ROOT / ".tools"
LOCK = ROOT / "requirements.lock"
BUILD_LOCK = ROOT / "tools" / "build.lock"
PROJECTS = ("sdk", "server", "spark")
OLDEST_UV = (0, 13)

# uv does not read pip's settings; someone who has a mirror has configured pip for it.
PIP_TO_UV = {
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_CERT": "SSL_CERT_FILE",
}


class SetupFailed(Exception):
    """The message is all that the person at the terminal needs."""


def main() -> int:
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "setup.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # two `make` at once: the second finds everything done
        try:
            prepare()
        except SetupFailed as failure:
            print(f"setup: {failure}", file=sys.stderr)
            return 1
    return 0


def prepare() -> None:
    """Brings `.venv` to what the locks say."""
    wanted = state()
    usable = venv_is_usable()
    if usable and read_stamp() == wanted:
        return
    started = time.monotonic()
    uv = find_uv() or install_uv()
    environment = uv_environment(os.environ)
    if not usable:
        report(f"a new .venv with Python {sys.version.split()[0]}")
        run(uv, "venv", "--clear", "--python", str(base_python()), str(VENV), env=environment)
    STAMP.unlink(missing_ok=True)  # first: an interrupted setup must not look like a finished one
    packages = sum(1 for line in LOCK.read_text().splitlines() if line[:1].isalnum())
    report(f"{packages} packages from requirements.lock (the first time this fetches about 700 MB)")
    into = ("--python", str(VENV / "bin" / "python"), "--build-constraints", str(BUILD_LOCK), "--require-build-hashes")
    run(uv, "pip", "sync", *into, "--require-hashes", str(LOCK), env=environment)
    editable = [word for project in PROJECTS for word in ("--editable", str(ROOT / project))]
    run(uv, "pip", "install", *into, "--no-deps", *editable, env=environment)
    STAMP.write_text(json.dumps(wanted))
    report(f"ready in {time.monotonic() - started:.0f} s")


def state() -> dict[str, Any]:
    """What the environment depends on; a folder that was moved counts, since scripts name their interpreter by path."""
    inputs = [LOCK, BUILD_LOCK, ROOT / "pyproject.toml", *(ROOT / project / "pyproject.toml" for project in PROJECTS)]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in inputs)).hexdigest()
    return {"inputs": digest, "root": str(ROOT), "python": str(base_python()), "version": sys.version}


def read_stamp() -> dict[str, Any] | None:
    try:
        return json.loads(STAMP.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def base_python() -> Path:
    """The interpreter itself, not a shim and not the virtual environment that may be active."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


def venv_is_usable() -> bool:
    """Whether `.venv` runs, with this very interpreter, and has not been moved."""
    stamp = read_stamp()
    if stamp is not None and stamp.get("root") != str(ROOT):
        return False
    question = "import json, os, sys; print(json.dumps([os.path.realpath(sys._base_executable), sys.version, os.path.realpath(sys.prefix)]))"
    try:
        answer = subprocess.run([VENV / "bin" / "python", "-c", question], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return False
    return json.loads(answer.stdout) == [str(base_python()), sys.version, str(VENV)]


def find_uv() -> str | None:
    """The uv on the path, or the one that was installed here before, if it is new enough."""
    for candidate in (shutil.which("uv"), str(TOOLS / "uv" / "bin" / "uv")):
        if candidate is None or not os.access(candidate, os.X_OK):
            continue
        answer = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        version = re.match(r"uv (\d+)\.(\d+)", answer.stdout)
        if answer.returncode == 0 and version and (int(version[1]), int(version[2])) >= OLDEST_UV:
            return candidate
    return None


def install_uv() -> str:
    """Puts uv into `.tools/uv`: with a virtual environment where Python can make one, else with the machine's pip."""
    report("uv from PyPI into .tools/uv")
    target = TOOLS / "uv"
    shutil.rmtree(target, ignore_errors=True)
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "PIP_USER": "0"}
    install = ("-m", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(BUILD_LOCK))
    python = str(base_python())
    if has_module(python, "ensurepip"):
        run(python, "-m", "venv", str(target), env=quiet)
        run(str(target / "bin" / "python"), *install, env=quiet)
    elif has_module(python, "pip"):
        run(python, *install, "--target", str(target), env=quiet)
    else:
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise SetupFailed(
            f"{python} can neither make virtual environments nor install packages. "
            f"On Debian and Ubuntu: sudo apt install {name}-venv. Elsewhere: install pip for it, or uv (https://docs.astral.sh/uv)."
        )
    return str(target / "bin" / "uv")


def has_module(python: str, name: str) -> bool:
    return subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False, stdin=subprocess.DEVNULL).returncode == 0


def uv_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The environment for uv: pip's mirrors if uv has none configured, and no other virtual environment."""
    environment = {name: value for name, value in given.items() if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH")}
    for theirs, ours in PIP_TO_UV.items():
        value = given.get(theirs)
        if value and not given.get(ours):
            environment[ours] = ",".join(value.split()) if ours == "UV_FIND_LINKS" else value
    environment["UV_PYTHON_DOWNLOADS"] = "never"
    return environment


def run(*command: str, env: Mapping[str, str]) -> None:
    """Runs a step in silence; a person at a terminal sees its progress, and a failure shows its output."""
    watched = sys.stderr.isatty()
    done = subprocess.run(
        command, env=env, cwd=ROOT, text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=None if watched else subprocess.PIPE, stderr=None if watched else subprocess.STDOUT,
    )
    if done.returncode != 0:
        output = "" if watched else f"\n{done.stdout.rstrip()}"
        raise SetupFailed(f"`{' '.join(command)}` failed with exit code {done.returncode}.{output}")


def report(what: str) -> None:
    print(f"setup: {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
