"""What is used last is kept, within the bounds."""

from tracelake_sdk.bounded_cache import BoundedCache


def test_what_was_used_last_is_kept():
    cache = BoundedCache[str, int](2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.find("a") == 1
    cache.put("c", 3)
    assert (cache.find("a"), cache.find("b"), cache.find("c")) == (1, None, 3)


def test_weights_add_up_and_an_entry_that_is_replaced_weighs_once():
    cache = BoundedCache[str, bytes](10, weigh=len)
    for _ in range(5):
        cache.put("a", b"12345")
    cache.put("b", b"12345")
    assert cache.find("a") and cache.find("b")
    cache.put("c", b"1")
    assert cache.find("a") is None and cache.find("b") and cache.find("c")


def test_an_entry_heavier_than_the_bound_is_kept_until_the_next():
    cache = BoundedCache[str, bytes](10, weigh=len)
    cache.put("a", b"x" * 100)
    assert cache.find("a")
    cache.put("b", b"x")
    assert cache.find("a") is None and cache.find("b")


def test_what_is_too_old_is_not_found():
    now = 0.0
    cache = BoundedCache[str, int](10, seconds=5, clock=lambda: now)
    cache.put("a", 1)
    now = 4.9
    assert cache.find("a") == 1
    now = 5.0
    assert cache.find("a") is None


def test_what_is_forgotten_is_made_again():
    cache = BoundedCache[str, int](10)
    made = iter((1, 2))
    assert cache.find_or_make("a", lambda: next(made)) == cache.find_or_make("a", lambda: next(made)) == 1
    cache.forget("a")
    assert cache.find_or_make("a", lambda: next(made)) == 2
