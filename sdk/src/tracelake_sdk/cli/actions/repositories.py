"""Which repository `record` and `kind` use, in which context, and how targets, conditions and windows are written."""

import hashlib
import json
import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import typer

from tracelake_sdk.cli.wording import fault
from tracelake_sdk.client import Client
from tracelake_sdk.client.addresses import find_system
from tracelake_sdk.datasets import Dataset
from tracelake_sdk.errors import NotFound, NotRunning
from tracelake_sdk.errors.records import RepositoryUnavailable
from tracelake_sdk.home import default_home
from tracelake_sdk.records import Comparison, MetadataContext, MetadataTarget, PathFilter, Window
from tracelake_sdk.records.builders import dataset_target
from tracelake_sdk.records.repository.contract import MetadataRepository
from tracelake_sdk.records.repository.opening import DEFAULT_TENANT, TOKEN_SETTING, URL_SETTING, is_service, open_repository

CLUSTER, WORKSPACE = "embedded", "main"  # defaults of a system
_OPERATIONS = {
    "!=": Comparison.NE, ">=": Comparison.GE, "<=": Comparison.LE, "=": Comparison.EQ, ">": Comparison.GT, "<": Comparison.LT,
}  # fmt: skip


@contextmanager
def opened(url: str | None, tenant: str | None) -> Generator[tuple[MetadataRepository, MetadataContext]]:
    """The repository that the arguments or the settings name, and a context to read in."""
    tenant = tenant or tenant_of(url)
    repository = open_repository(url, tenant=tenant)
    try:
        yield repository, MetadataContext(cluster=CLUSTER, workspace=WORKSPACE, tenant=tenant)
    finally:
        repository.close()


def tenant_of(url: str | None) -> str:
    """A service derives the tenant from the token; a folder has one tenant."""
    address = url or os.environ.get(URL_SETTING) or None
    if not asks_service(url):
        return DEFAULT_TENANT
    with Client(*find_system(address, os.environ.get(TOKEN_SETTING) or None)) as client:
        try:
            return client.me().org
        except NotRunning:
            if address is None:
                raise
            raise RepositoryUnavailable(f"Nothing answers at {client.api_url}; check --repository or {URL_SETTING}.") from None


def asks_service(url: str | None) -> bool:
    """Whether the repository that the arguments or the settings name is a service over HTTP."""
    address = url or os.environ.get(URL_SETTING)
    return not address or is_service(address)


def check_kinds(repository: MetadataRepository, kinds: Sequence[str]) -> None:
    """Raises KindUnknown, so that a misspelt kind does not look like one without records."""
    for kind in kinds:
        repository.kind(kind)


def spool_of(url: str | None) -> Path:
    """The spool folder of a repository: one per repository, whatever the working folder is."""
    address = url or os.environ.get(URL_SETTING) or ""
    return default_home() / "spool" / (hashlib.sha256(_one_spelling(address).encode()).hexdigest()[:12] if address else "system")


def _one_spelling(address: str) -> str:
    # `file:records` is relative to the working folder: records that wait for one folder must not go to another.
    if is_service(address) or (parts := urlsplit(address)).scheme == "s3":
        return address.rstrip("/")
    return str(Path(unquote(parts.path) if parts.scheme == "file" else address).expanduser().absolute())


def spool_words(url: str | None, spool: Path | None) -> list[str]:
    """The arguments that name the same repository and spool."""
    return [*(["--repository", url] if url else []), *(["--spool", str(spool)] if spool else [])]


def target_of(text: str) -> MetadataTarget:
    """`source/schema/table`, with %2F for a slash inside a name; a single word is a dataset of the running system."""
    parts = [unquote(part) for part in text.split("/")]
    match parts:
        case [source, schema, table] if source and schema and table:
            return MetadataTarget(source_id=source, schema=schema, table=table)
        case [name] if name:
            dataset = _dataset(name)
            return dataset_target(dataset.uuid, dataset.layer, name=dataset.name)
        case _:
            raise typer.BadParameter(f"{text!r} is neither SOURCE/SCHEMA/TABLE nor a dataset")


def _dataset(name: str) -> Dataset:
    try:
        with Client() as client:
            return client.datasets.get(name)
    except (NotRunning, NotFound) as error:
        raise type(error)(f"{error.detail} {name!r} was interpreted as a dataset; a table is written SOURCE/SCHEMA/TABLE.") from None


def target_words(target: MetadataTarget) -> str:
    return "/".join(quote(part, safe=" ") for part in target.key)


def window_of(text: str | None) -> Window | None:
    """`2026-03-01..2026-03-02`, half-open; a side may be omitted."""
    if text is None:
        return None
    start, dots, end = text.partition("..")
    if not dots:
        raise typer.BadParameter(f"{text!r} is not a valid window; write START..END, a side may be empty")
    try:
        return Window.model_validate({"start": _moment(start), "end": _moment(end)})
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a valid window: {fault(error)}") from None


def condition_of(text: str) -> PathFilter:
    """`payload.rows>=10`; a value that is not JSON is text. `payload.rows`: the path exists; `!payload.rows`: it does not."""
    found = [(text.index(sign), -len(sign), sign) for sign in _OPERATIONS if sign in text.lstrip("!")]
    try:
        if not found:
            return PathFilter(path=text.removeprefix("!"), op=Comparison.EXISTS, value=not text.startswith("!"))
        at, _, sign = min(found)
        value = _value(text[at + len(sign):])
        listed = sign == "=" and isinstance(value, list)
        return PathFilter(path=text[:at], op=Comparison.IN if listed else _OPERATIONS[sign], value=value)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a valid condition: {fault(error)}") from None


def read_text(file: str) -> str:
    """The text of a file; `-` is standard input."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read ({type(error).__name__})") from None


def _moment(text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a valid time; write 2026-03-01 or 2026-03-01T08:00:00Z") from None
    return moment if moment.tzinfo else datetime.fromisoformat(f"{moment.isoformat()}+00:00")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
