"""How tasks that are not done yet go on under another definition, judged without a database."""

from uuid import UUID, uuid4

import pytest

from tracelake.control.deploys.unfinished_tasks import UnfinishedTask, adapt

OLD, NEW = uuid4(), uuid4()


def task(number: int, *, seq: int | None = None, waits: str | None = None, ordinal: int | None = None, state: str = "queued", attempt: int = 0, kind: str = "event"):
    return UnfinishedTask(UUID(int=number), OLD, state, waits, seq, ordinal, attempt, kind)


def changes(tasks: list[UnfinishedTask], *, pool: UUID = OLD, turns: int | None = None) -> dict[int, tuple]:
    """By number: (waits, ordinal, placed) of what changes."""
    return {changed.id.int: (changed.waits, changed.ordinal, changed.placed) for changed in adapt(tasks, pool=pool, turns=turns, next_ordinal=100)}


def test_nothing_changes_where_nothing_changed():
    assert changes([task(1, seq=5), task(2, waits="retry", attempt=1), task(3, state="running", attempt=1)]) == {}
    assert changes([task(1, seq=5, ordinal=1), task(2, waits="turn", ordinal=2)], turns=1) == {}


def test_another_pool_takes_everything_that_is_not_done_and_gives_new_places_in_the_old_order():
    tasks = [task(1, seq=9), task(2, seq=5), task(3, waits="paused"), task(4, state="running", attempt=1)]
    changed = adapt(tasks, pool=NEW, turns=None, next_ordinal=100)
    assert [one.id.int for one in changed if one.placed] == [2, 1]
    assert {one.id.int for one in changed} == {1, 2, 3, 4}
    assert {one.pool_id for one in changed} == {NEW}


def test_a_backlog_without_turns_takes_turns_in_its_order():
    tasks = [task(1, seq=30), task(2, seq=10), task(3, seq=20)]
    assert changes(tasks, turns=2) == {2: (None, 100, False), 3: (None, 101, False), 1: ("turn", 102, False)}


def test_a_claimed_task_continues_without_a_turn():
    tasks = [task(1, state="running", attempt=1), task(2, waits="retry", attempt=1), task(3, seq=5, attempt=2), task(4, seq=6)]
    assert changes(tasks, turns=1) == {4: (None, 100, False)}


def test_a_batchs_task_never_takes_a_turn():
    assert changes([task(1, seq=5, kind="batch"), task(2, seq=6)], turns=1) == {2: (None, 100, False)}


def test_a_held_task_takes_its_turn_and_stays_held():
    tasks = [task(1, waits="paused"), task(2, waits="input"), task(3, waits="line")]
    assert changes(tasks, turns=1) == {1: ("paused", 100, False), 2: ("input", 101, False), 3: ("line", 102, False)}


def test_more_turns_let_more_in():
    tasks = [task(1, state="running", ordinal=1, attempt=1), task(2, waits="turn", ordinal=2), task(3, waits="turn", ordinal=3)]
    assert changes(tasks, turns=2) == {2: (None, 2, True)}


def test_fewer_turns_send_unclaimed_tasks_back():
    tasks = [task(1, state="running", ordinal=1, attempt=1), task(2, seq=7, ordinal=2), task(3, seq=8, ordinal=3), task(4, waits="turn", ordinal=4)]
    assert changes(tasks, turns=2) == {3: ("turn", 3, False)}


def test_without_turns_everything_that_waited_for_one_comes_in():
    tasks = [task(1, state="running", ordinal=1, attempt=1), task(2, waits="turn", ordinal=2), task(3, waits="retry", ordinal=3, attempt=1)]
    assert changes(tasks, turns=None) == {1: (None, None, False), 2: (None, None, True), 3: ("retry", None, False)}


@pytest.mark.parametrize("turns", [None, 1, 3])
def test_following_twice_changes_nothing_more(turns: int | None):
    tasks = [task(1, seq=30), task(2, waits="turn", ordinal=2), task(3, waits="paused"), task(4, seq=2, ordinal=4), task(5, state="running", ordinal=1, attempt=1)]
    first = {one.id: one for one in adapt(tasks, pool=NEW, turns=turns, next_ordinal=100)}
    after = [first.get(one.id, one) for one in tasks]
    settled = [UnfinishedTask(o.id, o.pool_id, o.state, o.waits, 999 if o.placed else o.seq, o.ordinal, o.attempt, o.trigger_kind) for o in after]
    assert adapt(settled, pool=NEW, turns=turns, next_ordinal=200) == []
