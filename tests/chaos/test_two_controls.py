"""Two control processes at once, none of which leads: one dies in the middle, and the other finishes everything."""

import pytest
from support.accounting import account_for, ask, wait_until_quiet
from support.ports import free_port
from support.processes import AT_ONCE, KILLED, Processes, wait_until
from support.sizes import size
from support.workloads import ManySources

from tracelake.embedded.readiness import url_of

ONE_BY_ONE = {"TRACELAKE__WORKER__PREFETCH": "1"}  # so that no worker takes it all


@pytest.mark.proves("T1.4")
@pytest.mark.proves("T9.3")
def test_a_control_dies_and_the_other_finishes_everything(processes: Processes):
    work = ManySources(sources=3, cursors=size(40, 400))
    other_url = url_of("127.0.0.1", free_port())
    dying = processes.control()
    processes.control(api_url=other_url)
    for api_url in (processes.api_url, other_url):
        processes.worker(ONE_BY_ONE, api_url=api_url)
        wait_until(lambda api_url=api_url: processes.waiting_polls(api_url) == 1, "its worker waits for work")
    with processes.client() as client:
        work.deploy(client)
        for source in range(1, work.sources):
            work.request(client, source)
    with processes.client(other_url) as client:
        work.request(client, work.sources)
        # What one control accepts, the other hears of: both workers are at work.
        wait_until(lambda: ask(processes.database, "SELECT count(DISTINCT worker) = 2 FROM task_attempt WHERE outcome = 'succeeded'"), "both workers work", pause=0.001)
        dying.stop(AT_ONCE)
        assert dying.exit_code == KILLED
        assert ask(processes.database, "SELECT count(*) FROM task") < sum(work.expected().values()), "it was not in the middle any more"
        assert work.request_all(client)  # the requests are known here as well
    # The worker of the dead control holds what it claimed until the lease ends; then the other has it.
    wait_until_quiet(processes.database, longest=600)
    assert account_for(processes.database).tasks == work.expected()
