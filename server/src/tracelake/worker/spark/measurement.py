"""Measurement: what of an attempt's outputs is measured, and what must be measured (again) before the next report."""

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
    """The outputs as they would be asked for the first time, what was found, and the indexes that are due."""

    asked: tuple[OutputToMeasure, ...]
    found: dict[int, OutputMeasured]
    due: dict[int, OutputToMeasure]

    @classmethod
    def of_outcome(cls, payload: TaskPayload, outcome: OperatorOutcome) -> "Measurement":
        staged = _staged(payload)
        return cls._first(
            OutputToMeasure(
                index=told.index, staged=staged[told.index], files=told.files, scopes=told.scopes,
                unique_key=payload.job.unique_key, update_strategy=payload.job.update_strategy,
            )
            for told in outcome.outputs
        )  # fmt: skip

    @classmethod
    def of_batch(cls, payload: TaskPayload) -> "Measurement":
        """Exactly the files of the batch, where an earlier attempt of another task left them."""
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
        asked = tuple(outputs)
        return cls(asked, {}, {output.index: output for output in asked})

    @property
    def outputs(self) -> list[OutputMeasured]:
        return [self.found[output.index] for output in self.asked]

    @property
    def summary(self) -> list[str]:
        """What measuring left out of the outputs, for people."""
        left_out = ((found.duplicates, ", ".join(output.unique_key)) for output in self.asked if (found := self.found[output.index]).duplicates)
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
            raise OperatorFailed("measuring_died", "The process that measures answered for other outputs than it was asked for; see its log.", retry=True)
        return replace(self, found=self.found | {output.index: output for output in measured}, due={})

    def moved(self, moved: Sequence[MovedOutput]) -> "Measurement":
        """With what others changed since the last look; only that is compared, what was measured before stays."""
        by_index = {change.index: change for change in moved}
        asked = tuple(
            output.model_copy(update={"moved": [*output.moved, by_index[output.index]]}) if output.index in by_index else output for output in self.asked
        )
        due = {output.index: output.model_copy(update={"previous": self.found[output.index]}) for output in asked if output.index in by_index}
        return replace(self, asked=asked, due=self.due | due)

    def missing(self, missing: Sequence[MissingRules]) -> "Measurement":
        """With rules that came after the claim: just these are measured, and later looks know them."""
        by_index = {item.index: item.rules for item in missing}
        due = {
            output.index: output.model_copy(update={"previous": self.found[output.index], "rules": by_index[output.index]})
            for output in self.asked
            if output.index in by_index
        }
        asked = tuple(_with_rules(output, by_index[output.index]) if output.index in by_index else output for output in self.asked)
        return replace(self, asked=asked, due=self.due | due)


def _staged(payload: TaskPayload) -> dict[int, StagedOutput]:
    return {output.index: output.staged.model_copy(update={"staging": staging_path(output.staged)}) for output in payload.outputs if output.staged}


def _with_rules(output: OutputToMeasure, rules: Sequence[RuleToMeasure]) -> OutputToMeasure:
    newer = {rule.id for rule in rules}
    kept = [rule for rule in output.staged.rules if rule.id not in newer]
    return output.model_copy(update={"staged": output.staged.model_copy(update={"rules": [*kept, *rules]})})
