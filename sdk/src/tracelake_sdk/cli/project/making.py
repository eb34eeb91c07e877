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
_LOCATION = "LOCATION"  # in the template: the location of this very project


def init(folder: str, *, dry_run: bool, as_json: bool) -> None:
    place = Path(folder).expanduser().absolute()
    contents = project_files(place)
    _refuse_what_is_there(place, contents)
    if not dry_run:
        _write(place, contents)
    names = [str(name) for name in contents]
    if as_json:
        print_json({"dry_run": dry_run, "folder": str(place), "files": names})
        return
    say(f"A project {'would be' if dry_run else 'was'} created in {place}:")
    for name in names:
        say(f"  {name}")
    if dry_run:
        say("Nothing was changed.")
        return
    say("To run it; `up` runs until Ctrl-C, so give it its own terminal:")
    if place != Path.cwd():
        say(f"  {join(['cd', str(place)])}")
    for words in (("up",), ("deploy", "dag.yaml"), ("run", "bakery/ingest_sales", "--wait"), ("dataset", "list")):
        say(f"  {again(*words, elsewhere=True)}")


def project_files(place: Path) -> dict[Path, str]:
    """What a project in this folder is made of, by name below it."""
    template = files("tracelake_sdk.cli.project") / "template"
    location = location_name(place)
    texts = {name: text.replace(_LOCATION, location) for name, text in _texts(template, Path())}
    return dict(sorted((texts | {_SCHEMA: dag_file_schema()}).items()))


def dag_file_schema() -> str:
    """The JSON Schema of DAG files, by which editors complete and check them."""
    return (files("tracelake_sdk.dags") / "dag.schema.json").read_text()


def location_name(place: Path) -> str:
    """After the project's folder, so that two projects on one home have each its own."""
    plain = re.sub(r"[^a-z0-9]+", "_", place.name.lower()).strip("_")
    return (plain if plain[:1].isalpha() else f"lake_{plain}".rstrip("_"))[:128]


def _texts(folder: Traversable, name: Path) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    for entry in folder.iterdir():
        below = name / entry.name
        found += _texts(entry, below) if entry.is_dir() else [(below, entry.read_text())]
    return found


def _refuse_what_is_there(place: Path, contents: dict[Path, str]) -> None:
    try:
        is_file, there = place.exists() and not place.is_dir(), [str(name) for name in contents if (place / name).exists()]
    except OSError as error:
        raise _unusable(place, error) from None
    if is_file:
        raise ProjectRefused(f"{place} is a file; name a folder.")
    if there:
        raise ProjectRefused(f"{place} has {', '.join(there)} already, and files are never overwritten; name another folder.")


def _write(place: Path, contents: dict[Path, str]) -> None:
    try:
        for name, text in contents.items():
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x") as opened:  # never over one that was created in between
                opened.write(text)
    except OSError as error:
        raise _unusable(place, error) from None


def _unusable(place: Path, error: OSError) -> ProjectRefused:
    return ProjectRefused(f"{error.filename or place}: {os.strerror(error.errno or 0)}; name a folder that you may write to.")
