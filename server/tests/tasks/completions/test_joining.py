"""Joining: reports that wait for each other are settled together, each with its own answer."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from tracelake.control.access.callers import Caller, TokenKind
from tracelake.control.tasks.completions.joining import Joining
from tracelake_sdk.errors import Invalid
from tracelake_sdk.tasks import Completion, CompletionAnswer, CompletionResult, Fence, Outcome

LONGEST = 30.0
ORG = UUID(int=1)


def caller(org: UUID = ORG) -> Caller:
    return Caller(org_id=org, org="main", kind=TokenKind.WORKER, name="w1")


def report() -> Completion:
    return Completion(fence=Fence(task_id=uuid4(), attempt=1, lease_token="x" * 43), outcome=Outcome.SUCCEEDED)


class Settled:
    """Settles when it is let: what was settled together is seen."""

    def __init__(self, refuses: Callable[[Completion], bool] = lambda report: False) -> None:
        self.batches: list[list[UUID]] = []
        self.started = threading.Semaphore(0)
        self.may_go_on = threading.Event()
        self._refuses = refuses

    def __call__(self, caller: Caller, reports: list[Completion]) -> list[CompletionAnswer]:
        self.batches.append([report.fence.task_id for report in reports])
        self.started.release()
        assert self.may_go_on.wait(LONGEST)
        if any(self._refuses(report) for report in reports):
            raise Invalid("One of them is wrong.")
        return [CompletionAnswer(task_id=report.fence.task_id, result=CompletionResult.DONE, status=200) for report in reports]


def wait_for_waiting(joining: Joining, number: int) -> None:
    deadline = threading.Event()
    for _ in range(int(LONGEST * 100)):
        if joining.waiting == number:
            return
        deadline.wait(0.01)
    raise AssertionError(f"{number} calls never waited")


def answered(call: "Future[list[CompletionAnswer]]") -> list[UUID]:
    return [answer.task_id for answer in call.result(LONGEST)]


def test_waiting_calls_are_settled_together_with_their_own_answers():
    settled = Settled()
    joining = Joining(settled, at_once=1)
    first, others = report(), [[report()], [report(), report()], [report()]]
    with ThreadPoolExecutor(8) as pool:
        leading = pool.submit(joining.complete, caller(), [first])
        assert settled.started.acquire(timeout=LONGEST)
        calls = []
        for number, reports in enumerate(others):
            calls.append(pool.submit(joining.complete, caller(), reports))
            wait_for_waiting(joining, number + 1)
        settled.may_go_on.set()
        assert answered(leading) == [first.fence.task_id]
        assert [answered(call) for call in calls] == [[each.fence.task_id for each in reports] for reports in others]
    assert settled.batches == [[first.fence.task_id], [each.fence.task_id for reports in others for each in reports]]


def test_a_call_that_fails_harms_no_other():
    wrong = report()
    settled = Settled(lambda given: given is wrong)
    joining = Joining(settled, at_once=1)
    good = [report(), report()]
    with ThreadPoolExecutor(8) as pool:
        leading = pool.submit(joining.complete, caller(), [report()])
        assert settled.started.acquire(timeout=LONGEST)
        calls = []
        for number, given in enumerate([good[0], wrong, good[1]]):
            calls.append(pool.submit(joining.complete, caller(), [given]))
            wait_for_waiting(joining, number + 1)
        settled.may_go_on.set()
        assert len(leading.result(LONGEST)) == 1
        assert answered(calls[0]) == [good[0].fence.task_id]
        assert answered(calls[2]) == [good[1].fence.task_id]
        with pytest.raises(Invalid):
            calls[1].result(LONGEST)
    assert joining.complete(caller(), [good[0]])[0].task_id == good[0].fence.task_id  # there is room again


def test_orgs_are_never_joined():
    settled = Settled()
    joining = Joining(settled, at_once=1)
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(joining.complete, caller(), [report()])]
        assert settled.started.acquire(timeout=LONGEST)
        for number, org in enumerate([ORG, UUID(int=2), ORG]):
            calls.append(pool.submit(joining.complete, caller(org), [report()]))
            wait_for_waiting(joining, number + 1)
        settled.may_go_on.set()
        assert [len(call.result(LONGEST)) for call in calls] == [1, 1, 1, 1]
    assert [len(batch) for batch in settled.batches] == [1, 1, 1, 1]


def test_calls_start_at_once_while_there_is_room():
    settled = Settled()
    joining = Joining(settled, at_once=2)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(joining.complete, caller(), [report()]) for _ in range(2)]
        for _ in calls:
            assert settled.started.acquire(timeout=LONGEST)
        settled.may_go_on.set()
        assert [len(call.result(LONGEST)) for call in calls] == [1, 1]


def test_a_line_has_one_transaction_at_a_time_and_other_lines_run_in_parallel():
    settled = Settled()
    lines = {name: uuid4() for name in ("one", "other")}
    first, second, third, elsewhere = report(), report(), report(), report()
    line_of = {given.fence.task_id: lines["one"] for given in (first, second, third)} | {elsewhere.fence.task_id: lines["other"]}
    joining = Joining(settled, lambda caller, reports: line_of[reports[0].fence.task_id], at_once=2)
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(joining.complete, caller(), [first])]
        assert settled.started.acquire(timeout=LONGEST)
        for number, given in enumerate([second, third]):
            calls.append(pool.submit(joining.complete, caller(), [given]))
            wait_for_waiting(joining, number + 1)
        calls.append(pool.submit(joining.complete, caller(), [elsewhere]))
        assert settled.started.acquire(timeout=LONGEST)  # it waits for nobody
        assert settled.batches == [[first.fence.task_id], [elsewhere.fence.task_id]]
        settled.may_go_on.set()
        assert [answered(call) for call in calls] == [[given.fence.task_id] for given in (first, second, third, elsewhere)]
    assert settled.batches[2:] == [[second.fence.task_id, third.fence.task_id]]
    assert joining.waiting == 0
