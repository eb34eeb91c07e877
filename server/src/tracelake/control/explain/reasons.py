"""Reasons: why a dataset is fresh, blocked, behind or empty, in sentences with their remedies. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from tracelake.control.explain.store import BehindRow, CandidateRow, InputNow, LineRow, ListedDataset, NewestRunRow, PartRow, StalledUpstream, WorkRow
from tracelake.control.versions.spans import scope_of
from tracelake_sdk.dags import Activation, UpdateStrategy
from tracelake_sdk.datasets import PinnedVersion, Reason
from tracelake_sdk.tasks import TaskState, Waits
from tracelake_sdk.tasks.runs import RunStatus
from tracelake_sdk.wording import counted, plural, scope_words

_WAITS = {  # of one task, and of several
    Waits.TURN.value: ("waits for its turn", "wait for their turn", ": earlier tasks of the job come first"),
    Waits.PAUSED.value: ("is held", "are held", " because the job or its DAG is paused"),
    Waits.RETRY.value: ("waits to be retried", "wait to be retried", ""),
    Waits.INPUT.value: ("waits", "wait", " for the first version of an input"),
    Waits.LINE.value: ("waits for its line", "wait for their line", ": it is stopped, full, or reserved for another task"),
    Waits.RIGHT.value: ("waits", "wait", " for a permission: the user or service that activated the DAG may not read an input or use a location of the job"),
    None: ("is queued", "are queued", " for a worker"),
}
_REMEDIES = {
    Waits.RIGHT.value: "Ask an admin to grant the permission to one of their roles, or deploy the DAG again as a user who has it; the tasks then run by themselves. Their attempts name what is missing.",
}


@dataclass(frozen=True)
class BehindAbove:
    """An upstream dataset, and the input that it is behind."""

    name: str
    is_input: bool  # a direct input; else further upstream
    input: str


@dataclass(frozen=True)
class Known:
    """Everything that the reasons depend on, for one dataset."""

    dataset: ListedDataset
    line: LineRow | None
    work: Sequence[WorkRow]
    candidate: CandidateRow | None    # the newest
    run: NewestRunRow | None                # the newest
    inputs: Sequence[InputNow]
    behind: Mapping[UUID, Sequence[BehindRow]]  # by input: the first scopes that are older than its current version
    still: Sequence[StalledUpstream]    # upstream datasets at any distance
    last: PartRow | None              # the last part of the current version
    read: Sequence[PinnedVersion]     # inputs of that part
    above: Sequence[BehindAbove] = ()  # upstream datasets at any distance that are themselves behind an input


def reasons(known: Known) -> list[Reason]:
    held = list(_stopped(known))
    others = [*_refused(known), *_on_its_way(known), *_behind(known), *_above(known), *_held_up(known), *_state(known)]
    # Report only what stops the job: nothing else helps before that.
    return [*held, *(reason.model_copy(update={"remedy": None}) for reason in others)] if held else others


def _stopped(known: Known) -> Iterator[Reason]:
    line, job = known.line, f"{known.dataset.dag}/{known.dataset.job}"
    if line is None:
        return
    if line.stopped_reason:
        yield Reason(code="stopped", sentence=line.stopped_reason, remedy=f"Remove the foreign entry, then `tracelake resume {job}`.")
    if line.dag_paused_at:
        yield Reason(code="paused", sentence=f"The DAG {known.dataset.dag} is paused.", remedy=f"`tracelake resume {known.dataset.dag}`")
    if line.paused_at:
        yield Reason(code="paused", sentence=f"The job {job} is paused: {line.pause_reason}", remedy=f"Fix the cause, then `tracelake resume {job}`.")


def _refused(known: Known) -> Iterator[Reason]:
    if known.candidate is not None and not known.candidate.allowed:
        yield Reason(
            code="blocked",
            sentence=f"The newest candidate, run {known.candidate.run_id}, was blocked at {known.candidate.stage}: {known.candidate.reason}",
            remedy="Fix the data or the rule, then run again.",
        )
    elif known.run is not None and known.run.status == RunStatus.FAILED.value:
        yield _failed(known.run)


def _failed(run: NewestRunRow) -> Reason:
    """A failed attempt is a failure of the task only if the task is final."""
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
        tasks = f"{counted(row.number, 'task')} of its job"
        match row.state:
            case TaskState.RUNNING.value:
                yield Reason(code="working", sentence=f"{tasks} {plural(row.number, 'is', 'are')} running.")
            case TaskState.COMMITTING.value:
                yield Reason(code="working", sentence=f"{tasks} {plural(row.number, 'is', 'are')} decided and being committed.")
            case _:
                one, many, why = _WAITS[row.waits]
                yield Reason(code="waiting", sentence=f"{tasks} {plural(row.number, one, many)}{why}.", remedy=_REMEDIES.get(row.waits or ""))


def _behind(known: Known) -> Iterator[Reason]:
    for input in known.inputs:
        name = input.name or str(input.dataset_id)
        if input.has_files and input.version is None:
            yield Reason(code="waiting", sentence=f"Its input {name} has no version yet.", remedy=f"`tracelake explain {name}`")
        elif rows := known.behind.get(input.dataset_id):
            yield Reason(code="behind", sentence=_made_before(rows, name, input), remedy=_remedy_if_behind(known, input, name))


def _made_before(rows: Sequence[BehindRow], name: str, input: InputNow) -> str:
    """Freshness is judged scope by scope: which are behind, how many of how many, and the first of them."""
    first = rows[0]
    if first.total == 1:
        return f"It was made from version {first.version} of {name}, which is at version {input.version} now."
    listed = ", ".join(f"{scope_words(scope_of(row.scope))} (from version {row.version})" for row in rows)
    more = ", …" if first.number > len(rows) else ""
    number = f"At least {first.number:,}" if first.more else f"{first.number:,}"
    return f"{number} of its {first.total:,} scopes {plural(first.number, 'was', 'were')} made before version {input.version} of {name}: {listed}{more}."


def _remedy_if_behind(known: Known, input: InputNow, name: str) -> str | None:
    job = f"{known.dataset.dag}/{known.dataset.job}"
    rewrite = f"`tracelake run {job} --rewrite` rebuilds the table from it." if input.update_strategy == UpdateStrategy.REPLACE.value else "The next run of the job reads it."
    if not input.trigger:
        return f"A new version of {name} does not start the job (`trigger: false`). {rewrite}"
    return None if known.work else rewrite


def _above(known: Known) -> Iterator[Reason]:
    begins = "It is behind its inputs, and" if _is_behind(known) else "It is fresh with its inputs, but"
    for above in known.above:
        name = f"its input {above.name}" if above.is_input else f"{above.name}, which it is made from,"
        yield Reason(code="behind", sentence=f"{begins} {name} is behind {above.input}.", remedy=f"`tracelake explain {above.name}`")


def _is_behind(known: Known) -> bool:
    return any(known.behind.get(input.dataset_id) for input in known.inputs)


def _held_up(known: Known) -> Iterator[Reason]:
    for above in known.still:
        name = above.name or str(above.dataset_id)
        why = f"its job {above.dag}/{above.job} is paused" if above.paused else "its newest candidate was blocked"
        yield Reason(code="waiting", sentence=f"Its input {name} has no new versions: {why}.", remedy=f"`tracelake explain {name}`")


def _state(known: Known) -> Iterator[Reason]:
    dataset = known.dataset
    if not dataset.has_files:
        yield Reason(code="fresh", sentence="It has events and ranges only, no rows and no versions.")
    elif dataset.version is None:
        source = known.line is not None and known.line.activation == Activation.SOURCE.value
        remedy = f"`tracelake run {dataset.dag}/{dataset.job}`" if source else None
        if known.run is not None and known.run.status == RunStatus.SUCCESS.value and not known.work:
            remedy = f"Add rows to what the job reads, then {remedy}." if remedy else "Its first version comes with the first run that writes rows; check what the job reads and which rows it keeps."
            yield Reason(code="empty", sentence=f"The newest run, {known.run.run_id}, completed without rows, so there is no version yet.", remedy=remedy)
            return
        yield Reason(code="empty", sentence="It has no version yet: no run of its job has completed.", remedy=remedy)
    else:
        by = f" by run {known.last.run_id}" if known.last else ""
        pins = ", ".join(f"{pin.name or pin.dataset_uuid} version {pin.version}" for pin in known.read)
        made = f" from {pins}" if pins else ""
        why = f" {known.last.reason}" if known.last else ""
        code = "serving" if _is_behind(known) or known.above else "fresh"
        yield Reason(code=code, sentence=f"Readers see version {dataset.version} ({dataset.row_count:,} rows), made{by}{made}.{why}")
