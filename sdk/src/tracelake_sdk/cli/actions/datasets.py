"""`dataset` and `explain`: what exists, its versions, and the reasons for their state."""

from rich.text import Text

from tracelake_sdk.cli.invocation import again, pasteable
from tracelake_sdk.cli.options import MOST_LISTED
from tracelake_sdk.cli.printing import Cell, TableColumn, instant, print_json, print_table, say
from tracelake_sdk.client import Client
from tracelake_sdk.dags import Layer
from tracelake_sdk.dags.status import WhoAmI
from tracelake_sdk.datasets import Dataset, Reason, Version
from tracelake_sdk.wording import counted, plural, scope_words

_STYLES = {"fresh": "green", "working": "cyan", "waiting": "yellow", "behind": "yellow", "retrying": "yellow", "canceled": "yellow", "paused": "magenta", "empty": "yellow"}


def list_datasets(filters: dict[str, str | None], *, limit: int, token: str | None, as_json: bool) -> None:
    """`filters` are keyed by the names of their options."""
    with Client() as client:
        layer = Layer(filters["layer"]) if filters["layer"] else None
        page = client.datasets.list(
            search=filters["search"], layer=layer, domain=filters["domain"], owner=filters["owner"], dag=filters["dag"], limit=limit, token=token
        )
        me = client.me() if not page.items and not as_json else None
    if as_json:
        print_json(page)
        return
    if me is not None:
        _say_none(filters, me)
        return
    columns = [
        TableColumn("dataset"), TableColumn("layer"), TableColumn("version", right=True), TableColumn("rows", right=True), TableColumn("promoted"), TableColumn("job"),
        TableColumn("description", folds=True),
    ]  # fmt: skip
    print_table(columns, [_row(dataset) for dataset in page.items])
    if page.next:
        words = [word for name, value in filters.items() if value is not None for word in (f"--{name}", value)]
        _say_more("dataset", "list", *words, "--limit", str(limit), "--token", page.next)


def _say_none(filters: dict[str, str | None], me: WhoAmI) -> None:
    """Why nothing is listed, and what to do about it."""
    if any(value is not None for value in filters.values()):
        say("No datasets match, or you have no permission to read them.")
    elif {"admin", "auditor"} & set(me.roles):
        say(f"Org {me.org} has no datasets yet; deploy a DAG with `tracelake deploy FILE`.")
    else:
        roles = f"your {plural(len(me.roles), 'role')} ({', '.join(me.roles)})" if me.roles else "your roles: you have none"
        say(f"You may not read any dataset of org {me.org}. A dataset is read by the roles in its read roles, and none names {roles}.")
        say("An admin lets a role read a dataset:")
        say(f"  {again('admin', 'read-roles', 'set', 'DATASET', next(iter(me.roles), 'ROLE'))}")


def show_dataset(name: str, *, limit: int, as_json: bool) -> None:
    """The dataset, its columns and its newest versions."""
    with Client() as client:
        dataset = client.datasets.get(name)
        versions = client.datasets.versions(name, limit=limit)
    if as_json:
        print_json({"dataset": dataset, "versions": versions.items, "next": versions.next})
        return
    say(f"{dataset.name or dataset.uuid}  {dataset.layer}, made by {dataset.dag}/{dataset.job}, owned by {dataset.owner} ({dataset.domain})")
    if dataset.description:
        say(dataset.description)
    if dataset.location:
        say(f"Delta table at {dataset.location}")
    for snapshot in dataset.snapshots:
        say(f"{snapshot.name} is pinned to version {snapshot.version} by {snapshot.actor}")
    say()
    if dataset.columns:
        print_table([TableColumn("column"), TableColumn("type")], [[column.name, column.type] for column in dataset.columns])
        say()
    _print_versions(versions.items)
    if versions.next and limit < MOST_LISTED:
        _say_more("dataset", "show", name, "--limit", str(min(limit * 10, MOST_LISTED)))


def show_version(name: str, number: int, *, as_json: bool) -> None:
    """One version with the runs behind it, their inputs and the reasons."""
    with Client() as client:
        version = client.datasets.version(name, number)
    if as_json:
        print_json(version)
        return
    say(f"{name} version {version.version}: {version.row_count:,} rows, promoted {instant(version.promoted_at)}, Delta version {version.delta_version}")
    for part in version.parts:
        scopes = ", ".join(scope_words(scope) for scope in part.scopes)
        say(f"  {part.job} wrote {scopes} in run {part.run_id}")
        for pin in part.inputs:
            say(f"    from {pin.name or pin.dataset_uuid} version {pin.version}")
        if part.hidden_inputs:
            say(f"    from {counted(part.hidden_inputs, 'dataset')} that you may not read")
        say(f"    {part.reason}")


def pin(dataset: str, name: str, *, version: int | None, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        snapshot = client.snapshots.pin(dataset, name, version=version, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **snapshot.model_dump(mode="json")})
    else:
        say(f"{snapshot.name} {'would be' if dry_run else 'is'} version {snapshot.version} of {dataset}.{' Nothing was changed.' if dry_run else ''}")


def unpin(name: str, *, dry_run: bool, as_json: bool) -> None:
    with Client() as client:
        snapshot = client.snapshots.unpin(name, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **snapshot.model_dump(mode="json")})
    else:
        removal = f"{'would be' if dry_run else 'is'} removed; it was version {snapshot.version} of {snapshot.dataset or snapshot.dataset_uuid}"
        say(f"{snapshot.name} {removal}.{' Nothing was changed.' if dry_run else ''}")


def list_snapshots(*, as_json: bool) -> None:
    with Client() as client:
        snapshots = client.snapshots.list()
    if as_json:
        print_json(snapshots)
        return
    if not snapshots:
        say("No snapshots found of datasets that you may read; `dataset pin` creates one.")
        return
    rows: list[list[Cell]] = [[one.name, one.dataset or str(one.dataset_uuid), str(one.version), one.actor, instant(one.at)] for one in snapshots]
    print_table([TableColumn("name"), TableColumn("dataset"), TableColumn("version", right=True), TableColumn("pinned by"), TableColumn("at")], rows)


def explain(name: str, *, as_json: bool) -> None:
    with Client() as client:
        explanation = client.datasets.explain(name)
    if as_json:
        print_json(explanation)
        return
    for snapshot in explanation.dataset.snapshots:
        if snapshot.name == name:
            say(f"{name} is version {snapshot.version} of {snapshot.dataset or snapshot.dataset_uuid} and never changes. The dataset itself:")
    for reason in explanation.reasons:
        say(_spoken(reason))
        if reason.remedy:
            say(Text(f"         → {pasteable(reason.remedy)}", style="dim"))


def _say_more(*words: str) -> None:
    say()
    say("Next page:")
    say(f"  {again(*words)}")


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
        say("No version yet.")
        return
    columns = [TableColumn("version", right=True), TableColumn("rows", right=True), TableColumn("promoted"), TableColumn("Delta version", right=True), TableColumn("by run"), TableColumn("why", folds=True)]
    rows: list[list[Cell]] = [
        [str(version.version), f"{version.row_count:,}", instant(version.promoted_at), str(version.delta_version), version.promoted_by, version.parts[-1].reason if version.parts else ""]
        for version in versions
    ]
    print_table(columns, rows)
