"""`make setup` does what is needed, does nothing when nothing changed, and says what to do when it cannot."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.environment import uv_environment

ROOT = Path(__file__).resolve().parents[2]

# Stands for uv: notes what it is asked, and makes an environment without fetching anything.
UV = """#!/bin/sh
if [ "$1" = --version ]; then echo "uv ${{FAKE_UV_VERSION:-99.0.1}}"; exit 0; fi
echo "$@" >> {log}
if [ -n "$FAKE_UV_FAILS" ] && [ "$1 $2" = "$FAKE_UV_FAILS" ]; then echo "no such package" >&2; exit 2; fi
echo "warning: noise" >&2
if [ "$1" = venv ]; then shift 4; exec {python} -m venv --without-pip --clear "$1"; fi
"""


class Checkout:
    """A copy of the workspace's outline, with a uv that fetches nothing."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "checkout"
        self.log = folder / "uv.log"
        (self.root / "tools").mkdir(parents=True)
        for name in ("requirements.lock", "pyproject.toml", "Makefile", "tools/environment.py", "tools/find-python", "tools/build.lock"):
            shutil.copy(ROOT / name, self.root / name)
        for project in ("sdk", "server", "spark"):
            (self.root / project).mkdir()
            shutil.copy(ROOT / project / "pyproject.toml", self.root / project)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        (self.bin / "uv").write_text(UV.format(log=self.log, python=self.python))
        (self.bin / "uv").chmod(0o755)
        (self.bin / "python3").symlink_to(self.python)

    def setup(self, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        path = f"{self.bin}:/usr/bin:/bin"
        return subprocess.run(
            ["make", "setup"], cwd=self.root, env={"PATH": path, "HOME": str(self.root), **(environment or {})},
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )

    def asked(self) -> list[str]:
        """What uv was asked, by its first two words or its first."""
        return [line.split(" --")[0] for line in self.log.read_text().splitlines()]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_first_setup_installs_from_the_locks_by_hash_and_keeps_stderr_clean(checkout: Checkout) -> None:
    done = checkout.setup()
    assert (done.returncode, done.stderr) == (0, "")
    assert checkout.asked() == ["venv", "pip sync", "pip install"]
    _venv, sync, install = checkout.log.read_text().splitlines()
    assert "--require-hashes" in sync
    assert "--require-build-hashes" in sync
    assert "--require-build-hashes" in install
    assert "--no-deps" in install


def test_a_second_setup_does_nothing_and_says_nothing(checkout: Checkout) -> None:
    checkout.setup()
    done = checkout.setup()
    assert (done.returncode, done.stdout, done.stderr, checkout.asked()) == (0, "", "", [])


@pytest.mark.parametrize("name", ["requirements.lock", "tools/build.lock", "pyproject.toml", "server/pyproject.toml"])
def test_a_changed_lock_or_project_is_installed_into_the_same_environment(checkout: Checkout, name: str) -> None:
    checkout.setup()
    with (checkout.root / name).open("a") as file:
        file.write("\n# changed\n")
    checkout.setup()
    assert checkout.asked() == ["pip sync", "pip install"]


def test_a_missing_environment_is_recreated(checkout: Checkout) -> None:
    checkout.setup()
    shutil.rmtree(checkout.root / ".venv")
    checkout.setup()
    assert checkout.asked() == ["venv", "pip sync", "pip install"]


def test_an_environment_without_its_python_is_recreated(checkout: Checkout) -> None:
    checkout.setup()
    python = checkout.root / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python3")
    checkout.setup()
    assert checkout.asked() == ["venv", "pip sync", "pip install"]


def test_an_environment_of_another_python_is_recreated(checkout: Checkout) -> None:
    checkout.setup()
    stamp = checkout.root / ".venv/.setup.json"
    stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {"version": "3.99"}))
    checkout.setup()
    assert checkout.asked() == ["pip sync", "pip install"]  # the stamp is wrong, so the interpreter itself is checked
    other = Path("/usr/bin/python3")
    if not other.exists() or other.resolve() == checkout.python or subprocess.run([other, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False).returncode:
        pytest.skip("this machine has one Python only")
    checkout.setup({"PYTHON": str(other)})
    assert checkout.asked() == ["venv", "pip sync", "pip install"]


def test_a_moved_checkout_gets_a_new_environment(checkout: Checkout) -> None:
    checkout.setup()
    moved = checkout.root.with_name("moved")
    checkout.root.rename(moved)
    checkout.root = moved
    checkout.setup()
    assert checkout.asked() == ["venv", "pip sync", "pip install"]


def test_a_setup_that_failed_is_not_taken_for_done(checkout: Checkout) -> None:
    failed = checkout.setup({"FAKE_UV_FAILS": "pip install"})
    assert failed.returncode != 0
    assert "no such package" in failed.stderr
    assert checkout.setup().returncode == 0
    assert checkout.asked() == ["pip sync", "pip install"]


def test_a_lock_that_failed_halfway_and_was_taken_back_is_installed_again(checkout: Checkout) -> None:
    checkout.setup()
    lock = checkout.root / "requirements.lock"
    before = lock.read_text()
    lock.write_text(before + "\n# changed\n")
    assert checkout.setup({"FAKE_UV_FAILS": "pip install"}).returncode != 0
    lock.write_text(before)
    checkout.setup()
    assert checkout.asked() == ["pip sync", "pip install"]


def test_a_uv_that_is_too_old_is_not_used(checkout: Checkout) -> None:
    # Nothing can be fetched either, so that the attempt to install a newer one is what fails.
    done = checkout.setup({"FAKE_UV_VERSION": "0.4.30", "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull})
    assert done.returncode != 0
    assert "uv from PyPI" in done.stdout
    assert checkout.asked() == []


def test_without_a_python_that_is_new_enough_the_message_says_what_is_needed(tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "tools/find-python"], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr
    assert "PYTHON=" in done.stderr


def test_pip_mirrors_are_used_if_uv_has_none() -> None:
    seen = uv_environment({"PIP_INDEX_URL": "https://mirror/simple", "PIP_FIND_LINKS": "/a /b", "VIRTUAL_ENV": "/elsewhere"})
    assert (seen["UV_DEFAULT_INDEX"], seen["UV_FIND_LINKS"]) == ("https://mirror/simple", "/a,/b")
    assert "VIRTUAL_ENV" not in seen
    assert uv_environment({"PIP_INDEX_URL": "https://mirror", "UV_DEFAULT_INDEX": "https://own"})["UV_DEFAULT_INDEX"] == "https://own"
