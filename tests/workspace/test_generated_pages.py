"""The pages of commands, errors and settings are written from the code, and a stale one is an error."""

from pathlib import Path
from types import ModuleType

import pytest

from tools import cli_reference, error_table, kinds_page, settings_page
from tracelake.settings import Settings
from tracelake_sdk.errors import TracelakeError


@pytest.mark.parametrize("tool", [cli_reference, error_table, kinds_page, settings_page])
def test_a_stale_page_is_an_error_and_is_not_written_by_the_check(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / tool.PAGE
    page.parent.mkdir(parents=True)
    assert tool.main(["--check"], root=tmp_path) == 1
    assert not page.exists()
    assert tool.main([], root=tmp_path) == 0
    assert tool.main(["--check"], root=tmp_path) == 0
    page.write_text(page.read_text() + "more\n")
    assert tool.main(["--check"], root=tmp_path) == 1
    assert capsys.readouterr().err == f"{tool.PAGE} is stale: run `make docs` and commit it\n" * 2


def test_every_command_and_every_error_is_listed() -> None:
    listed = cli_reference.page()
    for command in ("up", "demo", "doctor", "deploy", "run", "status", "task list", "task show", "task cancel", "events", "log", "pause", "resume", "version"):
        assert f"\n## tracelake {command}\n" in listed
    for code, kind in TracelakeError.registered.items():
        assert f"| `{code}` | {kind.status} | {kind.__name__} |" in error_table.page()


def test_every_setting_is_listed_with_its_meaning() -> None:
    listed = settings_page.page()
    assert "| `api.body_seconds` | `120` | Seconds in which the body of a request must have arrived;" in listed
    assert "| `access.issuers[].audience` |" in listed
    assert [name for name in Settings.model_fields if f"\n## {name}\n" not in listed and f"| `{name}` |" not in listed] == []


def test_the_page_of_commands_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    wide = cli_reference.page()
    monkeypatch.setenv("COLUMNS", "30")
    assert cli_reference.page() == wide
