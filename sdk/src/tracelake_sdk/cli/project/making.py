"""Creates a project folder: every file of the template, or none if one of them already exists."""

import os
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import join

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import print_json, say
from tracelake_sdk.errors import ProjectRefused

_SCHEMA = Path("dag.schema.json")  # named in the first line of the template's dag.yaml
_LOCATION = "LOCATION"  # placeholder in the template: the location of this project


def init(folder: str, *, dry_run: bool, as_json: bool) -> None:
    root = Path(folder).expanduser().absolute()
    contents = project_files(root)
    _refuse_existing_files(root, contents)
    if not dry_run:
        _write(root, contents)
    names = [str(name) for name in contents]
    if as_json:
        print_json({"dry_run": dry_run, "folder": str(root), "files": names})
        return
    say(f"A project {'would be' if dry_run else 'was'} created in {root}:")
    for name in names:
        say(f"  {name}")
    if dry_run:
        say("Nothing was changed.")
        return
    say("To run it; `up` runs until Ctrl-C, so give it its own terminal:")
    if root != Path.cwd():
        say(f"  {join(['cd', str(root)])}")
    for words in (("up",), ("deploy", "dag.yaml"), ("run", "bakery/ingest_sales", "--wait"), ("dataset", "list")):
        say(f"  {again(*words, elsewhere=True)}")


def project_files(root: Path) -> dict[Path, str]:
    """The files of a project in this folder, by relative path."""
    template = files("tracelake_sdk.cli.project") / "template"
    location = location_name(root)
    texts = {name: text.replace(_LOCATION, location) for name, text in _texts(template, Path())}
    return dict(sorted((texts | {_SCHEMA: dag_file_schema()}).items()))


def dag_file_schema() -> str:
    """The JSON Schema of DAG files, by which editors complete and check them."""
    return (files("tracelake_sdk.dags") / "dag.schema.json").read_text()


def location_name(root: Path) -> str:
    """Named after the project's folder, so that two projects of one home have different locations."""
    plain = re.sub(r"[^a-z0-9]+", "_", root.name.lower()).strip("_")
    return (plain if plain[:1].isalpha() else f"lake_{plain}".rstrip("_"))[:128]


def _texts(folder: Traversable, name: Path) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for entry in folder.iterdir():
        below = name / entry.name
        found += _texts(entry, below) if entry.is_dir() else [(below, entry.read_text())]
    return found


def _refuse_existing_files(root: Path, contents: dict[Path, str]) -> None:
    try:
        is_file, there = root.exists() and not root.is_dir(), [str(name) for name in contents if (root / name).exists()]
    except OSError as error:
        raise _unusable(root, error) from None
    if is_file:
        raise ProjectRefused(f"{root} is a file; name a folder.")
    if there:
        raise ProjectRefused(f"{root} already has {', '.join(there)}, and files are never overwritten; name another folder.")


def _write(root: Path, contents: dict[Path, str]) -> None:
    try:
        for name, text in contents.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x") as opened:  # fails if the file was created in between
                opened.write(text)
    except OSError as error:
        raise _unusable(root, error) from None


def _unusable(root: Path, error: OSError) -> ProjectRefused:
    return ProjectRefused(f"{error.filename or root}: {os.strerror(error.errno or 0)}; name a folder that you may write to.")
