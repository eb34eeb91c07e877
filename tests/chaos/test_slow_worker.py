"""A worker that was stopped, not killed: it wakes up after others have done its work, and reports."""

import os
import signal

import pytest
from support.accounting import account_for, ask, rows_of, wait_until_quiet
from support.processes import Processes, wait_until
from support.sizes import size
from support.workloads import ManySources


@pytest.mark.proves("T3.4")
def test_a_worker_that_slept_past_its_leases_changes_nothing(processes: Processes):
    work = ManySources(sources=2, cursors=size(60, 400))
    processes.control()
    # In many rounds: it is not done before it sleeps.
    sleeper = processes.worker({"TRACELAKE__WORKER__NAME": "sleeper", "TRACELAKE__WORKER__PREFETCH": "10"})
    with processes.client() as client:
        work.deploy(client)
        work.request_all(client)
    wait_until(lambda: ask(processes.database, "SELECT count(*) FROM task WHERE state = 'completed'") > 10, "it works", pause=0.001)
    os.kill(sleeper.pid, signal.SIGSTOP)
    # Whatever it was doing, there is more to do: it holds tasks, or an answer with tasks is on its way to it.
    timed_out = "SELECT count(*) FROM task_attempt WHERE worker = 'sleeper' AND timed_out_at IS NOT NULL"
    wait_until(lambda: ask(processes.database, timed_out) > 0, "its leases have run out")

    processes.worker({"TRACELAKE__WORKER__NAME": "awake"})
    wait_until_quiet(processes.database, longest=600)
    everything = "SELECT task_id, attempt, worker, ended_at, outcome, body_sha256 FROM task_attempt ORDER BY task_id, attempt"
    before = rows_of(processes.database, everything)
    os.kill(sleeper.pid, signal.SIGCONT)
    wait_until(lambda: processes.waiting_polls() == 2, "it has reported, and waits for more")

    assert rows_of(processes.database, everything) == before
    assert {worker for _, _, worker, *_ in before} == {"sleeper", "awake"}
    assert account_for(processes.database).tasks == work.expected()
    assert sleeper.exit_code is None
