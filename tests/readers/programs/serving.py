"""What every reader program does: one question a line on stdin, the rows into a file, one line back. Needs nothing but pyarrow."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa


def serve(actions: dict[str, Callable[..., Any]]) -> None:
    """Until stdin ends. What an action answers as an Arrow table goes into the question's `into`."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines that print do not answer
    for line in sys.stdin:
        question = json.loads(line)
        into = question.pop("into")
        try:
            table = actions[question.pop("action")](**question)
            if table is not None:
                with pa.OSFile(into, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                    writer.write_table(table)
            said = {"ok": True}
        except Exception as error:  # the test says what it thinks of it
            traceback.print_exc()
            said = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(said), file=answers, flush=True)
    os._exit(0)  # engines that abort at exit have answered already
