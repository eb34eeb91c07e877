"""Lists: one page, and the command that shows the next one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tracelake_sdk.cli.dags import job_of
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, Column, print_json, print_table, say
from tracelake_sdk.cli.targets import Target
from tracelake_sdk.client import Client
from tracelake_sdk.pages import Page

Item = TypeVar("Item")


@dataclass(frozen=True)
class Asked:
    """What a list was asked for, so that the next page can be asked for in the same words."""

    command: Sequence[str]
    target: Target | None
    limit: int
    token: str | None
    options: Sequence[str] = field(default=())

    @property
    def filters(self) -> dict[str, str | None]:
        return {"dag": self.target.dag if self.target else None, "job": self.target.job if self.target else None}

    def next_page(self, token: str) -> str:
        target = [str(self.target)] if self.target else []
        return again(*self.command, *target, *self.options, "--limit", str(self.limit), "--token", token)


def print_page(
    client: Client, page: Page[Item], columns: Sequence[Column], row: Callable[[Item], Sequence[Cell]], asked: Asked, *, as_json: bool, nothing: str
) -> None:
    rows = [row(item) for item in page.items]
    print_rows(client, page, columns, rows, asked, as_json=as_json, nothing=nothing)


def print_rows(
    client: Client, page: Page[Item], columns: Sequence[Column], rows: Sequence[Sequence[Cell]], asked: Asked, *, as_json: bool, nothing: str
) -> None:
    """A page whose items take the rows they take; a target that does not exist is an error, not an empty list."""
    if not page.items and asked.target is not None:
        dag = client.dags.get(asked.target.dag)
        if asked.target.job is not None:
            job_of(dag, asked.target.job)
    if as_json:
        print_json(page)
    elif not page.items:
        say(nothing)
    else:
        print_table(columns, rows)
        if page.next is not None:
            say()
            say("Next page:")
            say(f"  {asked.next_page(page.next)}")
