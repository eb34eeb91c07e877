"""The names that people import from the SDK itself."""

import subprocess
import sys

import pytest

import tracelake_sdk
from tracelake_sdk.errors import TracelakeError


def test_every_exported_name_is_there_and_is_the_one_of_its_module() -> None:
    for name in tracelake_sdk.__all__:
        assert getattr(tracelake_sdk, name).__name__ == name
    assert set(tracelake_sdk.__all__) <= set(dir(tracelake_sdk))
    assert tracelake_sdk.TracelakeError is TracelakeError


def test_an_unknown_name_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = tracelake_sdk.Clinet  # pyright: ignore[reportAttributeAccessIssue]


def test_importing_the_front_door_imports_nothing_behind_it() -> None:
    program = "import sys, tracelake_sdk; print(sorted(name for name in sys.modules if name.startswith(('tracelake_sdk.', 'pydantic', 'httpx2'))))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_error_is_known_as_soon_as_one_is() -> None:
    program = "from tracelake_sdk.errors import TracelakeError; print(len(TracelakeError.registered), type(TracelakeError.of({'code': 'kind_unknown'})).__name__)"
    number, name = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert (int(number) > 100, name) == (True, "KindUnknown")
