from typing import Any

import pytest

from tracelake_sdk.dags.operators import OPERATORS, EmitRequest
from tracelake_sdk.dags.run_requests import check_request
from tracelake_sdk.errors import Invalid, JobNotRunnable


@pytest.mark.parametrize(
    "operator, request_, sentence",
    [
        (("spark", "ingest_files"), {"cursors": [5]}, "not valid at cursors: the operator `ingest_files` takes no arguments; omit it."),
        (("dispatcher", "emit"), {"cursors": [5], "again": True}, "not valid at again: the operator `emit` takes only `cursors`, `rewrite`; omit it."),
        (("dispatcher", "emit"), {}, "not valid at cursors: the operator `emit` needs it."),
        (("dispatcher", "emit"), {"cursors": [5, "2026-01-01T00:00:00Z"]}, "all whole numbers or all times."),
    ],
)
def test_an_unknown_argument_is_reported_with_the_valid_ones(operator: tuple[str, str], request_: dict[str, Any], sentence: str):
    with pytest.raises(Invalid, match="The request for shop/orders is not valid at") as refused:
        check_request("shop/orders", OPERATORS[operator], request_, is_source=True)
    assert refused.value.detail.endswith(sentence)


def test_a_request_that_fits_is_taken_by_a_source_job_alone():
    emit = OPERATORS["dispatcher", "emit"]
    assert check_request("shop/orders", emit, {"cursors": [5]}, is_source=True) == EmitRequest(cursors=[5])
    for operator, is_source in ((emit, False), (OPERATORS["spark", "sql"], True), (None, True)):
        with pytest.raises(JobNotRunnable, match="Job shop/orders is started by the events of its inputs"):
            check_request("shop/orders", operator, {"cursors": [5]}, is_source=is_source)
