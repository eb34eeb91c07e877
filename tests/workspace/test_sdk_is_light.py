"""The SDK works where nothing else of Tracelake is installed."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.sdk_packages import ROOT, closure, files_of

IMPORT_EVERYTHING = """
import importlib, pkgutil, sys
import tracelake_sdk
# Modules of extras: the command line, and object stores.
extras = ("tracelake_sdk.cli", "tracelake_sdk.records.repository.embedded.object_folders")
names = [found.name for found in pkgutil.walk_packages(tracelake_sdk.__path__, "tracelake_sdk.") if not found.name.startswith(extras)]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.proves("M4.3")
def test_the_sdk_brings_few_packages_and_none_of_a_server() -> None:
    brought = closure("tracelake-sdk")
    assert len(brought) == 13, sorted(brought)
    assert not brought & {"fastapi", "psycopg", "pyspark", "duckdb", "typer", "rich", "pyyaml", "numpy", "pandas"}


@pytest.mark.proves("M4.3")
def test_every_module_of_the_sdk_imports_with_only_its_own_packages(tmp_path: Path) -> None:
    files_of(closure("tracelake-sdk") - {"tracelake-sdk"}, tmp_path)
    path = f"import sys; sys.path[:0] = [{str(ROOT / 'sdk/src')!r}, {str(tmp_path)!r}]\n"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", path + IMPORT_EVERYTHING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) >= 5


IMPORTS = """
import sys
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
import httpx2; httpx2.Client
before = set(sys.modules)
import tracelake_sdk.client, tracelake_sdk.records.emitter, tracelake_sdk.records.builders, tracelake_sdk.records.view
import tracelake_sdk.records.repository.remote, tracelake_sdk.records.repository.embedded
from tracelake_sdk.deferred import Deferred

def models(kind):
    for below in kind.__subclasses__():
        yield below
        yield from models(below)

print(len(before), len(set(sys.modules) - before), sum(model.__pydantic_complete__ for model in models(Deferred)), len(list(models(Deferred))))
"""


@pytest.mark.proves("M4.3")
def test_importing_the_sdk_costs_little_more_than_its_dependencies() -> None:
    """By counting, since time is not the same everywhere: what costs is modules, and models that are built before anyone needs them."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    before, more, built, models = (int(number) for number in done.stdout.split())
    assert more < before / 2
    assert models > 100
    assert built <= 1
