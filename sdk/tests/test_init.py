"""`tracelake init`: every file or none, nothing written over, and commands that work where they are pasted."""

import json
from pathlib import Path

import pytest
import yaml
from jsonschema_rs import validator_for

from tracelake_sdk.cli import invocation
from tracelake_sdk.cli.project.making import init, location_name, project_files
from tracelake_sdk.dags import NAME
from tracelake_sdk.errors import ProjectRefused

FILES = ["README.md", "dag.schema.json", "dag.yaml", "landing/sales/2026-01-01.csv", "landing/sales/2026-01-02.csv", "tracelake.yaml"]


def made(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_a_project_has_a_location_named_after_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / 'a "new" Lake'
    init(str(folder), dry_run=False, as_json=False)
    assert made(folder) == FILES
    assert (folder / "tracelake.yaml").read_text().endswith("\nlocations:\n  a_new_lake: {url: ./landing, roles: [writer]}\n")
    assert "path: a_new_lake/sales " in (folder / "dag.yaml").read_text()
    assert not any("LOCATION" in (folder / file).read_text() for file in FILES)


def test_an_editor_finds_the_schema_of_a_dag_file_beside_it(tmp_path: Path) -> None:
    init(str(tmp_path), dry_run=False, as_json=False)
    assert (tmp_path / "dag.yaml").read_text().startswith("# yaml-language-server: $schema=dag.schema.json\n")
    schema = validator_for(json.loads((tmp_path / "dag.schema.json").read_text()))
    dag = yaml.safe_load((tmp_path / "dag.yaml").read_text())
    assert schema.is_valid(dag)
    dag["jobs"][0]["config"]["formt"] = "csv"
    assert [error.instance_path for error in schema.iter_errors(dag)] == [["jobs", 0, "config"]]


@pytest.mark.parametrize(("folder", "name"), [("my-lake", "my_lake"), ("2024", "lake_2024"), ("...", "lake"), ("Übung 1", "bung_1"), ("x" * 200, "x" * 128)])
def test_any_folder_has_a_name_for_its_location(folder: str, name: str) -> None:
    assert location_name(Path("/somewhere") / folder) == name
    assert NAME.fullmatch(name)


def test_a_dry_run_names_the_files_and_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(str(tmp_path / "lake"), dry_run=True, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"dry_run": True, "folder": str(tmp_path / "lake"), "files": FILES}
    init(str(tmp_path / "lake"), dry_run=True, as_json=False)
    assert capsys.readouterr().out.endswith("Nothing was changed.\n")
    assert not (tmp_path / "lake").exists()


def test_one_existing_file_refuses_the_whole_project(tmp_path: Path) -> None:
    (tmp_path / "dag.yaml").write_text("mine")
    for dry_run in (True, False):
        with pytest.raises(ProjectRefused, match=r"already has dag.yaml, and files are never overwritten"):
            init(str(tmp_path), dry_run=dry_run, as_json=False)
    assert made(tmp_path) == ["dag.yaml"]
    assert (tmp_path / "dag.yaml").read_text() == "mine"


def test_other_files_of_a_folder_are_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    init(str(tmp_path), dry_run=False, as_json=False)
    assert made(tmp_path) == sorted([*FILES, "notes.txt"])


def test_a_path_that_cannot_be_a_folder_is_one_error(tmp_path: Path) -> None:
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
