"""`record`: emit facts, and read them: the newest, the history, a query, and the log as it grows."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.console import Console
from rich.text import Text

from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, Column, clean, counted, instant, print_json, print_table, say
from tracelake_sdk.cli.repositories import CLUSTER, WORKSPACE, opened, read_text, spool_of, spool_words, target_of, target_words, tenant_of
from tracelake_sdk.emitter import Emitter, set_aside
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.records import Aggregation, MetadataContext, MetadataRecord, RecordFilters, RecordPage, StoredRecord, StoreResult, TailPage, Window
from tracelake_sdk.repository import following
from tracelake_sdk.repository.admission import Admission
from tracelake_sdk.repository.opening import open_repository

_COLUMNS = [Column("produced"), Column("kind"), Column("target"), Column("producer"), Column("run"), Column("payload", folds=True)]


class _Entry(BaseModel):
    """A record, or a record with a context of its own."""

    model_config = ConfigDict(extra="forbid")

    record: MetadataRecord
    context: MetadataContext


class _Later:
    """Opens the repository when something is delivered, so that one that is down is no reason not to take a record."""

    def __init__(self, url: str | None) -> None:
        self._url = url

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        repository = open_repository(self._url, tenant=context.tenant)
        try:
            return repository.bulk_store(records, context)
        finally:
            repository.close()


def emit(file: str, *, url: str | None, context: dict[str, str | None], spool: Path | None, wait: float, dry_run: bool, as_json: bool) -> None:
    """What cannot be delivered now waits in the spool; what is refused is exit code 1."""
    entries = _entries(read_text(file), url, context)
    if dry_run:
        _judge(entries, url, as_json=as_json)
        return
    folder = spool or spool_of(url)
    known = {line.entry for line in set_aside(folder)}
    emitter = Emitter(_Later(url), folder)  # pyright: ignore[reportArgumentType]  # of a repository it needs this one method
    for entry in entries:
        emitter.emit(entry.record, entry.context)
    emitter.flush(wait)
    status = emitter.status()
    emitter.close(timeout=1.0)
    refused = [line for line in set_aside(folder) if line.entry not in known]
    if as_json:
        print_json({**asdict(status), "spool": str(folder), "set_aside": [asdict(line) for line in refused]})
    else:
        say(f"{counted(status.stored, 'record')} stored, {status.same} known already, {status.refused} refused, {status.waiting} waiting.")
        for line in refused:
            say(Text.assemble(("refused ", "red"), f"[{line.problem.get('code')}] {clean(str(line.problem.get('detail')))}"))
        if status.waiting:
            say(f"What waits is kept in {folder}: {(status.problem or {}).get('detail', 'the repository did not take it in time.')}")
            say(f"  {again('record', 'flush', *spool_words(url, spool))}")
    if status.refused:
        raise typer.Exit(1)


def _entries(text: str, url: str | None, told: dict[str, str | None]) -> list[_Entry]:
    """One JSON document, a list of them, or one a line."""
    try:
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = [json.loads(line) for line in text.splitlines() if line.strip()]
        items = parsed if isinstance(parsed, list) else [parsed]
        context: dict[str, Any] | None = None
        entries: list[_Entry] = []
        for item in items:
            if isinstance(item, dict) and "record" in item and "context" in item:
                entries.append(_Entry.model_validate(item))
                continue
            if context is None:
                filled = {"cluster": CLUSTER, "workspace": WORKSPACE} | {name: value for name, value in told.items() if value is not None}
                context = filled if "tenant" in filled else filled | {"tenant": tenant_of(url)}
            entries.append(_Entry(record=MetadataRecord.model_validate(item), context=MetadataContext.model_validate(context)))
    except ValidationError as error:
        first = error.errors()[0]
        raise typer.BadParameter(f"not a record: {'.'.join(str(step) for step in first['loc'])}: {first['msg']}") from None
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}") from None
    return entries


def _judge(entries: list[_Entry], url: str | None, *, as_json: bool) -> None:
    """What the repository would say of each, without storing any."""
    problems: list[dict[str, Any]] = []
    admission = Admission()
    with opened(url, entries[0].context.tenant if entries else None) as (repository, _):
        for entry in entries:
            try:
                admission.judge(entry.record, repository.kind(entry.record.kind, entry.record.version))
            except TracelakeError as error:
                problems.append(error.problem())
    if as_json:
        print_json({"dry_run": True, "would_be_taken": len(entries) - len(problems), "problems": problems})
    else:
        say(f"{counted(len(entries) - len(problems), 'record')} would be taken, {len(problems)} refused. Nothing was changed.")
        for problem in problems:
            say(Text.assemble(("refused ", "red"), f"[{problem['code']}] {clean(problem['detail'])}"))
    if problems:
        raise typer.Exit(1)


def latest(target: str, kind: str, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    """None at all is exit code 1."""
    with opened(url, tenant) as (repository, context):
        found = repository.latest(target_of(target), kind, context)
    if as_json:
        print_json(found)
    elif found is None:
        say(f"There is no record of kind {kind} about {target}.")
    else:
        _print_one(found)
    if found is None:
        raise typer.Exit(1)


def history(target: str, kind: str, *, limit: int, window: Window | None, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        page = repository.history(target_of(target), kind, context, limit=limit, window=window)
    _print_page(page, as_json=as_json, next_words=None)


def query(filters: RecordFilters, *, url: str | None, tenant: str | None, words: Sequence[str], as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        page = repository.query(filters, context)
    _print_page(page, as_json=as_json, next_words=[*words, "--page", page.next] if page.next else None)


def aggregate(filters: RecordFilters, aggregation: Aggregation, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        groups = repository.aggregate(filters, aggregation, context)
    if as_json:
        print_json(groups)
        return
    columns = [*(Column(name) for name in aggregation.group_by), Column(aggregation.metric.value, right=True), Column("records", right=True)]
    rows: list[list[Cell]] = [[*(_cell(group.group[name]) for name in aggregation.group_by), _cell(group.value), str(group.records)] for group in groups]
    print_table(columns, rows)


def targets(kind: str | None, *, url: str | None, tenant: str | None, as_json: bool) -> None:
    with opened(url, tenant) as (repository, context):
        found = repository.targets(context, kind)
    if as_json:
        print_json(found)
    elif not found:
        say("There is no record.")
    else:
        print_table([Column("target"), Column("extras", folds=True)], [[target_words(target), _cell(target.extras) if target.extras else ""] for target in found])


def tail(*, kinds: list[str], offset: str | None, limit: int, follow: bool, url: str | None, tenant: str | None, as_json: bool) -> None:
    """As JSON, one line a page, with the offset to go on from."""
    if follow:
        _follow(kinds, offset, limit, url, tenant, as_json=as_json)
        return
    with opened(url, tenant) as (repository, context):
        page = repository.tail(context, offset, kinds=kinds, limit=limit)
    _print_tail(page, as_json=as_json)
    if not as_json:
        say(f"  {again('record', 'tail', *(word for kind in kinds for word in ('--kind', kind)), '--offset', page.offset)}")


def _follow(kinds: list[str], offset: str | None, limit: int, url: str | None, tenant: str | None, *, as_json: bool) -> None:
    try:
        with opened(url, tenant) as (repository, context):
            for page in following.follow(repository, context, offset, kinds=kinds, limit=limit, broken=_say_broken):
                if page.items:
                    _print_tail(page, as_json=as_json)
    except KeyboardInterrupt:
        return  # who follows ends it so


def _say_broken(error: TracelakeError) -> None:
    # On stderr, so that what is printed is records alone.
    say(f"Cut off [{error.code}]; it goes on behind the last record as soon as there is an answer.", to=Console(stderr=True, markup=False, highlight=False))


def _print_tail(page: TailPage, *, as_json: bool) -> None:
    if as_json:
        typer.echo(page.model_dump_json())
    elif page.items:
        print_table(_COLUMNS, [_row(stored) for stored in page.items])


def _print_page(page: RecordPage, *, as_json: bool, next_words: Sequence[str] | None) -> None:
    if as_json:
        print_json(page)
        return
    if page.items:
        print_table(_COLUMNS, [_row(stored) for stored in page.items])
    else:
        say("There is no such record.")
    for dropped in page.dropped:
        say(f"Records of kind {dropped.kind} that were produced before {instant(dropped.before)} are gone by their retention.")
    if next_words is not None:
        say()
        say("There is more:")
        say(f"  {again(*next_words)}")


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
