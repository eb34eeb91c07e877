"""A process that has used an engine ends without output, even if one of its threads still holds the engine."""

import subprocess
import sys

import pytest

PROGRAM = """
import threading

from {module} import {engine} as Engine

def hold(held: object) -> None:
    threading.Event().wait()

threading.Thread(target=hold, args=[Engine], daemon=True).start()
"""


@pytest.mark.parametrize(("module", "engine"), [("tracelake.query.engine.engine", "Engine"), ("tracelake.worker.measuring.engine", "CountingEngine")])
def test_an_engine_that_exists_at_exit_causes_no_warning(module: str, engine: str) -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM.format(module=module, engine=engine)], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
