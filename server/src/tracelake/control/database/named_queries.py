"""Named queries: SQL in `.sql` files beside the store that uses them.

Only the loader turns a file into queries, and its results are `LiteralString`: the type checker refuses
a query that is built at run time.
"""

import re
from importlib.resources import files
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def load(module: str, file: str) -> dict[str, LiteralString]:
    """The queries of `file`, which is next to `module`, by the names in their `-- name:` lines."""
    text = files(module.rpartition(".")[0]).joinpath(file).read_text()
    parts = _NAME.split(text)[1:]
    queries = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return cast("dict[str, LiteralString]", queries)
