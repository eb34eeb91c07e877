"""`tracelake explain`, and the commands of `tracelake dataset`."""

from typing import Annotated

import typer

from tracelake_sdk.cli.options import DryRun, LayerName, Limit, Output, OutputFormat, Shown, Token

datasets_app = typer.Typer(help="Datasets and their versions.", no_args_is_help=True, rich_markup_mode=None)


def explain(dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")], output: Output = Shown) -> None:
    """Explain why a dataset is fresh, blocked, behind or empty, and what to do."""
    from tracelake_sdk.cli.actions import datasets

    datasets.explain(dataset, as_json=output is OutputFormat.JSON)


@datasets_app.command("list")
def list_datasets(
    search: Annotated[
        str | None, typer.Option("--search", metavar="WORDS", help="Each word must occur in the name, layer, domain, owner, description, a column or the producer.")
    ] = None,
    layer: Annotated[LayerName | None, typer.Option("--layer", help="Only of this layer.")] = None,
    domain: Annotated[str | None, typer.Option("--domain", help="Only of this domain.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Only of this owner.")] = None,
    dag: Annotated[str | None, typer.Option("--dag", help="Only made by this DAG.")] = None,
    limit: Limit = 50,
    token: Token = None,
    output: Output = Shown,
) -> None:
    """List the datasets that you may read, with the versions that readers see."""
    from tracelake_sdk.cli.actions import datasets

    filters = {"search": search, "layer": layer, "domain": domain, "owner": owner, "dag": dag}
    datasets.list_datasets(filters, limit=limit, token=token, as_json=output is OutputFormat.JSON)


@datasets_app.command("show")
def show_dataset(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")],
    version: Annotated[int | None, typer.Option("--version", min=1, help="One version, with its runs, their inputs and the reasons.")] = None,
    limit: Limit = 10,
    output: Output = Shown,
) -> None:
    """Show a dataset, its columns and its newest versions."""
    from tracelake_sdk.cli.actions import datasets

    if version is None:
        datasets.show_dataset(dataset, limit=limit, as_json=output is OutputFormat.JSON)
    else:
        datasets.show_version(dataset, version, as_json=output is OutputFormat.JSON)


@datasets_app.command("pin")
def pin_version(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="A dataset, by its name or uuid.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name to give to the version.")],
    version: Annotated[int | None, typer.Option("--version", min=1, help="Default: the version that readers see now.")] = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Pin a name to one version of a dataset. What is read under it never changes."""
    from tracelake_sdk.cli.actions import datasets

    datasets.pin(dataset, name, version=version, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@datasets_app.command("unpin")
def unpin_version(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of a snapshot.")], dry_run: DryRun = False, output: Output = Shown
) -> None:
    """Remove the name of a snapshot. No data changes."""
    from tracelake_sdk.cli.actions import datasets

    datasets.unpin(name, dry_run=dry_run, as_json=output is OutputFormat.JSON)


@datasets_app.command("snapshots")
def list_snapshots(output: Output = Shown) -> None:
    """List the names that are pinned to versions."""
    from tracelake_sdk.cli.actions import datasets

    datasets.list_snapshots(as_json=output is OutputFormat.JSON)
