"""`kind`: which kinds of records there are, and how one is registered and changed."""

import json
from typing import Any

import typer
from pydantic import ValidationError
from rich.text import Text

from tracelake_sdk.cli.printing import Cell, Column, clean, print_json, print_table, say
from tracelake_sdk.cli.repositories import opened, read_text
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.kinds import Kind, Retention
from tracelake_sdk.record_errors import KindUnknown


def list_kinds(*, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, _):
        kinds = repository.kinds()
    if as_json:
        print_json(kinds)
        return
    columns = [Column("kind"), Column("version", right=True), Column("owner"), Column("mode"), Column("kept"), Column("description", folds=True)]
    rows: list[list[Cell]] = [
        [kind.name, str(kind.version), "built in" if kind.built_in else kind.owner, kind.mode.value, _kept(kind.retention), kind.description] for kind in kinds
    ]
    print_table(columns, rows)


def show_kind(name: str, version: int | None, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, _):
        kind = repository.kind(name, version)
    if as_json:
        print_json(kind)
        return
    facts = {
        "kind": f"{kind.name} version {kind.version}", "owner": "built in" if kind.built_in else kind.owner, "mode": kind.mode.value, "kept": _kept(kind.retention),
        "identity": ", ".join(kind.identity), "renames": ", ".join(f"{old} to {new}" for old, new in kind.renames.items()),
    }
    for word, value in facts.items():
        if value:
            say(Text.assemble((f"{word:<10}", "bold"), clean(value)))
    say(kind.description)
    say()
    required = kind.json_schema.get("required", [])
    rows: list[list[Cell]] = [
        [prop, _type(schema), "required" if prop in required else "", schema.get("description", "")] for prop, schema in kind.json_schema.get("properties", {}).items()
    ]
    print_table([Column("property"), Column("type"), Column(""), Column("what it says", folds=True)], rows)
    for example in kind.examples[:1]:
        say()
        say(clean(json.dumps(example, indent=2, ensure_ascii=False)))


def register(file: str, *, url: str | None, tenant: str | None, dry_run: bool, as_json: bool) -> None:
    """The version is the file's own; left out, it is the first."""
    _register(_definition(file), url, tenant, dry_run=dry_run, as_json=as_json)


def evolve(file: str, *, check: bool, url: str | None, tenant: str | None, as_json: bool) -> None:
    """The version, where the file leaves it out, is the one behind the newest."""
    definition = _definition(file)
    if "version" not in definition:
        with opened(url, tenant) as (repository, _):
            definition |= {"version": _newest(repository.kind, str(definition.get("name"))) + 1}
    _register(definition, url, tenant, dry_run=check, as_json=as_json)


def _newest(kind: Any, name: str) -> int:
    try:
        return kind(name).version
    except KindUnknown:
        raise KindUnknown(f"No kind {name} is registered; `tracelake kind register` makes the first version.") from None


def _register(definition: dict[str, Any], url: str | None, tenant: str | None, *, dry_run: bool, as_json: bool) -> None:
    try:
        kind = Kind.model_validate(definition)
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"not a kind: {'.'.join(str(step) for step in first['loc'])}: {first['msg']}") from None
    with opened(url, tenant) as (repository, _):
        try:
            admitted = repository.register(kind, check_only=dry_run)
        except TracelakeError as error:
            _explain(error, as_json=as_json)
            raise typer.Exit(1) from None
    if as_json:
        print_json({"dry_run": dry_run, **admitted.model_dump(mode="json")})
    else:
        say(f"{admitted.name} version {admitted.version} {'may be registered. Nothing was changed.' if dry_run else 'is registered.'}")


def _explain(error: TracelakeError, *, as_json: bool) -> None:
    """Each finding in a row; an error without any speaks for itself."""
    findings = error.extra.get("findings")
    if as_json:
        print_json(error.problem())
        return
    if not findings:
        raise error
    say(Text(f"error [{error.code}]: " + (type(error).__doc__ or ""), "red"))
    print_table([Column("finding"), Column("where"), Column("why", folds=True)], [[one["code"], one["path"], one["sentence"]] for one in findings])


def _definition(file: str) -> dict[str, Any]:
    try:
        found = json.loads(read_text(file))
    except ValueError as error:
        raise typer.BadParameter(f"{file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{file} holds no definition of a kind")
    return found


def _kept(retention: Retention) -> str:
    return "for ever" if retention.keep == "full" else f"{retention.days} days, then {retention.then}"


def _type(schema: dict[str, Any]) -> str:
    said = schema.get("type", "any")
    return said if isinstance(said, str) else " or ".join(said)
