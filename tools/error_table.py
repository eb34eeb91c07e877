"""Writes `docs/reference/errors.md`: every deliberate error, its wire code, its HTTP status and what to do.

With `--check` nothing is written, and a stale page is an error.
"""

import sys
from pathlib import Path

from tools.generated import ROOT, settle
from tracelake_sdk.errors import TracelakeError
from tracelake_sdk.errors import dags as dag_errors
from tracelake_sdk.errors import records as record_errors

PAGE = Path("docs/reference/errors.md")
HEAD = """\
# Errors

Every error that Tracelake raises on purpose. Over HTTP it is problem+json with this `code` and this status; the Python client raises it again as the class of this
name, from `{errors}`, `{dag_errors}` or `{record_errors}`; the command line prints `error [code]: …` and ends with exit code 1, for
`setting_invalid` with 2. The message may say more than the one here. Written by `make docs`.

| code | status | class | what it means and what to do |
| --- | --- | --- | --- |
"""


def page() -> str:
    head = HEAD.format(errors=TracelakeError.__module__, dag_errors=dag_errors.__name__, record_errors=record_errors.__name__)
    rows = [f"| `{code}` | {kind.status} | {kind.__name__} | {' '.join((kind.__doc__ or '').split()).replace('|', chr(92) + '|')} |" for code, kind in sorted(TracelakeError.registered.items())]
    return head + "\n".join(rows) + "\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(PAGE, page(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
