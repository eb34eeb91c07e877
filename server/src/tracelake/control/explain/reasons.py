"""Reasons: why a dataset is fresh, blocked, behind or empty, in sentences with their remedies. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracelake.control.explain.store import CandidateRow, DatasetRow, InputNow, LineRow, PartRow, RunRow, StandingStill, WorkRow
from tracelake_sdk.dags import Activation
from tracelake_sdk.datasets import PinnedVersion, Reason
from tracelake_sdk.runs import RunStatus
from tracelake_sdk.tasks import TaskState, Waits

_WAITS = {
    Waits.TURN.value: "wait for their turn: earlier tasks of the job come first",
    Waits.PAUSED.value: "are held because the job or its DAG is paused",
    Waits.RETRY.value: "wait to be tried again",
    Waits.INPUT.value: "wait for the first version of an input",
    Waits.LINE.value: "wait for their line: it is stopped, full, or reserved for another task",
    None: "are queued for a worker",
}


@dataclass(frozen=True)
class Known:
    """Everything that is known about one dataset now."""

    dataset: DatasetRow
    line: LineRow | None
    work: Sequence[WorkRow]
    candidate: CandidateRow | None    # the newest
    run: RunRow | None                # the newest
    inputs: Sequence[InputNow]
    still: Sequence[StandingStill]    # what it is made from, at any distance
    last: PartRow | None              # the last part of the current version
    read: Sequence[PinnedVersion]     # by that part


def reasons(known: Known) -> list[Reason]:
    return [*_stopped(known), *_refused(known), *_on_its_way(known), *_behind(known), *_held_up(known), *_state(known)]


def _stopped(known: Known) -> Iterator[Reason]:
    line, job = known.line, f"{known.dataset.dag}/{known.dataset.job}"
    if line is None:
        return
    if line.stopped_reason:
        yield Reason(code="stopped", sentence=line.stopped_reason, remedy=f"Remove the foreign entry, then `tracelake resume {job}`.")
    if line.dag_paused_at:
        yield Reason(code="paused", sentence=f"The DAG {known.dataset.dag} is paused.", remedy=f"`tracelake resume {known.dataset.dag}`")
    if line.paused_at:
        yield Reason(code="paused", sentence=f"The job {job} is paused: {line.pause_reason}", remedy=f"Mend the cause, then `tracelake resume {job}`.")


def _refused(known: Known) -> Iterator[Reason]:
    if known.candidate is not None and not known.candidate.allowed:
        yield Reason(
            code="blocked",
            sentence=f"The newest candidate, run {known.candidate.run_id}, was blocked at {known.candidate.stage}: {known.candidate.reason}",
            remedy="Mend the data or the rule; only a new run is judged anew.",
        )
    elif known.run is not None and known.run.status == RunStatus.FAILED.value:
        yield _failed(known.run)


def _failed(run: RunRow) -> Reason:
    """A failed attempt is the task's failure only where the task is final."""
    match run.task_state:
        case TaskState.FAILED.value:
            return Reason(code="failed", sentence=f"The newest run, {run.run_id}, failed: {run.error_message}", remedy=f"`tracelake task show {run.task_id}`")
        case TaskState.CANCELED.value:
            return Reason(code="canceled", sentence=f"The newest task, {run.task_id}, was canceled.", remedy=None)
        case _:
            sentence = f"Attempt {run.attempt} of task {run.task_id} failed and is retried: {run.error_message}"
            return Reason(code="retrying", sentence=sentence, remedy=f"`tracelake task show {run.task_id}`")


def _on_its_way(known: Known) -> Iterator[Reason]:
    for row in known.work:
        number = f"{row.number:,} task{'' if row.number == 1 else 's'}"
        match row.state:
            case TaskState.RUNNING.value:
                yield Reason(code="working", sentence=f"{number} of its job run now.")
            case TaskState.COMMITTING.value:
                yield Reason(code="working", sentence=f"{number} of its job are decided and being committed.")
            case _:
                yield Reason(code="waiting", sentence=f"{number} of its job {_WAITS[row.waits]}.")


def _behind(known: Known) -> Iterator[Reason]:
    read = {pin.dataset_uuid: pin.version for pin in known.read}
    for input in known.inputs:
        name = input.name or str(input.dataset_id)
        if input.has_files and input.version is None:
            yield Reason(code="waiting", sentence=f"Its input {name} has no version yet.", remedy=f"`tracelake explain {name}`")
        elif input.version is not None and read.get(input.dataset_id, input.version) < input.version:
            sentence = f"It was made from version {read[input.dataset_id]} of {name}, which is at version {input.version} now."
            heard = None if input.trigger else "That input does not start its job (`trigger: false`); the next run reads it."
            yield Reason(code="behind", sentence=sentence, remedy=heard)


def _held_up(known: Known) -> Iterator[Reason]:
    for above in known.still:
        name = above.name or str(above.dataset_id)
        why = f"its job {above.dag}/{above.job} is paused" if above.paused else "its newest candidate was blocked"
        yield Reason(code="waiting", sentence=f"Nothing new comes from {name}, which it is made from: {why}.", remedy=f"`tracelake explain {name}`")


def _state(known: Known) -> Iterator[Reason]:
    dataset = known.dataset
    if not dataset.has_files:
        yield Reason(code="fresh", sentence="It is told in events and ranges only; it has no rows and no versions.")
    elif dataset.version is None:
        source = known.line is not None and known.line.activation == Activation.SOURCE.value
        remedy = f"`tracelake run {dataset.dag}/{dataset.job}`" if source else None
        yield Reason(code="empty", sentence="It has no version yet: no run of its job was allowed.", remedy=remedy)
    else:
        by = f" by run {known.last.run_id}" if known.last else ""
        pins = ", ".join(f"{pin.name or pin.dataset_uuid} version {pin.version}" for pin in known.read)
        made = f" from {pins}" if pins else ""
        why = f" {known.last.reason}" if known.last else ""
        yield Reason(code="fresh", sentence=f"Readers see version {dataset.version} ({dataset.row_count:,} rows), made{by}{made}.{why}")
