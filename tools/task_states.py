"""Writes `docs/reference/task-states.md`: the states of a task, drawn from the table that the service asks.

With `--check` nothing is written and a stale page is an error.
"""

import sys
from collections import defaultdict
from pathlib import Path

from tools.generated import ROOT, settle
from tracelake.control.tasks.task_state import FINAL, TRANSITIONS
from tracelake_sdk.tasks import TaskState

PAGE = Path("docs/reference/task-states.md")
HEAD = """# The states of a task

Drawn from the one table that the service asks before it writes anything. A move that is not here is refused with
`illegal_transition`. A lease that ran out puts a task back into the queue, and its slow worker is still welcome until
somebody else has started: that is why a queued task may finish.

```mermaid
stateDiagram-v2
    [*] --> queued
"""


def page() -> str:
    moves: dict[tuple[TaskState, TaskState], list[str]] = defaultdict(list)
    for (state, move), after in TRANSITIONS.items():
        moves[state, after].append(move.value)
    lines = [f"    {state.value} --> {after.value}: {', '.join(names)}" for (state, after), names in moves.items()]
    lines += [f"    {state.value} --> [*]" for state in TaskState if state in FINAL]
    return HEAD + "\n".join(lines) + "\n```\n"


def main(arguments: list[str], root: Path = ROOT) -> int:
    return settle(PAGE, page(), arguments, root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
