"""The command line `tracelake`: its commands, and how an error ends it."""

import os
import sys

try:
    import typer
except ModuleNotFoundError:
    raise SystemExit("The command line is an extra of the SDK; install `tracelake-sdk[cli]`.") from None

from tracelake_sdk.cli.commands import admin, dags, datasets, guard, queries, records, system, tasks
from tracelake_sdk.cli.invocation import pasteable, program
from tracelake_sdk.errors import SettingInvalid, TracelakeError

_FAILED = 1
_USAGE = 2

app = typer.Typer(
    help="Tracelake: pipelines as DAGs, every event and every run accounted for.",
    epilog="Address and token are found in TRACELAKE_HOME, or given by TRACELAKE_API_URL and TRACELAKE_TOKEN."
    " Exit codes: 0 done, 1 failed, 2 wrong usage, 3 still running at --timeout, 4 blocked by the gate.",
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
)  # fmt: skip
for _command in (system.up, system.demo, system.init, system.schema, system.doctor, dags.deploy, dags.run, dags.status, dags.events, dags.log, dags.pause, dags.resume):
    app.command()(_command)
for _command in (datasets.explain, queries.query, queries.replay, system.version):
    app.command()(_command)
for _name, _nouns in (
    ("task", tasks.tasks_app), ("dataset", datasets.datasets_app), ("rule", guard.rules_app), ("policy", guard.policies_app), ("promotion", guard.promotions_app),
    ("record", records.record_app), ("kind", records.kind_app), ("admin", admin.admin_app),
):  # fmt: skip
    app.add_typer(_nouns, name=_name)


def main() -> None:
    """Run one command; an error is one line on stderr, never a trace."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]  a terminal that lacks a letter shows another
    try:
        app(prog_name=program())
    except TracelakeError as error:
        _complain(error)
        sys.exit(_USAGE if isinstance(error, SettingInvalid) else _FAILED)
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader closed the pipe; flushing the rest must not fail when the interpreter exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: TracelakeError) -> None:
    from tracelake_sdk.cli.printing import clean

    detail = " ".join(pasteable(error.detail).split())
    print(clean(f"error [{error.code}]: {detail}" + (f" (id {error.id})" if error.id else "")), file=sys.stderr)
