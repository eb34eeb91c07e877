"""`emit` emits the cursors of its request; `noop` emits the scope of its trigger."""

from datetime import UTC, datetime

import pytest

from tracelake.worker.dispatcher.operators.contract import OperatorResult
from tracelake.worker.dispatcher.operators.emit import emit
from tracelake.worker.dispatcher.operators.noop import noop
from tracelake.worker.dispatcher.operators.registry import OPERATOR_FUNCTIONS, operator_for
from tracelake.worker.operator_failure import OperatorFailed
from tracelake_sdk.dags import Runtime
from tracelake_sdk.dags.operators import OPERATORS
from tracelake_sdk.datasets.scopes import CursorScope, FullScope, PartitionScope
from tracelake_sdk.tasks.events import EventDraft, EventKind

from ..payloads import id_of, payload

NOON = datetime(2024, 1, 10, 12, tzinfo=UTC)


def test_emit_emits_the_cursors_of_its_request_in_order_and_each_once():
    result = emit(payload("emit", {"cursor": "integer"}, request={"cursors": [3, -1, 3, 2**40]}))
    assert result == OperatorResult([EventDraft(output=0, scope=CursorScope(value=value)) for value in (3, -1, 2**40)])


def test_emit_emits_equal_times_once():
    result = emit(payload("emit", {"cursor": "timestamp"}, request={"cursors": ["2024-01-10T12:00:00Z", "2024-01-10T13:00:00+01:00"]}))
    assert [event.scope for event in result.events] == [CursorScope(value=NOON)]


def test_emit_emits_a_rewrite_with_the_id_of_the_request():
    result = emit(payload("emit", {"cursor": "integer"}, request={"cursors": [1, 2], "rewrite": True}, trigger="request"))
    assert {(event.kind, event.revision) for event in result.events} == {(EventKind.REWRITTEN, str(id_of("request")))}


@pytest.mark.parametrize(("request_", "error_class"), [({"cursors": []}, "request_invalid"), ({"cursors": ["2024-01-10T12:00:00Z"]}, "cursor_type")])
def test_emit_refuses_a_request_that_its_job_cannot_emit(request_: dict[str, object], error_class: str):
    with pytest.raises(OperatorFailed) as caught:
        emit(payload("emit", {"cursor": "integer"}, request=request_))
    assert (caught.value.error_class, caught.value.retry) == (error_class, False)


def test_noop_without_an_output_emits_nothing():
    assert noop(payload("noop", {}, scope=CursorScope(value=1), outputs=0)) == OperatorResult()


def test_noop_passes_on_scope_and_time_of_its_trigger():
    result = noop(payload("noop", {}, scope=PartitionScope(key="a"), event_time=NOON))
    assert result.events == [EventDraft(output=0, scope=PartitionScope(key="a"), event_time=NOON)]


def test_noop_emits_the_full_scope_after_a_request():
    assert noop(payload("noop", {}, request={})).events == [EventDraft(output=0, scope=FullScope())]


def test_noop_passes_a_rewrite_on_as_a_rewrite():
    [event] = noop(payload("noop", {}, scope=CursorScope(value=1), event_kind=EventKind.REWRITTEN, trigger="rewrite")).events
    assert (event.kind, event.revision) == (EventKind.REWRITTEN, str(id_of("rewrite")))


@pytest.mark.proves("T3.11")
def test_the_worker_runs_exactly_the_dispatchers_operators_that_a_dag_file_may_name():
    assert set(OPERATOR_FUNCTIONS) == {key for key, operator in OPERATORS.items() if operator.runtime is Runtime.DISPATCHER}


def test_an_unknown_operator_is_left_to_another_worker():
    with pytest.raises(OperatorFailed) as caught:
        operator_for(payload("newer", {}), OPERATOR_FUNCTIONS)
    assert (caught.value.error_class, caught.value.retry) == ("operator_unknown", False)
