"""One meaning of JSON: what is written comes back as it was, whatever the encoder underneath can do."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from tracelake import wire_json
from tracelake_sdk.json_values import shown, storable

pytestmark = pytest.mark.proves("M1.4")

LEAVES = st.none() | st.booleans() | st.integers(-(10**38), 10**38) | st.floats(allow_nan=False, allow_infinity=False) | st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=4))


def same(one: Any, other: Any) -> bool:
    """Also of the same type: 1 is not 1.0, and true is not 1."""
    return type(one) is type(other) and repr(one) == repr(other)


@given(VALUES)
def test_what_is_written_is_read_as_it_was_by_us_and_by_others(value: Any):
    encoded = wire_json.encode(value)
    assert same(wire_json.decode(encoded), value)
    assert same(json.loads(encoded), value) and same(from_json(encoded), value)
    assert same(wire_json.decode(to_json(value)), value)  # as models spell themselves


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, 10**38 - 1, -(10**38) + 1, 10**400])
def test_a_long_whole_number_keeps_its_digits(number: int):
    assert wire_json.text({"a": [number]}) == f'{{"a":[{number}]}}'
    assert wire_json.decode(f'{{"a":[{number}]}}') == {"a": [number]}


def test_the_other_types_that_are_written_are_so_beside_a_long_number():
    encoded = {"b": datetime(2026, 1, 1, 12, tzinfo=UTC), "a": UUID(int=1), "n": 2**70}
    assert wire_json.encode(encoded, sort_keys=True) == b'{"a":"00000000-0000-0000-0000-000000000001","b":"2026-01-01T12:00:00+00:00","n":1180591620717411303424}'


@pytest.mark.parametrize("encoded", [b"NaN", b'{"a": NaN, "n": 11111111111111111111}', b"Infinity", b"{", b"", b"1" * 5000, b"[" * 100_000 + b"1" * 20, b'"\xff 11111111111111111111"'])
def test_invalid_json_is_refused_in_one_way(encoded: bytes):
    with pytest.raises(wire_json.JSONDecodeError):
        wire_json.decode(encoded)


@pytest.mark.parametrize("value", ["a\0b", {"a\0": 1}, {"a": ["\ud800"]}, float("nan"), {"a": float("inf")}, b"bytes", datetime(2026, 1, 1, tzinfo=UTC)])
def test_what_not_every_store_can_carry_is_refused_at_the_door(value: Any):
    with pytest.raises(ValueError):
        storable(value)


def test_text_for_people_has_a_visible_replacement_and_an_end():
    assert shown("a\0b\ud800", 10) == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert shown("🎈" * 5, 10) == "🎈" * 5
    assert shown("x" * 11, 10) == "xxxxxxxx …"
