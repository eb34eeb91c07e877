"""Arguments of commands: `DAG` or `DAG/JOB`, and cursors."""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

import typer
from pydantic import ValidationError

from tracelake_sdk.dags.operators import EmitRequest
from tracelake_sdk.tasks import MAX_EVENTS

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER = re.compile(r"-?[0-9]+")
_SPAN = re.compile(r"(-?[0-9]+)\.\.(-?[0-9]+)")


@dataclass(frozen=True)
class Target:
    """A DAG, or one job of it."""

    dag: str
    job: str | None

    def __str__(self) -> str:
        return self.dag if self.job is None else f"{self.dag}/{self.job}"


def parse_target(text: str) -> Target:
    if _ID.fullmatch(text):
        raise typer.BadParameter(f"{text} is an id; `task show` shows a task, and a run is one attempt at it: `log {text}:1`", param_hint="DAG[/JOB]")
    dag, slash, job = text.partition("/")
    if not dag or (slash and not job) or "/" in job:
        raise typer.BadParameter(f"{text!r} is neither DAG nor DAG/JOB", param_hint="DAG[/JOB]")
    return Target(dag, job or None)


def parse_job(text: str) -> tuple[str, str]:
    target = parse_target(text)
    if target.job is None:
        raise typer.BadParameter(f"{text!r} is a DAG; name one of its jobs, as in {text}/JOB", param_hint="DAG/JOB")
    return target.dag, target.job


def parse_cursors(words: list[str]) -> list[int | str]:
    """`5`, `1..100` with both ends, times; any of them joined by commas, in the order written."""
    found: list[int | str] = []
    for word in (part.strip() for text in words for part in text.split(",")):
        if span := _SPAN.fullmatch(word):
            first, last = int(span[1]), int(span[2])
            if first > last:
                raise typer.BadParameter(f"{word} is empty; write the smaller number first", param_hint="--cursors")
            if last - first >= MAX_EVENTS:
                raise typer.BadParameter(f"{word} holds more than the {MAX_EVENTS} cursors of one request; send it in parts", param_hint="--cursors")
            found.extend(range(first, last + 1))
        else:
            found.append(int(word) if _NUMBER.fullmatch(word) else word)
    return found


def request_of(cursors: list[str], *, rewrite: bool, request: str | None) -> dict[str, Any]:
    """The request for a run; raises a usage error if the arguments do not form one."""
    if request is not None:
        if cursors or rewrite:
            raise typer.BadParameter("it already is the whole request; omit --cursor, --cursors and --rewrite", param_hint="--request")
        return _parsed(request)
    if not cursors:
        return {"rewrite": True} if rewrite else {}
    try:
        return EmitRequest.model_validate({"cursors": parse_cursors(cursors), "rewrite": rewrite}).model_dump(mode="json")
    except ValidationError as error:
        raise typer.BadParameter(str(error.errors()[0]["msg"]).removeprefix("Value error, "), param_hint="--cursors") from None


def _parsed(request: str) -> dict[str, Any]:
    try:
        parsed: Any = json.loads(request)
    except ValueError as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint="--request") from None
    if not isinstance(parsed, dict):
        raise typer.BadParameter("a request is a JSON object, such as {\"cursors\": [5]}", param_hint="--request")
    return cast("dict[str, Any]", parsed)
