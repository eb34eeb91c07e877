"""Generated files: written again, or with `--check` compared with what is committed."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def settle(target: Path, text: str, arguments: list[str], root: Path = ROOT) -> int:
    """The exit code: a stale file is an error of `--check` and of nothing else."""
    path = root / target
    if "--check" not in arguments:
        path.write_text(text)
        return 0
    if not path.exists() or path.read_text() != text:
        print(f"{target} is stale: run `make docs` and commit it", file=sys.stderr)
        return 1
    return 0
