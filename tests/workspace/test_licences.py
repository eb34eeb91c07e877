"""The page of licences follows the lock, and a licence that was not reviewed fails the check."""

import pytest

from tools import licences
from tools.licences import Unclear, bringers, licence, page, read_lock

LOCK = """
anyio==4.16.0 \\
    --hash=sha256:00
    # via httpx2
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:00 \\
    --hash=sha256:01
    # via
    #   pytest
httpx2==2.16.0 \\
    --hash=sha256:00
    # via tracelake-sdk (sdk/pyproject.toml)
psycopg==3.3.8 \\
    --hash=sha256:00
    # via tracelake (server/pyproject.toml)
pytest==9.2.0 \\
    --hash=sha256:00
    # via tracelake-workspace (pyproject.toml:dev)
"""


def test_what_brings_a_package_is_followed_through_others() -> None:
    assert bringers(list(read_lock(LOCK))) == {
        "anyio": {"sdk"}, "httpx2": {"sdk"}, "psycopg": {"server"}, "pytest": {"development"}, "colorama": {"development"},
    }


def test_every_locked_package_has_a_row() -> None:
    text = page(LOCK)
    assert "| psycopg | 3.3.8 | LGPL-3.0-only | server |" in text
    assert "| colorama | 0.4.6 | BSD-3-Clause | development |" in text
    assert text.count("\n| ") == 1 + 5 + 1  # the head, its rule, and five packages


def test_a_licence_that_was_not_reviewed_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(licences.SPELLED, "somebody", "AGPL-3.0-only")
    with pytest.raises(Unclear, match=r"somebody declares the licence 'AGPL-3\.0-only'"):
        licence("somebody")
    with pytest.raises(Unclear, match="review it"):
        licence("a-package-that-is-not-installed")


def test_the_lock_names_no_registry_and_hashes_everything() -> None:
    for name in ("requirements.lock", "tools/build.lock"):
        text = (licences.ROOT / name).read_text()
        assert "://" not in text
        assert "--index-url" not in text
        entries = [line for line in text.splitlines() if line[:1].isalnum()]
        assert entries
        assert all(line.endswith("\\") for line in entries), "an entry without a hash"
