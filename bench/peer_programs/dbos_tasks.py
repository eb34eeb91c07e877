"""DBOS at its best: a queue for work that others enqueue, steps for a chain, one process that runs workflows and a client beside it.

`python dbos_tasks.py ROW N` prints {n, seconds, samples_ms}. The queue is polled every 10 ms; by default it is every second.
"""
# pyright: basic, reportMissingImports=false

import json
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
from dbos import DBOS, DBOSClient

URL = os.environ["PEER_DATABASE_URL"]
QUEUE = "bench"
POLL_SECONDS = 0.01
VERSION = "bench"  # what is enqueued by one process is run by the other
THREADS = 16
ENQUEUERS = 4


@DBOS.workflow(name="noop")
def noop(number: int) -> None:
    return None


@DBOS.workflow(name="stamped")
def stamped(number: int) -> None:
    print(time.monotonic_ns(), flush=True)


@DBOS.step(name="step")
def step(number: int) -> None:
    return None


@DBOS.workflow(name="chain")
def chain(n: int) -> None:
    for number in range(n):
        step(number)


@DBOS.workflow(name="fan_out")
def fan_out(n: int) -> None:
    for number in range(n):
        DBOS.enqueue_workflow(QUEUE, noop, number)


def work() -> None:
    DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "ERROR", "application_version": VERSION, "max_executor_threads": THREADS})
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS)
    print("ready", flush=True)
    while True:
        time.sleep(60)


class Enqueuer:
    def __init__(self) -> None:
        self.client = DBOSClient(system_database_url=URL)
        self._connection = psycopg.connect(URL, autocommit=True)

    def enqueue(self, workflow: str, *arguments: int) -> None:
        self.client.enqueue({"queue_name": QUEUE, "workflow_name": workflow, "app_version": VERSION}, *arguments)

    def enqueue_many(self, n: int) -> None:
        with ThreadPoolExecutor(ENQUEUERS) as threads:
            list(threads.map(lambda number: self.enqueue("noop", number), range(n)))

    def wait(self, n: int) -> None:
        """Looks rarely where looking is dear."""
        while self._unfinished():
            time.sleep(min(0.05, 0.002 + n / 100_000))

    def _unfinished(self) -> int:
        row = self._connection.execute("SELECT count(*) FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')").fetchone()
        return row[0] if row else 0


def measure(row: str, n: int, worker: "subprocess.Popen[str]") -> dict[str, object]:
    enqueuer = Enqueuer()
    enqueuer.enqueue_many(100)
    enqueuer.wait(100)
    if row == "latency":
        return latency(n, enqueuer, worker)
    start = time.perf_counter()
    if row == "tasks":
        enqueuer.enqueue_many(n)
    else:
        enqueuer.enqueue({"chain": "chain", "fan-out": "fan_out"}[row], n)
    enqueuer.wait(n)
    return {"n": n, "seconds": time.perf_counter() - start, "samples_ms": []}


def latency(n: int, enqueuer: Enqueuer, worker: "subprocess.Popen[str]") -> dict[str, object]:
    """From the commit of the enqueue to the first line of the workflow, one at a time, the worker idle in between."""
    assert worker.stdout
    samples: list[float] = []
    start = time.perf_counter()
    for number in range(n):
        time.sleep(random.uniform(0.005, 0.025))
        enqueuer.enqueue("stamped", number)
        committed = time.monotonic_ns()
        samples.append((int(worker.stdout.readline()) - committed) / 1e6)
    seconds = time.perf_counter() - start
    enqueuer.wait(n)  # a workflow whose process is gone would be run again by the next
    return {"n": n, "seconds": seconds, "samples_ms": samples}


def main(row: str, n: int) -> None:
    worker = subprocess.Popen([sys.executable, __file__, "work"], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout
        if worker.stdout.readline().strip() != "ready":
            sys.exit("the DBOS process did not start")
        print(json.dumps(measure(row, n, worker)))
    finally:
        worker.kill()
        worker.wait()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        main(sys.argv[1], int(sys.argv[2]))
