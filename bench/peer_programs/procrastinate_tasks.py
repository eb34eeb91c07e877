"""Procrastinate at its best: batch defer, asynchronous workers with concurrency, LISTEN/NOTIFY, finished jobs kept as history.

`python procrastinate_tasks.py ROW N` prints {n, seconds, samples_ms}. The workers are processes of their own.
"""
# pyright: basic, reportMissingImports=false

import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import LiteralString

import procrastinate
import psycopg

URL = os.environ["PEER_DATABASE_URL"]
# One worker for each core of the small machine the goals are written for, each with some jobs at once: more only wait for each other.
WORKERS = 2
CONCURRENCY = 10
BATCH = 1000

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL, min_size=2, max_size=CONCURRENCY + 5))


@app.task(queue="bench", name="noop")
async def noop(number: int) -> None:
    pass


@app.task(queue="bench", name="stamped")
async def stamped(number: int) -> None:
    print(time.monotonic_ns(), flush=True)


@app.task(queue="bench", name="link")
async def link(left: int) -> None:
    if left > 1:
        await link.defer_async(left=left - 1)


@app.task(queue="bench", name="fan_out")
async def fan_out(number: int) -> None:
    await noop.batch_defer_async(*[{"number": each} for each in range(number)])


async def work() -> None:
    async with app.open_async():
        # A worker that is busy when it is notified may miss it and wait for its next poll, by default 5 s.
        await app.run_worker_async(queues=["bench"], concurrency=CONCURRENCY, fetch_job_polling_interval=0.05)


class Finished:
    """Each job leaves three events (deferred, started, succeeded): reading their sequence costs nothing."""

    def __init__(self) -> None:
        self._connection = psycopg.connect(URL, autocommit=True)
        self._before = self._events()

    def _events(self) -> int:
        return self._value("SELECT coalesce(pg_sequence_last_value('procrastinate_events_id_seq'), 0)")

    def _value(self, query: LiteralString) -> int:
        row = self._connection.execute(query).fetchone()
        return row[0] if row else 0

    async def wait_for(self, jobs: int) -> None:
        while self._events() < self._before + 3 * jobs or self._value("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"):
            await asyncio.sleep(0.002)


async def defer(n: int) -> None:
    for first in range(0, n, BATCH):
        await noop.batch_defer_async(*[{"number": number} for number in range(first, min(first + BATCH, n))])


async def timed(jobs: int, step: Callable[[], Awaitable[object]]) -> float:
    finished = Finished()
    start = time.perf_counter()
    await step()
    await finished.wait_for(jobs)
    return time.perf_counter() - start


async def measure(row: str, n: int, workers: list["subprocess.Popen[str]"]) -> dict[str, object]:
    await timed(100, lambda: defer(100))
    match row:
        case "tasks":
            return {"n": n, "seconds": await timed(n, lambda: defer(n)), "samples_ms": []}
        case "chain":
            return {"n": n, "seconds": await timed(n, lambda: link.defer_async(left=n)), "samples_ms": []}
        case "fan-out":
            return {"n": n, "seconds": await timed(n + 1, lambda: fan_out.defer_async(number=n)), "samples_ms": []}
        case _:
            return await latency(n, workers[0])


async def latency(n: int, worker: "subprocess.Popen[str]") -> dict[str, object]:
    """From the commit of the defer to the first line of the task, one at a time, the worker idle in between."""
    assert worker.stdout
    finished = Finished()
    samples: list[float] = []
    start = time.perf_counter()
    for number in range(n):
        await asyncio.sleep(random.uniform(0.005, 0.015))
        await stamped.defer_async(number=number)
        committed = time.monotonic_ns()
        line = await asyncio.to_thread(worker.stdout.readline)
        samples.append((int(line) - committed) / 1e6)
    seconds = time.perf_counter() - start
    await finished.wait_for(n)  # a job whose worker is gone would be there in the next run
    return {"n": n, "seconds": seconds, "samples_ms": samples}


async def main(row: str, n: int) -> None:
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        count = 1 if row in ("latency", "chain") else WORKERS  # one after the other needs one
        workers = [subprocess.Popen([sys.executable, __file__, "work"], stdout=subprocess.PIPE, text=True) for _ in range(count)]
        try:
            print(json.dumps(await measure(row, n, workers)))
        finally:
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    asyncio.run(work() if sys.argv[1] == "work" else main(sys.argv[1], int(sys.argv[2])))
