"""What tests do with workers."""

from collections.abc import Callable

from tracelake.worker.dispatcher.dispatcher_worker import DispatcherWorker

Hire = Callable[..., DispatcherWorker]


def run_until_idle(worker: DispatcherWorker) -> list[int]:
    """The sizes of the batches that it had."""
    batches: list[int] = []
    while had := worker.run_once():
        batches.append(had)
    return batches
