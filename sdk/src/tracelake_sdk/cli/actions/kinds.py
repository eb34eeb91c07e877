"""`kind`: list, show, register and evolve the kinds of records."""

import json
from collections.abc import Iterator
from typing import Any

import typer
from pydantic import ValidationError
from rich.text import Text

from tracelake_sdk.cli.actions.repositories import opened, read_text
from tracelake_sdk.cli.printing import Cell, TableColumn, clean, print_json, print_table, say
from tracelake_sdk.cli.wording import fault
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors.records import KindUnknown
from tracelake_sdk.records.kinds import Kind, Retention
from tracelake_sdk.records.kinds.governance import same_but_for_version
from tracelake_sdk.records.kinds.schemas import properties_of
from tracelake_sdk.records.repository.contract import KindCatalog


def list_kinds(*, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, _):
        kinds = repository.kinds()
    if as_json:
        print_json(kinds)
        return
    columns = [TableColumn("kind"), TableColumn("version", right=True), TableColumn("owner"), TableColumn("mode"), TableColumn("kept"), TableColumn("description", folds=True)]
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
    print_table([TableColumn("property"), TableColumn("type"), TableColumn(""), TableColumn("finding", folds=True)], list(_properties(kind.json_schema)))
    for example in kind.examples[:1]:
        say()
        say(clean(json.dumps(example, indent=2, ensure_ascii=False)))


def _properties(schema: dict[str, Any], above: str = "") -> Iterator[list[Cell]]:
    """One row per property, including the properties of nested objects."""
    required = schema.get("required", [])
    for name, child in properties_of(schema).items():
        choices = [choice if isinstance(choice, str) else json.dumps(choice) for choice in child.get("enum", [])]
        notes = [child.get("description", ""), f"One of {', '.join(choices)}." if choices else ""]
        yield [f"{above}{name}", _type(child), "required" if name in required else "", " ".join(filter(None, notes))]
        yield from _properties(child, f"{above}{name}.")
    if "items" in schema:
        yield from _properties(schema["items"], f"{above}[].")


def register(file: str, *, url: str | None, tenant: str | None, dry_run: bool, as_json: bool) -> None:
    """The version in the file; default: 1."""
    kind = _kind(_definition(file))
    with opened(url, tenant) as (repository, _):
        _register(repository, kind, dry_run=dry_run, as_json=as_json)


def evolve(file: str, *, check: bool, url: str | None, tenant: str | None, as_json: bool) -> None:
    """If the file omits the version, it is the newest plus one; registering the newest again changes nothing."""
    definition = _definition(file)
    kind = _kind(definition)
    with opened(url, tenant) as (repository, _):
        if "version" in definition:
            _register(repository, kind, dry_run=check, as_json=as_json)
            return
        newest = _newest(repository, kind.name)
        if same_but_for_version(kind, newest):
            _say_registered(newest, "is already registered. Nothing was changed.", dry_run=check, as_json=as_json)
            return
        _register(repository, kind.model_copy(update={"version": newest.version + 1}), dry_run=check, as_json=as_json)


def _newest(catalog: KindCatalog, name: str) -> Kind:
    try:
        return catalog.kind(name)
    except KindUnknown:
        raise KindUnknown(f"No kind {name} is registered; `tracelake kind register` creates the first version.") from None


def _kind(definition: dict[str, Any]) -> Kind:
    try:
        return Kind.model_validate(definition)
    except ValidationError as error:
        raise typer.BadParameter(f"not a kind: {fault(error, placed=True)}") from None


def _register(catalog: KindCatalog, kind: Kind, *, dry_run: bool, as_json: bool) -> None:
    try:
        admitted = catalog.register(kind, check_only=dry_run)
    except TracelakeError as error:
        _explain(error, as_json=as_json)
        raise typer.Exit(1) from None
    _say_registered(admitted, "may be registered. Nothing was changed." if dry_run else "is registered.", dry_run=dry_run, as_json=as_json)


def _say_registered(kind: Kind, what: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": dry_run, **kind.model_dump(mode="json")})
    else:
        say(f"{kind.name} version {kind.version} {what}")


def _explain(error: TracelakeError, *, as_json: bool) -> None:
    """One row per finding; an error without findings is raised as it is."""
    findings = error.extra.get("findings")
    if as_json:
        print_json(error.problem())
        return
    if not findings:
        raise error
    say(Text(f"error [{error.code}]: " + (type(error).__doc__ or ""), "red"))
    print_table([TableColumn("finding"), TableColumn("where"), TableColumn("why", folds=True)], [[one["code"], one["path"], one["sentence"]] for one in findings])


def _definition(file: str) -> dict[str, Any]:
    try:
        found = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{file} does not contain the definition of a kind")
    return found


def _kept(retention: Retention) -> str:
    return "for ever" if retention.keep == "full" else f"{retention.days} days, then {retention.then}"


def _type(schema: dict[str, Any]) -> str:
    types = schema.get("type", "any")
    return types if isinstance(types, str) else " or ".join(types)
