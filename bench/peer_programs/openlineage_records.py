"""The OpenLineage client with its file transport: one event a line of one file, compared with `emit` into a spool.

`python openlineage_records.py ROW N` prints {n, seconds, samples_ms, beside}.
"""
# pyright: basic, reportMissingImports=false

import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.transport.file import FileConfig, FileTransport
from openlineage.client.uuid import generate_new_uuid

EMITTED = 5_000


def event(number: int) -> RunEvent:
    output = OutputDataset("bench", f"target_{number % 1000}", outputFacets={"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=number, size=8388608)})
    return RunEvent(
        eventType=RunState.COMPLETE, eventTime=datetime.now(UTC).isoformat(), run=Run(str(generate_new_uuid())), job=Job("bench", "load"), producer="bench", outputs=[output]
    )


def main(n: int) -> None:
    emitted = min(n, EMITTED)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.jsonl")
        client = OpenLineageClient(transport=FileTransport(FileConfig(log_file_path=str(file), append=True)))
        events = [event(number) for number in range(emitted)]
        client.emit(event(emitted))
        start = time.perf_counter()
        for each in events:
            client.emit(each)
        seconds = time.perf_counter() - start
        assert len(file.read_text().splitlines()) == emitted + 1
    print(json.dumps({"n": emitted, "seconds": seconds, "samples_ms": [], "beside": {"emit": emitted / seconds}}))


if __name__ == "__main__":
    main(int(sys.argv[2]))
