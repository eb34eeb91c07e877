"""`${name}` is filled from this installation's variables, and from nothing else."""

import pytest

from tracelake.worker.operators.contract import OperatorFailed
from tracelake.worker.variables import fill


def test_variables_are_filled_at_any_depth():
    config = {"path": "${root}/in/${day}", "more": [{"deep": "${day}"}, 5, None, True], "plain": "$day {day} $$"}
    assert fill(config, {"root": "/lake", "day": "1"}) == {"path": "/lake/in/1", "more": [{"deep": "1"}, 5, None, True], "plain": "$day {day} $$"}


def test_a_filled_value_is_not_filled_again():
    assert fill({"a": "${x}"}, {"x": "${y}", "y": "no"}) == {"a": "${y}"}


def test_a_missing_variable_is_named():
    with pytest.raises(OperatorFailed, match="'day'") as caught:
        fill({"a": ["${day}"]}, {"root": "/lake"})
    assert (caught.value.error_class, caught.value.retry) == ("variable_missing", False)
