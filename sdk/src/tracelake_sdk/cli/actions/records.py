"""`record`: read records: the newest, the history, a query, and the log as it grows."""

import json
from collections.abc import Sequence
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from tracelake_sdk.cli.actions.repositories import check_kinds, opened, target_of, target_words
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, TableColumn, clean, instant, print_json, print_table, say
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.records import Aggregation, MetadataTarget, RecordFilters, RecordPage, StoredRecord, TailPage, Window
from tracelake_sdk.records.repository import following

_COLUMNS = [TableColumn("produced"), TableColumn("kind"), TableColumn("target"), TableColumn("producer"), TableColumn("run"), TableColumn("payload", folds=True)]


def latest(target: str, kind: str, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    """Exit code 1 if there is no record."""
    with opened(url, tenant) as (repository, context):
        found = repository.latest(target_of(target), kind, context)
    if as_json:
        print_json(found)
    elif found is None:
        say(f"No record of kind {kind} about {target} found.")
    else:
        _print_one(found)
    if found is None:
        raise typer.Exit(1)


def history(target: str, kind: str, *, limit: int, window: Window | None, url: str | None, tenant: str | None, words: Sequence[str], as_json: bool) -> None:
    """`words` are the arguments of the command for the next page."""
    with opened(url, tenant) as (repository, context):
        page = repository.history(target_of(target), kind, context, limit=limit, window=window)
    _print_page(page, as_json=as_json, words=words)


def query(filters: RecordFilters, *, url: str | None, tenant: str | None, words: Sequence[str], as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        check_kinds(repository, filters.kinds)
        page = repository.query(filters, context)
    _print_page(page, as_json=as_json, words=words)


def aggregate(filters: RecordFilters, aggregation: Aggregation, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        check_kinds(repository, filters.kinds)
        groups = repository.aggregate(filters, aggregation, context)
    if as_json:
        print_json(groups)
        return
    columns = [*(TableColumn(name) for name in aggregation.group_by), TableColumn(aggregation.metric.value, right=True), TableColumn("records", right=True)]
    rows: list[list[Cell]] = [[*(_group(name, group.group[name]) for name in aggregation.group_by), _cell(group.value), str(group.records)] for group in groups]
    print_table(columns, rows)


def targets(kind: str | None, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        check_kinds(repository, [kind] if kind else [])
        found = repository.targets(context, kind)
    if as_json:
        print_json(found)
    elif not found:
        say("No records match.")
    else:
        print_table([TableColumn("target"), TableColumn("extras", folds=True)], [[target_words(target), _cell(target.extras) if target.extras else ""] for target in found])


def tail(*, kinds: list[str], offset: str | None, limit: int, follow: bool, url: str | None, tenant: str | None, as_json: bool) -> None:
    """With JSON, one page per line, with the offset to continue from."""
    if follow:
        _follow(kinds, offset, limit, url, tenant, as_json=as_json)
        return
    with opened(url, tenant) as (repository, context):
        check_kinds(repository, kinds)
        page = repository.tail(context, offset, kinds=kinds, limit=limit)
    _print_tail(page, as_json=as_json)
    if not as_json:
        options = [*(("--kind", kind) for kind in kinds), ("--limit", str(limit)), ("--repository", url), ("--tenant", tenant), ("--offset", page.offset)]
        say("To continue from here:" if page.items else "No records after this offset yet:" if offset else "No records yet. To see new ones:")
        say(f"  {again('record', 'tail', *(word for option, value in options if value is not None for word in (option, value)))}")


def _follow(kinds: list[str], offset: str | None, limit: int, url: str | None, tenant: str | None, *, as_json: bool) -> None:
    try:
        with opened(url, tenant) as (repository, context):
            check_kinds(repository, kinds)
            for page in following.follow(repository, context, offset, kinds=kinds, limit=limit, broken=_say_broken):
                if page.items:
                    _print_tail(page, as_json=as_json)
    except KeyboardInterrupt:
        return  # Ctrl-C is the normal end of following


def _say_broken(error: TracelakeError) -> None:
    # On stderr, so that stdout has only records.
    say(f"Disconnected [{error.code}]; it continues after the last record as soon as the service answers.", to=Console(stderr=True, markup=False, highlight=False))


def _print_tail(page: TailPage, *, as_json: bool) -> None:
    if as_json:
        typer.echo(page.model_dump_json())
    elif page.items:
        print_table(_COLUMNS, [_row(stored) for stored in page.items])


def _print_page(page: RecordPage, *, as_json: bool, words: Sequence[str]) -> None:
    """`words` are the arguments of the same query, without the page."""
    if as_json:
        print_json(page)
        return
    if page.items:
        print_table(_COLUMNS, [_row(stored) for stored in page.items])
    else:
        say("No records match.")
    for dropped in page.dropped:
        say(f"Records of kind {dropped.kind} that were produced before {instant(dropped.before)} were removed by their retention.")
    if page.next is not None:
        say()
        say("Next page:")
        say(f"  {again(*words, '--page', page.next)}")


def _print_one(stored: StoredRecord) -> None:
    record, context = stored.record, stored.context
    facts = {
        "id": str(stored.id), "kind": f"{record.kind} version {stored.kind_version}", "target": target_words(record.target), "produced": instant(record.produced_at),
        "stored": instant(stored.stored_at), "producer": record.producer_id, "quality": record.quality.value if record.quality else "", "run": context.run_id or "",
        "job": context.job_id or "", "in": f"{context.cluster}, {context.workspace}, {context.tenant}",
    }
    for name, value in facts.items():
        if value:
            say(Text.assemble((f"{name:<10}", "bold"), clean(value)))
    for name, value in (("payload", record.payload), ("extras", record.extras)):
        if value:
            say(Text.assemble((f"{name:<10}", "bold"), clean(json.dumps(value, indent=2, ensure_ascii=False))))


def _row(stored: StoredRecord) -> list[Cell]:
    record = stored.record
    return [instant(record.produced_at), record.kind, target_words(record.target), record.producer_id, stored.context.run_id or "", _cell(record.payload)]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _group(name: str, value: Any) -> str:
    match value:
        case [str(source), str(schema), str(table)] if name == "target":
            return target_words(MetadataTarget(source_id=source, schema=schema, table=table))
        case _:
            return _cell(value)
