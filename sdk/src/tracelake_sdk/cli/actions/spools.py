"""`record flush` and `record refused`: deliver waiting records of a spool; list refused records and send them again."""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import typer
from pydantic import ValidationError

from tracelake_sdk.cli.actions.repositories import opened, spool_of, spool_words, target_words
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, TableColumn, clean, instant, print_json, print_table, say
from tracelake_sdk.records import MetadataTarget
from tracelake_sdk.records.emitter import FlushReport, SetAside, flush_folder, resend, set_aside
from tracelake_sdk.records.emitter.refusals import REFUSED, damaged_parts
from tracelake_sdk.wording import counted

_COLUMNS = [TableColumn("refused"), TableColumn("kind"), TableColumn("target"), TableColumn("run"), TableColumn("code"), TableColumn("reason", folds=True)]


def flush(*, refused: bool, url: str | None, tenant: str | None, spool: Path | None, as_json: bool) -> None:
    """Exit code 1 if records remain because the repository does not answer, or are refused again."""
    folder = spool or spool_of(url)
    sent: FlushReport | None = None
    report = FlushReport()
    with opened(url, tenant) as (repository, _):
        if refused:
            sent = resend(folder, repository)  # first: they are older, and records that are refused now are not sent twice
        if sent is None or sent.problem is None:
            report = flush_folder(folder, repository)
    aside = set_aside(folder)
    problem = report.problem or (sent.problem if sent else None)
    if as_json:
        shown = {**asdict(report), "problem": problem, "spool": str(folder), "set_aside": [asdict(line) for line in aside]}
        print_json(shown | ({"again": asdict(sent.delivered)} if sent else {}))
    else:
        _print_flush(report, sent, folder, len(aside), problem)
        if aside:
            say(f"  {again('record', 'refused', *spool_words(url, spool))}")
    if problem is not None or (sent is not None and sent.delivered.refused):
        raise typer.Exit(1)


def _print_flush(report: FlushReport, sent: FlushReport | None, folder: Path, aside: int, problem: dict[str, Any] | None) -> None:
    if sent is not None:
        done = sent.delivered
        if done.entries or aside:
            say(f"Refused records: {counted(done.stored, 'record')} stored, {done.same} already known, {done.refused} refused again.")
        else:
            say("No records were refused.")
    done = report.delivered
    say(f"{counted(done.stored, 'record')} stored, {done.same} already known, {done.refused} refused.")
    if report.living:
        say(f"Running processes that deliver their own records: {report.living}.")
    if problem is not None:
        say(f"The rest stays in the spool: {clean(str(problem.get('detail')))}")
    if aside:
        say(f"{counted(aside, 'record')} set aside in {folder / REFUSED}.")


def refused(*, limit: int, url: str | None, spool: Path | None, as_json: bool) -> None:
    """Works without the repository: refused records can be listed while it does not answer."""
    folder = spool or spool_of(url)
    aside = sorted(set_aside(folder), key=lambda line: line.at, reverse=True)
    damaged = damaged_parts(folder)
    if as_json:
        print_json({"spool": str(folder), "refused": len(aside), "items": [asdict(line) for line in aside[:limit]], "damaged": [str(path) for path in damaged]})
        return
    if aside:
        print_table(_COLUMNS, [_row(line) for line in aside[:limit]])
        say()
        if len(aside) > limit:
            say(f"The newest of {counted(len(aside), 'record')}.")
        say("Once the cause is fixed, send them again:")
        say(f"  {again('record', 'flush', '--refused', *spool_words(url, spool))}")
    else:
        say("No records are set aside.")
    for path in damaged:
        say(f"Part of a spool was damaged, and is kept unchanged: {path}")


def _row(line: SetAside) -> list[Cell]:
    record, context = _object(line.record), _object(line.context)
    problem = line.problem
    return [
        instant(datetime.fromisoformat(line.at)), clean(str(record.get("kind", ""))), _target(record), clean(str(context.get("run_id") or "")),
        clean(str(problem.get("code", ""))), clean(str(problem.get("detail", ""))),
    ]  # fmt: skip


def _target(record: dict[str, Any]) -> str:
    try:
        return clean(target_words(MetadataTarget.model_validate(record.get("target"))))
    except ValidationError:
        return ""  # refused because it is not a valid record


def _object(shown: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", shown) if isinstance(shown, dict) else {}
