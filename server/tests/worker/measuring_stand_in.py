"""A program that speaks as the measuring process does and counts rows, no more; what it was asked it appends to the file it is given.

`die` in that file's folder makes it die once, `garbage` makes it speak nonsense, `refuse` makes it refuse, `hang` makes it silent,
`away` makes it say that the store does not answer.
"""

import os
import signal
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

from tracelake.worker.measuring.contract import MeasureOrder, MeasureResult, OutputToMeasure, Refusal
from tracelake_sdk.datasets.measurements import OutputMeasured, StagedFile
from tracelake_sdk.datasets.scopes import FullScope
from tracelake_sdk.rules import RuleMeasurement


def measured(output: OutputToMeasure, root: Path) -> OutputMeasured:
    folder = output.staged.location if output.adopted else output.staged.staging
    files = [root / folder / file for file in output.files]
    found = [
        StagedFile(
            path=str(file.relative_to(root / output.staged.location)), size=file.stat().st_size, rows=pq.read_metadata(file).num_rows, scope=FullScope(), seal="s"
        )
        for file in files
    ]
    rules = [*(output.previous.rules if output.previous else []), *[RuleMeasurement(rule_id=rule.id, revision=rule.revision, violations=0) for rule in output.rules or []]]
    return OutputMeasured(
        index=output.index, files=found, scopes=output.scopes or [FullScope()], table_schema={"type": "struct", "fields": []}, schema_hash="h",
        rows=sum(file.rows for file in found), bytes=sum(file.size for file in found), duplicates=sum(len(moved.added) for moved in output.moved), rules=rules,
    )


def main(log: Path) -> None:
    for line in sys.stdin:
        order = MeasureOrder.model_validate_json(line)
        with log.open("a") as file:
            file.write(line)
        if (log.parent / "die").exists():
            (log.parent / "die").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        while (log.parent / "hang").exists():
            time.sleep(0.02)
        result = MeasureResult(id=order.id, outputs=[measured(output, Path(unquote(urlsplit(order.storage["url"]).path))) for output in order.outputs])
        if (log.parent / "refuse").exists():
            result = MeasureResult(id=order.id, refusal=Refusal(error_class="not_parquet", message="A file is not valid Parquet."))
        if (log.parent / "away").exists():
            result = MeasureResult(id=order.id, refusal=Refusal(error_class="storage_unavailable", message="The store does not answer.", retry=True))
        sys.stdout.write(("nonsense" if (log.parent / "garbage").exists() else result.model_dump_json()) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
