"""Lists: one page, and the command that shows the next one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tracelake_sdk.cli.actions.dags import job_of
from tracelake_sdk.cli.invocation import again
from tracelake_sdk.cli.printing import Cell, TableColumn, print_json, print_table, say
from tracelake_sdk.cli.targets import Target
from tracelake_sdk.client import Client
from tracelake_sdk.pages import Page

Item = TypeVar("Item")


@dataclass(frozen=True)
class ListCommand:
    """The command that printed a list, from which the command for the next page is made."""

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
    client: Client, page: Page[Item], columns: Sequence[TableColumn], row: Callable[[Item], Sequence[Cell]], command: ListCommand, *, as_json: bool, nothing: str
) -> None:
    rows = [row(item) for item in page.items]
    print_rows(client, page, columns, rows, command, as_json=as_json, nothing=nothing)


def print_rows(
    client: Client, page: Page[Item], columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], command: ListCommand, *, as_json: bool, nothing: str
) -> None:
    """Prints a page whose items may take several rows; a target that does not exist is an error, not an empty list."""
    if not page.items and command.target is not None:
        dag = client.dags.get(command.target.dag)
        if command.target.job is not None:
            job_of(dag, command.target.job)
    if as_json:
        print_json(page)
    elif not page.items:
        say(nothing)
    else:
        print_table(columns, rows)
        if page.next is not None:
            say()
            say("Next page:")
            say(f"  {command.next_page(page.next)}")
