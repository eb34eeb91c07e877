"""Measurement: which outputs of an attempt are measured, and which must be measured (again) before the next report."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tracelake.worker.measuring.contract import OutputToMeasure
from tracelake.worker.operator_failure import OperatorFailed
from tracelake.worker.spark.orders import staging_path
from tracelake_sdk.datasets.measurements import OutputMeasured
from tracelake_sdk.rules import RuleToMeasure
from tracelake_sdk.tasks import MissingRules, MovedOutput, StagedOutput, TaskPayload
from tracelake_sdk.tasks.operator_files import OperatorOutcome
from tracelake_sdk.wording import counted, plural


@dataclass(frozen=True)
class Measurement:
    """The outputs as they are first measured, the results so far, and the outputs that are due, by index."""

    requested: tuple[OutputToMeasure, ...]
    found: dict[int, OutputMeasured]
    due: dict[int, OutputToMeasure]

    @classmethod
    def of_outcome(cls, payload: TaskPayload, outcome: OperatorOutcome) -> "Measurement":
        staged = _staged(payload)
        return cls._first(
            OutputToMeasure(
                index=output.index, staged=staged[output.index], files=output.files, scopes=output.scopes,
                unique_key=payload.job.unique_key, update_strategy=payload.job.update_strategy,
            )
            for output in outcome.outputs
        )  # fmt: skip

    @classmethod
    def of_batch(cls, payload: TaskPayload) -> "Measurement":
        """Exactly the files of the batch, which an attempt of another task wrote."""
        batch, staged = payload.batch, _staged(payload)
        if batch is None or batch.output not in staged:
            raise OperatorFailed("batch_invalid", "The batch is of an output that the task does not have.", retry=False)
        return cls._first(
            [
                OutputToMeasure(
                    index=batch.output, staged=staged[batch.output], files=batch.files, adopted=True,
                    unique_key=payload.job.unique_key, update_strategy=payload.job.update_strategy,
                )
            ]
        )  # fmt: skip

    @classmethod
    def _first(cls, outputs: Iterable[OutputToMeasure]) -> "Measurement":
        requested = tuple(outputs)
        return cls(requested, {}, {output.index: output for output in requested})

    @property
    def outputs(self) -> list[OutputMeasured]:
        return [self.found[output.index] for output in self.requested]

    @property
    def summary(self) -> list[str]:
        """The rows that measuring removed from the outputs, as sentences."""
        left_out = ((found.duplicates, ", ".join(output.unique_key)) for output in self.requested if (found := self.found[output.index]).duplicates)
        # Only keys were compared: the other values of the row may differ.
        return [
            f"Skipped {counted(rows, 'row')} whose {plural(rows, 'key')} ({key}) already {plural(rows, 'exists', 'exist')}; `append` never changes rows."
            for rows, key in left_out
        ]

    @property
    def complete(self) -> bool:
        """Whether nothing is due."""
        return not self.due

    def done(self, measure: Callable[[list[OutputToMeasure]], list[OutputMeasured]]) -> "Measurement":
        """Everything that is due, measured."""
        measured = measure(list(self.due.values()))
        if [output.index for output in measured] != list(self.due):
            raise OperatorFailed("measuring_died", "The measuring process returned other outputs than requested; see its log.", retry=True)
        return replace(self, found=self.found | {output.index: output for output in measured}, due={})

    def moved(self, moved: Sequence[MovedOutput]) -> "Measurement":
        """Adds changes of others since the last measurement; only these are compared, earlier results stay."""
        by_index = {change.index: change for change in moved}
        requested = tuple(
            output.model_copy(update={"moved": [*output.moved, by_index[output.index]]}) if output.index in by_index else output for output in self.requested
        )
        due = {output.index: output.model_copy(update={"previous": self.found[output.index]}) for output in requested if output.index in by_index}
        return replace(self, requested=requested, due=self.due | due)

    def missing(self, missing: Sequence[MissingRules]) -> "Measurement":
        """Adds rules that were created after the claim: only these are measured, and later measurements include them."""
        by_index = {item.index: item.rules for item in missing}
        due = {
            output.index: output.model_copy(update={"previous": self.found[output.index], "rules": by_index[output.index]})
            for output in self.requested
            if output.index in by_index
        }
        requested = tuple(_with_rules(output, by_index[output.index]) if output.index in by_index else output for output in self.requested)
        return replace(self, requested=requested, due=self.due | due)


def _staged(payload: TaskPayload) -> dict[int, StagedOutput]:
    return {output.index: output.staged.model_copy(update={"staging": staging_path(output.staged)}) for output in payload.outputs if output.staged}


def _with_rules(output: OutputToMeasure, rules: Sequence[RuleToMeasure]) -> OutputToMeasure:
    newer = {rule.id for rule in rules}
    kept = [rule for rule in output.staged.rules if rule.id not in newer]
    return output.model_copy(update={"staged": output.staged.model_copy(update={"rules": [*kept, *rules]})})
