"""The client over real sockets: failures are distinguished, and a call that may be repeated is repeated unchanged."""

import json
import threading
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from support.ports import refusing

from tracelake.control_client import ControlClient
from tracelake.worker.retry_until_answered import Retries
from tracelake.worker.task_client import TaskClient
from tracelake_sdk.errors import NotRunning, OutcomeUnknown, StaleAttempt, TracelakeError, Unauthenticated, Unavailable
from tracelake_sdk.tasks import ClaimAnswer, ClaimRequest, HeartbeatAnswer, HeartbeatRequest

from .answering import answer, speaking
from .processes import until
from .scripted_control import TOKEN, scripted_control

NOTHING = answer(200, ClaimAnswer(claimed=[]).model_dump_json().encode())
CLAIM = ClaimRequest(worker="w1", claim_id="c" * 43, runtime="dispatcher", room={"default": 10})


Connect = Callable[..., TaskClient]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Clients whose connections end with the test."""
    clients: list[TaskClient] = []

    def client(url: str, token: str = "t") -> TaskClient:
        clients.append(TaskClient(ControlClient(url, token)))
        return clients[-1]

    yield client
    for made in clients:
        made.close()


def problem(error: TracelakeError) -> bytes:
    return answer(error.status, json.dumps(error.problem()).encode(), "application/problem+json")


def test_a_claim_is_sent_as_its_model_with_the_token_in_its_header(connect: Connect):
    with speaking(NOTHING) as control:
        assert connect(control.url + "/", "sesame").claim(CLAIM) == ClaimAnswer(claimed=[])
    [request] = control.requests
    assert request.startswith(b"POST /internal/task-claim HTTP/1.1\r\n")
    assert b"\r\nauthorization: Bearer sesame\r\n" in request.lower().replace(b"bearer", b"Bearer")
    assert ClaimRequest.model_validate_json(control.bodies[0]) == CLAIM


def test_a_thread_keeps_its_connection(connect: Connect):
    with speaking(NOTHING) as control:
        client = connect(control.url)
        for _ in range(4):
            client.claim(CLAIM)
        assert control.connections == 1


def test_an_error_of_control_is_raised_as_the_class_it_was(connect: Connect):
    with speaking(problem(StaleAttempt("Too late.", id="abc")), problem(Unauthenticated())) as control:
        client = connect(control.url)
        with pytest.raises(StaleAttempt, match="Too late") as caught:
            client.claim(CLAIM)
        assert caught.value.id == "abc"
        with pytest.raises(Unauthenticated):
            client.fetch(uuid4())


def test_nothing_was_sent_to_a_closed_port(connect: Connect):
    with refusing() as url, pytest.raises(NotRunning):
        connect(url).claim(CLAIM)


@pytest.mark.parametrize("said", [b"", NOTHING[:-5], NOTHING[:20]], ids=["nothing", "half a body", "half a head"])
def test_a_connection_that_breaks_leaves_the_outcome_unknown(said: bytes, connect: Connect):
    with speaking(said) as control, pytest.raises(OutcomeUnknown):
        connect(control.url).claim(CLAIM)


def test_an_answer_of_somebody_in_between_is_not_taken_for_controls(connect: Connect):
    with speaking(answer(502, b"<html>", "text/html"), answer(500, b"{", "application/problem+json"), answer(200, b'{"claimed": 5}')) as control:
        client = connect(control.url)
        with pytest.raises(Unavailable):
            client.claim(CLAIM)
        with pytest.raises(TracelakeError, match="500"):
            client.claim(CLAIM)
        with pytest.raises(TracelakeError, match="claimed"):
            client.claim(CLAIM)


def test_a_claim_is_repeated_word_for_word_until_it_is_answered(connect: Connect):
    with speaking(b"", problem(Unavailable()), problem(TracelakeError()), NOTHING[:-1], NOTHING) as control:
        client = connect(control.url)
        answered = Retries(threading.Event()).until_answered(lambda: client.claim(CLAIM), after_stop=0)
    assert answered is not None and answered.value == ClaimAnswer(claimed=[])
    assert len(control.bodies) == 5
    assert len(set(control.bodies)) == 1


def test_a_refusal_is_not_repeated(connect: Connect):
    with speaking(problem(Unauthenticated())) as control:
        client = connect(control.url)
        with pytest.raises(Unauthenticated):
            Retries(threading.Event()).until_answered(lambda: client.claim(CLAIM), after_stop=0)
    assert len(control.requests) == 1


def test_the_lease_of_a_repeated_claim_counts_from_its_first_try(connect: Connect):
    ticks = iter(range(100))
    with speaking(NOTHING, b"", NOTHING) as control:
        client = connect(control.url)
        retries = Retries(threading.Event(), clock=lambda: next(ticks))
        first = retries.until_answered(lambda: client.claim(CLAIM), after_stop=0)
        again = retries.until_answered(lambda: client.claim(CLAIM), after_stop=0)
    assert first is not None and first.since == 1    # begun at 0, answered at 1
    assert again is not None and again.since == 2    # begun at 2


def test_asking_ends_when_the_worker_stops(connect: Connect):
    stopping = threading.Event()
    asked = threading.Event()
    answers: list[object] = []
    with refusing() as url:
        client = connect(url)

        def call() -> ClaimAnswer:
            asked.set()
            return client.claim(CLAIM)

        thread = threading.Thread(target=lambda: answers.append(Retries(stopping).until_answered(call, after_stop=0)))
        thread.start()
        assert asked.wait(60)
        stopping.set()
        thread.join(60)
    assert answers == [None]


def test_last_reports_are_tried_for_a_while_after_the_stop(connect: Connect):
    stopping = threading.Event()
    stopping.set()
    with speaking(b"", b"", b"", NOTHING) as control:
        client = connect(control.url)
        assert Retries(stopping).until_answered(lambda: client.claim(CLAIM), after_stop=30) is not None
    assert len(control.requests) == 4


def test_a_call_that_breaks_control_is_given_up_after_a_while(connect: Connect):
    ticks = iter(range(100))
    with speaking(problem(TracelakeError(id="x"))) as control:
        client = connect(control.url)
        with pytest.raises(TracelakeError) as caught:
            Retries(threading.Event(), clock=lambda: next(ticks)).until_answered(lambda: client.claim(CLAIM), after_stop=0, broken_for=3)
    assert caught.value.id == "x"
    assert len(control.requests) == 3  # begun at 0, broken at 1, 2 and 3


def test_an_outage_is_logged_rarely_and_never_with_a_secret(connect: Connect):
    with speaking(*[problem(Unavailable("Away."))] * 5, NOTHING) as control, capture_logs() as logs:
        client = connect(control.url, "sesame")
        Retries(threading.Event()).until_answered(lambda: client.claim(CLAIM), after_stop=0)
    assert [entry["tries"] for entry in logs if "tries" in entry] == [2, 4, 6]
    assert "sesame" not in repr(logs)
    assert CLAIM.claim_id not in repr(logs)


def test_a_heartbeat_is_read_as_its_model(connect: Connect):
    expected = HeartbeatAnswer(expires_at={}, cancel=[uuid4()], lost=[])
    with speaking(answer(200, expected.model_dump_json().encode())) as control:
        assert connect(control.url).heartbeat(HeartbeatRequest(worker="w", fences=[])) == expected


def test_hanging_up_ends_a_poll_at_once_and_refuses_the_next(connect: Connect):
    waiting = CLAIM.model_copy(update={"wait_s": 60})
    errors: list[TracelakeError] = []
    with scripted_control() as control:
        client = connect(control.url, TOKEN)

        def poll() -> None:
            with pytest.raises(OutcomeUnknown) as caught:
                client.claim(waiting)
            errors.append(caught.value)
            client.close()

        thread = threading.Thread(target=poll)
        thread.start()
        until(lambda: control.polls == 1)
        client.hang_up()
        thread.join(30)
        assert len(errors) == 1
        until(lambda: control.polls == 0)
        with pytest.raises(NotRunning, match="stopping"):
            client.claim(waiting)
        assert client.claim(CLAIM) == ClaimAnswer(claimed=[])  # which does not wait
