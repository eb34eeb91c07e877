"""Dagster's event log on Postgres: a materialization with metadata is emitted outside of any run, and the newest of an asset is read back.

`python dagster_records.py ROW N` prints {n, seconds, samples_ms, beside}.
"""
# pyright: basic, reportMissingImports=false

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import dagster

URL = os.environ["PEER_DATABASE_URL"]
TARGETS = 50
EMITTED = 300
READ = 100


def main(n: int) -> None:
    emitted, read = min(n, EMITTED), min(n, READ)
    with tempfile.TemporaryDirectory() as home:
        Path(home, "dagster.yaml").write_text(json.dumps({"storage": {"postgres": {"postgres_url": URL}}, "telemetry": {"enabled": False}}))
        with dagster.DagsterInstance.from_config(home) as instance:
            keys = [dagster.AssetKey(["bench", f"target_{number}"]) for number in range(TARGETS)]
            materializations = [dagster.AssetMaterialization(keys[number % TARGETS], metadata={"rows": number, "bytes": 8388608, "mode": "incremental"}) for number in range(emitted)]
            instance.report_runless_asset_event(dagster.AssetMaterialization(keys[0]))  # what is built at the first use
            start = time.perf_counter()
            for each in materializations:
                instance.report_runless_asset_event(each)
            seconds = time.perf_counter() - start
            samples: list[float] = []
            for number in range(read):
                begun = time.perf_counter()
                found = instance.get_latest_materialization_event(keys[number % min(emitted, TARGETS)])
                samples.append((time.perf_counter() - begun) * 1000)
                assert found is not None
    print(json.dumps({"n": emitted, "seconds": seconds, "samples_ms": samples, "beside": {"single": emitted / seconds, "latest": sorted(samples)[len(samples) // 2]}}))


if __name__ == "__main__":
    main(int(sys.argv[2]))
