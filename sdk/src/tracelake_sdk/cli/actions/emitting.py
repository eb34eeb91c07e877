"""`record emit`: emits the records of a file or standard input to a repository, or keeps them in the spool."""

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.text import Text

from tracelake_sdk.cli.actions.repositories import CLUSTER, WORKSPACE, asks_service, opened, read_text, spool_of, spool_words, tenant_of
from tracelake_sdk.cli.invocation import again, pasteable
from tracelake_sdk.cli.printing import clean, print_json, say
from tracelake_sdk.cli.wording import fault
from tracelake_sdk.errors import NotRunning, TracelakeError, Unauthenticated
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.records import MetadataContext, MetadataRecord, StoreResult
from tracelake_sdk.records.emitter import Emitter, set_aside
from tracelake_sdk.records.identity import canonical
from tracelake_sdk.records.repository.admission import RecordAdmission, same_tenant, small_enough
from tracelake_sdk.records.repository.opening import open_repository
from tracelake_sdk.wording import counted

_CUT_OFF = 130  # exit code after Ctrl-C


class _Entry(BaseModel):
    """A record, with or without its own context."""

    model_config = ConfigDict(extra="forbid")

    record: MetadataRecord
    context: MetadataContext


class _Later:
    """Opens the repository at the first delivery, so that records are accepted also while it is down."""

    def __init__(self, url: str | None) -> None:
        self._url = url

    def bulk_store(self, records: Sequence[MetadataRecord], context: MetadataContext) -> list[StoreResult]:
        repository = open_repository(self._url, tenant=context.tenant)
        try:
            return repository.bulk_store(records, context)
        finally:
            repository.close()


def emit(file: str, *, url: str | None, context: dict[str, str | None], spool: Path | None, wait: float, dry_run: bool, as_json: bool) -> None:
    """Records that cannot be delivered now wait in the spool; refused records mean exit code 1."""
    entries = _entries(read_text(file), url, context)
    if dry_run:
        _judge(entries, url, as_json=as_json)
        return
    _look_at(url)
    folder = spool or spool_of(url)
    before = {line.entry for line in set_aside(folder)}
    logging.getLogger("tracelake_sdk").addHandler(logging.NullHandler())  # refused records are printed below instead
    emitter = Emitter(_Later(url), folder)  # pyright: ignore[reportArgumentType]  # of a repository it needs this one method
    for entry in entries:
        emitter.emit(entry.record, entry.context)
    cut_off = _waited(emitter, wait)
    status = emitter.status()
    emitter.close(timeout=1.0)
    refused = [line for line in set_aside(folder) if line.entry not in before]
    if as_json:
        print_json({**asdict(status), "spool": str(folder), "set_aside": [asdict(line) for line in refused]})
    else:
        say(f"{counted(status.stored, 'record')} stored, {status.same} already known, {status.refused} refused, {status.waiting} waiting.")
        for line in refused:
            _say_refused(line.problem)
        if status.waiting:
            say(f"Waiting records are kept in {folder}: {(status.problem or {}).get('detail', 'the repository did not accept them in time.')}")
            say(f"  {again('record', 'flush', *spool_words(url, spool), *(['--tenant', named] if (named := context['tenant']) else []))}")
    if status.refused or cut_off:
        raise typer.Exit(1 if status.refused else _CUT_OFF)


def _look_at(url: str | None) -> None:
    """Raises SettingInvalid if the address is not valid. A repository that does not answer is not an error here."""
    with suppress(NotRunning, Unauthenticated):
        open_repository(url).close()


def _waited(emitter: Emitter, seconds: float) -> bool:
    """Returns False if the user interrupted the wait; the emitted records stay in the spool."""
    try:
        emitter.flush(seconds)
    except KeyboardInterrupt:
        return True
    return False


def _entries(text: str, url: str | None, options: dict[str, str | None]) -> list[_Entry]:
    items = _items(text)
    context: MetadataContext | None = None
    entries: list[_Entry] = []
    for number, item in enumerate(items, start=1):
        try:
            if isinstance(item, dict) and "record" in item and "context" in item:
                entries.append(_Entry.model_validate(item))
                continue
            record = MetadataRecord.model_validate(item)
            context = context or _context(url, options)
            entries.append(_Entry(record=record, context=context))
        except ValidationError as error:
            which = "not a record" if len(items) == 1 else f"number {number} of {len(items)} is not a record, and none was emitted"
            raise typer.BadParameter(f"{which}: {fault(error, placed=True)}") from None
    return entries


def _items(text: str) -> list[Any]:
    """One JSON document, a list of them, or one per line."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        if lines and not _is_json(lines[0][1]):  # one document over several lines
            raise typer.BadParameter(f"not JSON: {error}") from None
        return [_item(number, line) for number, line in lines]
    return parsed if isinstance(parsed, list) else [parsed]


def _item(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"line {number} is not JSON: {str(error).replace('line 1 column', 'column')}") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _context(url: str | None, options: dict[str, str | None]) -> MetadataContext:
    filled = {"cluster": CLUSTER, "workspace": WORKSPACE} | {name: value for name, value in options.items() if value is not None}
    if "tenant" not in filled:
        try:
            filled["tenant"] = tenant_of(url)
        except (NotRunning, RepositoryUnavailable) as error:
            detail = f"{error.detail} Nothing was emitted, because the tenant is unknown while the service does not answer; with --tenant NAME the records wait in the spool."
            raise RepositoryUnavailable(detail) from None
    return MetadataContext.model_validate(filled)


def _judge(entries: list[_Entry], url: str | None, *, as_json: bool) -> None:
    """Checks each record against the repository, without storing any."""
    problems: list[dict[str, Any]] = []
    admission = RecordAdmission()
    owner = tenant_of(url) if asks_service(url) else None
    with opened(url, owner or (entries[0].context.tenant if entries else None)) as (repository, context):
        for entry in entries:
            try:
                same_tenant(entry.context, context.tenant)
                small_enough(canonical(entry.record.model_dump(mode="json")))
                admission.judge(entry.record, repository.kind(entry.record.kind, entry.record.version))
            except TracelakeError as error:
                problems.append(error.problem())
    if as_json:
        print_json({"dry_run": True, "would_be_taken": len(entries) - len(problems), "problems": problems})
    else:
        say(f"{counted(len(entries) - len(problems), 'record')} would be accepted, {len(problems)} refused. Nothing was changed.")
        for problem in problems:
            _say_refused(problem)
    if problems:
        raise typer.Exit(1)


def _say_refused(problem: dict[str, Any]) -> None:
    say(Text.assemble(("refused ", "red"), f"[{problem.get('code')}] {pasteable(clean(str(problem.get('detail'))))}"))
