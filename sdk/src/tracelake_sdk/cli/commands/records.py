"""The commands of `tracelake record` and `tracelake kind`. A command imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from tracelake_sdk.cli.options import DryRun, Output, OutputFormat, Shown

record_app = typer.Typer(help="Records: facts about tables and datasets, emitted and read.", no_args_is_help=True, rich_markup_mode=None)
kind_app = typer.Typer(help="Kinds: the registered, versioned schemas of records.", no_args_is_help=True, rich_markup_mode=None)

Repository = Annotated[
    str | None, typer.Option("--repository", metavar="URL", help="file:///FOLDER, s3://BUCKET/PREFIX or https://SERVICE. Else TRACELAKE__RECORDS__URL, else the running system.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="The tenant. Default: that of the folder or the token.")]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="SOURCE/SCHEMA/TABLE, or a dataset by its name or uuid.")]
KindName = Annotated[str, typer.Argument(metavar="KIND", help="See `tracelake kind list`.")]
OnlyKind = Annotated[str | None, typer.Option("--kind", help="Only of this kind.")]
OnlyKinds = Annotated[list[str] | None, typer.Option("--kind", help="Only of this kind. May be repeated.")]
InWindow = Annotated[str | None, typer.Option("--window", metavar="START..END", help="Records whose own window overlaps this one; a side may be empty.")]
Most = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number, newest first.")]
Spool = Annotated[Path | None, typer.Option("--spool", metavar="FOLDER", help="The spool folder. Default: one for each repository in TRACELAKE_HOME.")]
LeftSpool = Annotated[
    Path | None, typer.Option("--spool", metavar="FOLDER", exists=True, file_okay=False, help="The spool folder. Default: the repository's own in TRACELAKE_HOME.")
]
KindFile = Annotated[str, typer.Argument(metavar="FILE", help="Its definition as JSON; - reads it from standard input.")]


def _json(output: OutputFormat) -> bool:
    return output is OutputFormat.JSON


@record_app.command("emit")
def emit(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A record as JSON, a list, or one per line; - reads standard input.")],
    job: Annotated[str | None, typer.Option("--job", help="The job that emits it.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="The run that emits it: one attempt.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Of the context.")] = None,
    workspace: Annotated[str | None, typer.Option("--workspace", help="Of the context.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Of the context.")] = None,
    wait: Annotated[float, typer.Option("--wait", min=0, metavar="SECONDS", help="How long to try before the rest stays in the spool.")] = 10.0,
    repository: Repository = None,
    tenant: Tenant = None,
    spool: Spool = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Emit records. Records that cannot be delivered now wait in the spool. Exit code 1 if any is refused."""
    from tracelake_sdk.cli.actions import emitting

    context = {"job_id": job, "run_id": run, "namespace": namespace, "workspace": workspace, "cluster": cluster, "tenant": tenant}
    emitting.emit(file, url=repository, context=context, spool=spool, wait=wait, dry_run=dry_run, as_json=_json(output))


@record_app.command("latest")
def latest(target: Target, kind: KindName, repository: Repository = None, tenant: Tenant = None, output: Output = Shown) -> None:
    """Show the record that was produced last. Exit code 1 if there is none."""
    from tracelake_sdk.cli.actions import records

    records.latest(target, kind, url=repository, tenant=tenant, as_json=_json(output))


@record_app.command("history")
def history(
    target: Target, kind: KindName, window: InWindow = None, limit: Most = 20, repository: Repository = None, tenant: Tenant = None, output: Output = Shown
) -> None:
    """List records of one kind about one target."""
    from tracelake_sdk.cli.actions import record_filters, records, repositories

    words = record_filters.FilterOptions(kinds=[kind], target=target, window=window, limit=limit).words(repository, tenant)
    records.history(target, kind, limit=limit, window=repositories.window_of(window), url=repository, tenant=tenant, words=words, as_json=_json(output))


@record_app.command("query")
def query(
    kind: OnlyKinds = None,
    target: Annotated[str | None, typer.Option("--target", metavar="TARGET", help="Only about this target.")] = None,
    source: Annotated[str | None, typer.Option("--source", help="Only about targets of this source.")] = None,
    schema: Annotated[str | None, typer.Option("--schema", help="Only about targets of this schema.")] = None,
    table: Annotated[str | None, typer.Option("--table", help="Only about tables of this name.")] = None,
    producer: Annotated[str | None, typer.Option("--producer", help="Only by this producer.")] = None,
    job: Annotated[str | None, typer.Option("--job", help="Only of this job.")] = None,
    run: Annotated[str | None, typer.Option("--run", help="Only of this run.")] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", help="Only of this namespace.")] = None,
    workspace: Annotated[str | None, typer.Option("--workspace", help="Only of this workspace.")] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only of this cluster.")] = None,
    quality: Annotated[Literal["measured", "estimated", "backfilled"] | None, typer.Option("--quality", help="Only of this quality.")] = None,
    window: InWindow = None,
    produced: Annotated[str | None, typer.Option("--produced", metavar="START..END", help="Produced inside this window.")] = None,
    where: Annotated[
        list[str] | None, typer.Option("--where", metavar="CONDITION", help="payload.rows>=10, extras.dataset.version=3, payload.mode=[\"full\"], payload.files, !payload.files. May be repeated.")
    ] = None,
    kind_version: Annotated[int | None, typer.Option("--kind-version", min=1, help="Payloads in this version instead of the newest.")] = None,
    metric: Annotated[Literal["count", "sum", "avg", "min", "max"] | None, typer.Option("--metric", help="Compute this metric over all records instead.")] = None,
    of: Annotated[str | None, typer.Option("--of", metavar="PATH", help="The path to compute it on: payload.rows.")] = None,
    group_by: Annotated[list[str] | None, typer.Option("--group-by", metavar="NAME", help="kind, target, producer_id, day or a path. May be repeated.")] = None,
    limit: Most = 50,
    page: Annotated[str | None, typer.Option("--page", help="Token of the next page; the page before prints the command.")] = None,
    repository: Repository = None,
    tenant: Tenant = None,
    output: Output = Shown,
) -> None:
    """Find records, or count and sum them."""
    from tracelake_sdk.cli.actions import record_filters, records

    options = record_filters.FilterOptions(
        kinds=kind or [], target=target, source=source, schema=schema, table=table, producer=producer, job=job, run=run, namespace=namespace,
        workspace=workspace, cluster=cluster, quality=quality, window=window, produced=produced, where=where or [], kind_version=kind_version,
        limit=limit, page=page,
    )  # fmt: skip
    if metric is None and not of and not group_by:
        records.query(options.filters(), url=repository, tenant=tenant, words=options.words(repository, tenant), as_json=_json(output))
    else:
        if page is not None:
            raise typer.BadParameter("an aggregate covers all records; omit it", param_hint="--page")
        records.aggregate(options.filters(), record_filters.aggregation(metric, of, group_by or []), url=repository, tenant=tenant, as_json=_json(output))


@record_app.command("tail")
def tail(
    kind: OnlyKinds = None,
    offset: Annotated[str | None, typer.Option("--offset", help="Start after this offset; the command prints it. Default: from the beginning.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum number of records per page.")] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow until Ctrl-C, also after broken connections.")] = False,
    repository: Repository = None,
    tenant: Tenant = None,
    output: Output = Shown,
) -> None:
    """Show records in the order in which they were accepted. With JSON, one page per line."""
    from tracelake_sdk.cli.actions import records

    records.tail(kinds=kind or [], offset=offset, limit=limit, follow=follow, url=repository, tenant=tenant, as_json=_json(output))


@record_app.command("targets")
def targets(kind: OnlyKind = None, repository: Repository = None, tenant: Tenant = None, output: Output = Shown) -> None:
    """List the targets that have records."""
    from tracelake_sdk.cli.actions import records

    records.targets(kind, url=repository, tenant=tenant, as_json=_json(output))


@record_app.command("flush")
def flush(
    refused: Annotated[bool, typer.Option("--refused", help="Also send refused records again, after the cause was fixed.")] = False,
    repository: Repository = None,
    tenant: Tenant = None,
    spool: LeftSpool = None,
    output: Output = Shown,
) -> None:
    """Deliver records that ended processes left in the spool. Exit code 1 if any remain or are refused again."""
    from tracelake_sdk.cli.actions import spools

    spools.flush(refused=refused, url=repository, tenant=tenant, spool=spool, as_json=_json(output))


@record_app.command("refused")
def refused(limit: Most = 20, repository: Repository = None, spool: LeftSpool = None, output: Output = Shown) -> None:
    """List records that the repository refused, and why; as JSON with the records. `tracelake record flush --refused` sends them again."""
    from tracelake_sdk.cli.actions import spools

    spools.refused(limit=limit, url=repository, spool=spool, as_json=_json(output))


@record_app.command("compact")
def compact(
    older_than: Annotated[float | None, typer.Option("--older-than", min=0, metavar="DAYS", help="Also archive records that their kind keeps longer.")] = None,
    repository: Repository = None,
    tenant: Tenant = None,
    dry_run: DryRun = False,
    output: Output = Shown,
) -> None:
    """Move old records of a folder into its Delta table, with Spark, by the retention of their kinds."""
    from tracelake_sdk.cli.actions import compacting

    compacting.compact(older_than_days=older_than, url=repository, tenant=tenant, dry_run=dry_run, as_json=_json(output))


@kind_app.command("list")
def list_kinds(repository: Repository = None, tenant: Tenant = None, output: Output = Shown) -> None:
    """List kinds in their newest versions."""
    from tracelake_sdk.cli.actions import kinds

    kinds.list_kinds(url=repository, tenant=tenant, as_json=_json(output))


@kind_app.command("show")
def show_kind(
    name: KindName, version: Annotated[int | None, typer.Option("--version", min=1, help="The version. Default: the newest.")] = None,
    repository: Repository = None, tenant: Tenant = None, output: Output = Shown,
) -> None:  # fmt: skip
    """Show a kind; as JSON with its schema."""
    from tracelake_sdk.cli.actions import kinds

    kinds.show_kind(name, version, url=repository, tenant=tenant, as_json=_json(output))


@kind_app.command("register")
def register_kind(file: KindFile, repository: Repository = None, tenant: Tenant = None, dry_run: DryRun = False, output: Output = Shown) -> None:
    """Register a kind. The same definition again changes nothing."""
    from tracelake_sdk.cli.actions import kinds

    kinds.register(file, url=repository, tenant=tenant, dry_run=dry_run, as_json=_json(output))


@kind_app.command("evolve")
def evolve_kind(
    file: KindFile, check: Annotated[bool, typer.Option("--check", "--dry-run", help="Check compatibility, and change nothing.")] = False,
    repository: Repository = None, tenant: Tenant = None, output: Output = Shown,
) -> None:  # fmt: skip
    """Register the next version of a kind. Exit code 1 and a list of differences if it is not compatible with the kind's mode."""
    from tracelake_sdk.cli.actions import kinds

    kinds.evolve(file, check=check, url=repository, tenant=tenant, as_json=_json(output))
