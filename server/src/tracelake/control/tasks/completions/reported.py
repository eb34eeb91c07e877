"""Reported outputs: the content of a successful report of a task that writes files, checked against its attempt. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracelake.control.dags.store import Job, Output
from tracelake.control.tasks.judgement import AttemptRow, LockedTask
from tracelake.storage.paths import UnsafePath, plain, staging_folder
from tracelake_sdk.dags import NullKeys, UpdateStrategy
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.datasets.scopes import FullScope, Scope, covers
from tracelake_sdk.errors import Invalid
from tracelake_sdk.tasks import Completion

_WRITTEN_AGAIN = re.compile(r"-u[0-9a-f]{16}(?=\.parquet$)")


@dataclass(frozen=True)
class Reported:
    """A successful report of a task that writes files, under the locks of its line and its task."""

    report: Completion
    task: LockedTask
    attempt: AttemptRow
    job: Job
    outputs: list[Output]
    adopted: Sequence[str]  # the paths of the files of the batch that the task adopts

    @property
    def strategy(self) -> UpdateStrategy:
        return UpdateStrategy(self.job.stored.update_strategy)  # every job that writes files has one

    @property
    def needed_key(self) -> tuple[str, ...]:
        """The columns in which no row of an append may have a null; none if the job declares such rows as distinct."""
        job = self.job.stored
        needed = self.strategy is UpdateStrategy.APPEND and job.null_keys is NullKeys.BLOCK
        return job.unique_key if needed else ()

    @property
    def base(self) -> int:
        """The base it was measured against: the last one of the attempt, or an earlier one if an answer was lost."""
        return self.report.base or 0

    def rewritten(self, measured: OutputMeasured) -> Sequence[Scope]:
        """The scopes that the report writes; the full scope if everything was announced."""
        return [FullScope()] if self.attempt.announced(measured.index).everything else measured.scopes


def checked_outputs(given: Reported) -> dict[int, OutputMeasured]:
    """By output index: exactly the outputs of the job, with files only in this attempt's folder."""
    measured = {output.index: output for output in given.report.outputs}
    if sorted(measured) != [output.output_index for output in given.outputs] or len(measured) != len(given.report.outputs):
        raise Invalid(f"The report must measure each of the job's {len(given.outputs)} outputs once.")
    _check_base(given.report.base, given.attempt)
    if given.report.events:
        raise Invalid("Events about a dataset with files are emitted when its version is recorded; report none.")
    folder = f"{staging_folder(given.task.id, given.attempt.attempt)}/"
    for output in measured.values():
        if len({file.path for file in output.files}) < len(output.files):
            raise Invalid("The report names a file twice.")
        for path in [path for file in output.files for path in (file.path, file.hashes) if path is not None]:
            _check_path(path, folder, given.adopted)
    return {index: _as_announced(given, output) for index, output in measured.items()}


def _check_base(reported: int | None, attempt: AttemptRow) -> None:
    """An earlier base is accepted after the attempt got a later one: that answer may have been lost, and an earlier base only sees more changes."""
    if reported is None or attempt.base is None or reported > attempt.base or reported < 0 or (reported < attempt.base and not attempt.rebases):
        raise Invalid("The outputs were measured against another base than this attempt was given; measure again.")


def _as_announced(given: Reported, output: OutputMeasured) -> OutputMeasured:
    """A replace overwrites what was announced, all of it and nothing else: a scope that the report does not name becomes empty."""
    announced = given.attempt.announced(output.index)
    if given.strategy is not UpdateStrategy.REPLACE or announced.everything:
        return output
    if not output.outside_scope and not all(any(covers(mine, scope) for mine in announced.scopes) for scope in output.scopes):
        raise Invalid("The report writes a scope outside the declared scopes of its attempt.")
    return output.model_copy(update={"scopes": list(announced.scopes)})


def _check_path(path: str, folder: str, adopted: Sequence[str]) -> None:
    try:
        plain(path)
    except UnsafePath as unsafe:
        raise Invalid(f"A file of the report has an invalid name: {unsafe}.") from None
    if not path.startswith(folder) and _first_name(path) not in {_first_name(file) for file in adopted}:
        raise Invalid("The report names a file outside its attempt's own staging folder.")


def _first_name(path: str) -> str:
    """The base name of a file before measuring rewrote it without some rows, and of the file whose keys are stored next to it."""
    return _WRITTEN_AGAIN.sub("", path.removesuffix(".keys"))


def adds_nothing(given: Reported, measured: dict[int, OutputMeasured]) -> bool:
    """An append without rows, or a replace without rows and columns: neither can make a table."""
    if any(output.files for output in measured.values()):
        return False
    return given.strategy is UpdateStrategy.APPEND or not any(output.table_schema["fields"] for output in measured.values())
