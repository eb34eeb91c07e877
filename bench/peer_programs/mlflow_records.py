"""MLflow's tracking store on Postgres, without a server between: a run with its metrics and tags is logged, and the newest of a target is read back.

`python mlflow_records.py ROW N` prints {n, seconds, samples_ms, beside}.
"""
# pyright: basic, reportMissingImports=false

import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient

URL = os.environ["PEER_DATABASE_URL"]
TARGETS = 50
EMITTED = 200
READ = 50


def tell(client: MlflowClient, experiment: str, number: int) -> None:
    run = client.create_run(experiment, tags={"target": f"target_{number % TARGETS}"})
    at = int(time.time() * 1000)
    client.log_batch(run.info.run_id, metrics=[Metric("rows", number, at, 0), Metric("bytes", 8388608, at, 0)], params=[Param("mode", "incremental")])


def main(n: int) -> None:
    logging.disable(logging.WARNING)
    emitted, read = min(n, EMITTED), min(n, READ)
    with tempfile.TemporaryDirectory() as folder:
        client = MlflowClient(tracking_uri=URL)
        experiment = client.create_experiment(f"bench_{time.time_ns()}", artifact_location=Path(folder).as_uri())
        tell(client, experiment, 0)  # what is built at the first use
        start = time.perf_counter()
        for number in range(emitted):
            tell(client, experiment, number)
        seconds = time.perf_counter() - start
        samples: list[float] = []
        for number in range(read):
            begun = time.perf_counter()
            found = client.search_runs([experiment], f"tags.target = 'target_{number % min(emitted, TARGETS)}'", max_results=1, order_by=["attributes.start_time DESC"])
            samples.append((time.perf_counter() - begun) * 1000)
            assert len(found) == 1
    print(json.dumps({"n": emitted, "seconds": seconds, "samples_ms": samples, "beside": {"single": emitted / seconds, "latest": sorted(samples)[len(samples) // 2]}}))


if __name__ == "__main__":
    main(int(sys.argv[2]))
