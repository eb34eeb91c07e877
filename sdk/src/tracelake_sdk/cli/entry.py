"""Where `tracelake` begins. `up` marks its home as starting before anything that takes time is imported, so that a command right after it waits."""

import sys
from functools import cache

from tracelake_sdk.home import HomeFiles, default_home


def main() -> None:
    if sys.argv[1:] == ["up"]:
        hold_home()
    from tracelake_sdk.cli.main import main as run  # imports the whole command line

    run()


@cache
def hold_home() -> int | None:
    """The descriptor that holds the lock of this process's home, taken once; None if it cannot be taken: then the server reports why."""
    return HomeFiles(default_home()).hold()
