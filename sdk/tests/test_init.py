"""`tracelake init`: every file or none, nothing written over, and commands that work where they are pasted."""

import json
from pathlib import Path

import pytest

from tracelake_sdk.cli import invocation
from tracelake_sdk.cli.project.making import init, project_files
from tracelake_sdk.errors import ProjectRefused

FILES = ["README.md", "dag.yaml", "landing/sales/2026-01-01.csv", "landing/sales/2026-01-02.csv", "tracelake.yaml"]


def made(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_a_project_has_settings_that_name_its_own_landing_folder(tmp_path: Path) -> None:
    folder = tmp_path / 'a "new" lake'
    init(str(folder), dry_run=False, as_json=False)
    assert made(folder) == FILES
    last = (folder / "tracelake.yaml").read_text().splitlines()[-1]
    assert json.loads(last.removeprefix("  landing: ")) == str(folder / "landing")
    assert "${landing}/sales" in (folder / "dag.yaml").read_text()


def test_a_dry_run_names_the_files_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(str(tmp_path / "lake"), dry_run=True, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"dry_run": True, "folder": str(tmp_path / "lake"), "files": FILES}
    init(str(tmp_path / "lake"), dry_run=True, as_json=False)
    assert capsys.readouterr().out.endswith("Nothing was changed.\n")
    assert not (tmp_path / "lake").exists()


def test_one_file_that_is_there_already_refuses_the_whole_project(tmp_path: Path) -> None:
    (tmp_path / "dag.yaml").write_text("mine")
    for dry_run in (True, False):
        with pytest.raises(ProjectRefused, match=r"has dag.yaml already, and nothing is written over it"):
            init(str(tmp_path), dry_run=dry_run, as_json=False)
    assert made(tmp_path) == ["dag.yaml"]
    assert (tmp_path / "dag.yaml").read_text() == "mine"


def test_other_files_of_a_folder_do_not_mind(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    init(str(tmp_path), dry_run=False, as_json=False)
    assert made(tmp_path) == sorted([*FILES, "notes.txt"])


def test_a_place_that_cannot_be_a_folder_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProjectRefused, match="is a file; name a folder"):
        init(str(tmp_path / "file"), dry_run=False, as_json=False)
    with pytest.raises(ProjectRefused, match="Not a directory; name a folder that you may write to"):
        init(str(tmp_path / "file" / "below"), dry_run=False, as_json=False)


def test_its_commands_work_in_the_folder_that_they_lead_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tracelake").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["bin/tracelake"])
    monkeypatch.setenv("TRACELAKE_HOME", "home")
    monkeypatch.setenv("PATH", "/nowhere")
    assert invocation.again("up") == "TRACELAKE_HOME=home bin/tracelake up"
    init("lake", dry_run=False, as_json=False)
    said = capsys.readouterr().out
    assert f"  cd {tmp_path}/lake\n  TRACELAKE_HOME={tmp_path}/home {tmp_path}/bin/tracelake up\n" in said
    monkeypatch.chdir(tmp_path / "lake")
    for file in project_files(tmp_path / "lake"):
        file.unlink()
    capsys.readouterr()
    init(".", dry_run=False, as_json=False)
    assert "cd " not in capsys.readouterr().out
