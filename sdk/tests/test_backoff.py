"""Pauses between tries grow, end growing, and are spread."""

from tracelake_sdk.backoff import Backoff


def test_pauses_double_from_the_first_to_the_longest():
    backoff = Backoff(first=0.5, longest=3, shortened=0)
    assert [backoff.after(failures) for failures in range(6)] == [0, 0.5, 1, 2, 3, 3]


def test_a_thousand_failures_are_no_longer_a_pause():
    assert Backoff(first=0.1, longest=5, shortened=0).after(1000) == 5


def test_the_pause_is_never_shorter_than_the_requested_one():
    assert Backoff(first=0.1, longest=5, shortened=0).after(1, at_least=2) == 2


def test_chance_shortens_a_pause_by_its_share_and_no_more():
    pauses = [Backoff(first=1, longest=1, shortened=0.5).after(1) for _ in range(1000)]
    assert 0.5 <= min(pauses) < 0.6 and 0.9 < max(pauses) <= 1
