"""Two encoders, one spelling: what makes records the same does not depend on who hashed them."""

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.sizes import size

from tracelake.control.records.canonical_json import canonical_json
from tracelake_sdk.records import Quality
from tracelake_sdk.records.identity import canonical

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.integers(-20, 20).map(lambda power: 10.0**power)
VALUES = st.recursive(st.none() | st.booleans() | NUMBERS | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))


@pytest.mark.proves("M2.2")
@settings(max_examples=size(300, 5_000))
@given(VALUES)
@example({"b": 1, "a": {"\U00010000": 1, "\uffff": 2, "": 3}})
@example([1e16, -1e16, 1e-5, 0.0001, 1e22, 123456789012345680.0, 5e-324, -0.0, 2**63, 2**64, -(2**63) - 1])
@example(["\x00\x01\x1f\x7f\x80\u2028\"\\/\b\f\n\r\t", ":1e5", ',0.00001"'])
def test_both_encoders_spell_a_value_alike(value: object):
    assert canonical_json(value) == canonical(value)
    assert json.loads(canonical_json(value)) == value


def test_a_word_of_a_list_of_words_is_spelt_as_text():
    assert canonical_json({"quality": Quality.MEASURED}) == canonical({"quality": Quality.MEASURED}) == b'{"quality":"measured"}'


def test_what_is_not_json_is_refused_by_both():
    for spelling in (canonical_json, canonical):
        with pytest.raises(TypeError):
            spelling({"value": {1, 2}})
