"""Loop reports: a worker reports its failing loops to control, because a worker has no HTTP interface."""

from collections.abc import Sequence

from tracelake.loops import Loop, Loops
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.tasks import MAX_FAILING_LOOPS, FailingLoop, HeartbeatRequest

_PAUSE_SECONDS = 5.0


class LoopReports:
    """`run_once()` reports failing loops as long as they fail, and once more when none fails."""

    def __init__(self, control: TaskClient, worker: str, watched: Sequence[Loops]) -> None:
        self._control: TaskClient = control
        self._worker: str = worker
        self._watched: list[Loops] = list(watched)
        self._reported: bool = False
        self.loop: Loop = Loop("loop reports", self.run_once, pause=_PAUSE_SECONDS)

    def run_once(self) -> None:
        codes = {status.name: status.code for loops in self._watched for status in loops.failing() if status.code}
        if not codes and not self._reported:
            return
        failing = [FailingLoop(loop=name, code=code) for name, code in codes.items()][:MAX_FAILING_LOOPS]
        self._control.heartbeat(HeartbeatRequest(worker=self._worker, fences=[], failing=failing))
        self._reported = bool(codes)
