"""What tests of processes have in common: starting one that surely goes, and waiting for what must come."""

import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def eventually(holds: Callable[[], object], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def begun(command: Sequence[str | Path], **options: Any) -> Generator[subprocess.Popen[Any]]:
    """A process that is gone after the block, however the block ends."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()
