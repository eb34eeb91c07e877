"""`dataset` and `explain`: what there is, its versions, and why it is as it is."""

from rich.text import Text

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, Column, instant, print_json, print_table, say, scope_words
from tracelake_sdk.client import Client
from tracelake_sdk.datasets import Dataset, Reason, Version

_STYLES = {"fresh": "green", "working": "cyan", "waiting": "yellow", "behind": "yellow", "paused": "magenta", "empty": "yellow"}


def list_datasets(*, limit: int, token: str | None, as_json: bool) -> None:
    with Client() as client:
        page = client.datasets(limit=limit, token=token)
    if as_json:
        print_json(page)
        return
    columns = [
        Column("dataset"), Column("layer"), Column("version", right=True), Column("rows", right=True), Column("promoted"), Column("job"),
        Column("description", folds=True),
    ]  # fmt: skip
    print_table(columns, [_row(dataset) for dataset in page.items])
    if page.next:
        say(f"More: {again('dataset', 'list', '--limit', str(limit), '--token', page.next)}")


def show_dataset(name: str, *, limit: int, as_json: bool) -> None:
    """The dataset, its columns and its newest versions."""
    with Client() as client:
        dataset = client.dataset(name)
        versions = client.versions(name, limit=limit)
    if as_json:
        print_json({"dataset": dataset, "versions": versions.items})
        return
    say(f"{dataset.name or dataset.uuid}  {dataset.layer}, made by {dataset.dag}/{dataset.job}, owned by {dataset.owner} ({dataset.domain})")
    if dataset.description:
        say(dataset.description)
    say()
    if dataset.columns:
        print_table([Column("column"), Column("type")], [[column.name, column.type] for column in dataset.columns])
        say()
    _print_versions(versions.items)


def show_version(name: str, number: int, *, as_json: bool) -> None:
    """One version with the runs behind it, their inputs and the reasons."""
    with Client() as client:
        version = client.version(name, number)
    if as_json:
        print_json(version)
        return
    say(f"{name} version {version.version}: {version.row_count:,} rows, promoted {instant(version.promoted_at)}, {version.snapshot_ref}")
    for part in version.parts:
        scopes = ", ".join(scope_words(scope) for scope in part.scopes)
        say(f"  {part.job} wrote {scopes} in run {part.run_id}")
        for pin in part.inputs:
            say(f"    from {pin.name or pin.dataset_uuid} version {pin.version}")
        say(f"    {part.reason}")


def explain(name: str, *, as_json: bool) -> None:
    with Client() as client:
        explanation = client.explain(name)
    if as_json:
        print_json(explanation)
        return
    for reason in explanation.reasons:
        say(_spoken(reason))
        if reason.remedy:
            say(Text(f"         → {reason.remedy}", style="dim"))


def _spoken(reason: Reason) -> Text:
    return Text.assemble((f"{reason.code:<8} ", _STYLES.get(reason.code, "bold red")), reason.sentence)


def _row(dataset: Dataset) -> list[Cell]:
    counted = "" if dataset.row_count is None else f"{dataset.row_count:,}"
    return [
        dataset.name or str(dataset.uuid), dataset.layer, "" if dataset.version is None else str(dataset.version), counted, instant(dataset.promoted_at),
        f"{dataset.dag}/{dataset.job}", dataset.description,
    ]  # fmt: skip


def _print_versions(versions: list[Version]) -> None:
    if not versions:
        say("It has no version yet.")
        return
    columns = [Column("version", right=True), Column("rows", right=True), Column("promoted"), Column("by run"), Column("why", folds=True)]
    rows: list[list[Cell]] = [
        [str(version.version), f"{version.row_count:,}", instant(version.promoted_at), version.promoted_by, version.parts[-1].reason if version.parts else ""]
        for version in versions
    ]
    print_table(columns, rows)
