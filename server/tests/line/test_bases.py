"""Bases: tasks of one line that ran at the same time never lose a row, double a key or overwrite what is newer."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.controls import failed
from support.lakes import Lake
from support.lines import (
    APPENDING,
    PARTITIONED,
    RANGED,
    REPLACING,
    generation_of,
    load,
    load_parts,
    part,
    rewrite,
    rewritten,
    tasks_of,
    versions_of,
    waiting,
    wanted_scopes,
)
from support.sizes import size

from tracelake.control.versions import store as versions
from tracelake_sdk.datasets.scopes import CursorScope, RangeScope
from tracelake_sdk.tasks import ClaimedTask, Completion, CompletionAnswer, CompletionResult, Outcome, TaskState


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def two_tasks(lake: Lake, *, number: int = 2) -> list[ClaimedTask]:
    """Tasks of `clean` that hold the same base and have reported nothing."""
    for at in range(number):
        load(lake, 10_000_000 + len(versions_of(lake, "load")) + at)
    claimed = tasks_of(lake, "clean")
    assert len(claimed) == number
    assert len({task.payload.base for task in claimed}) == 1
    return claimed


def append(lake: Lake, task: ClaimedTask, ids: list[int], together: threading.Barrier | None = None) -> tuple[CompletionAnswer, int]:
    """What a worker does: stages, and after each moved base leaves out what is there by now; also says how often it was moved."""
    base, moves, there = task.payload.base, 0, set[int]()
    if together is not None:
        together.wait()
    while True:
        left = [(id, f"{task.fence.task_id}") for id in ids if id not in there]
        files = [lake.stage(task, left, name=f"part-{moves}")] if left else []
        answer = lake.report(task, lake.measured(files), base=base)
        if answer.result is CompletionResult.WAIT:
            continue
        if answer.result is not CompletionResult.BASE_MOVED:
            return answer, moves
        base, moves = answer.base, moves + 1
        for moved in answer.moved:
            for file in moved.added:
                there |= {row[0] for row in lake.rows_of(lake.location_of("clean") / file.path)}


@pytest.mark.proves("T8.2")
def test_two_appends_that_share_a_key_and_ran_at_the_same_time_leave_one_row(lake: Lake, pool: ThreadPoolExecutor):
    lake.deploy(APPENDING)
    for number in range(size(20, 100)):
        one, two = two_tasks(lake)
        together = threading.Barrier(2)
        shared, mine, theirs = 3 * number, 3 * number + 1, 3 * number + 2
        done = [pool.submit(append, lake, one, [shared, mine], together), pool.submit(append, lake, two, [theirs, shared], together)]
        answers = [future.result() for future in done]
        assert [answer.result for answer, _ in answers] == ["committing", "committing"]
        assert sorted(moves for _, moves in answers) == [0, 1]
        lake.move()
    ids = [row[0] for row in lake.rows(lake.location_of("clean"))]
    assert ids == list(range(3 * size(20, 100)))


@pytest.mark.proves("T8.2")
def test_an_append_whose_rows_all_came_meanwhile_ends_unchanged(lake: Lake):
    lake.deploy(APPENDING)
    one, two = two_tasks(lake)
    assert append(lake, one, [1, 2])[0].result == "committing"
    answer, moves = append(lake, two, [2, 1])
    assert (answer.result, answer.task_state, moves) == (CompletionResult.UNCHANGED, TaskState.COMPLETED, 1)
    lake.move()
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [1, 2]
    assert versions_of(lake, "clean") == [1]
    assert lake.query("SELECT count(*) FROM promotion_status JOIN task ON task.id = task_id WHERE task.id = %s", two.fence.task_id) == [(0,)]
    assert lake.query("SELECT status::text FROM run_history WHERE task_id = %s", two.fence.task_id) == [("SUCCESS",)]


def test_appends_of_other_keys_do_not_wait_for_each_other(lake: Lake, pool: ThreadPoolExecutor):
    lake.deploy(APPENDING)
    for number in range(size(5, 50)):
        claimed = two_tasks(lake, number=4)
        together = threading.Barrier(4)
        first = 100 * number
        done = [pool.submit(append, lake, task, [first + 10 * at, first + 10 * at + 9], together) for at, task in enumerate(claimed)]
        assert [future.result()[1] for future in done] == [0, 0, 0, 0]
        assert {future.result()[0].result for future in done} == {CompletionResult.COMMITTING}
        lake.move()
    assert len(lake.rows(lake.location_of("clean"))) == 8 * size(5, 50)


def test_a_moved_base_names_exactly_the_files_since(lake: Lake):
    lake.deploy(APPENDING)
    one, two, three = two_tasks(lake, number=3)
    append(lake, one, [1])
    moved = lake.write(two, [(1, "b")])
    assert (moved.result, moved.base, moved.task_state) == (CompletionResult.BASE_MOVED, 1, None)
    assert [file.path.split("/")[0] for file in moved.moved[0].added] == [f"{one.fence.task_id}-1"]
    append(lake, three, [7])
    # The second look names only what came after the first one.
    again = lake.report(two, lake.measured([lake.stage(two, [(7, "b")])]), base=1)
    assert (again.result, again.base) == (CompletionResult.BASE_MOVED, 2)
    assert [file.path.split("/")[0] for file in again.moved[0].added] == [f"{three.fence.task_id}-1"]


def test_a_moved_base_whose_answer_was_lost_is_answered_again(lake: Lake):
    lake.deploy(APPENDING)
    one, two = two_tasks(lake)
    append(lake, one, [1])
    file = lake.stage(two, [(1, "b"), (2, "b")])
    first = lake.report(two, lake.measured([file]))
    again = lake.report(two, lake.measured([file]))
    assert first.result is again.result is CompletionResult.BASE_MOVED
    assert (first.base, first.moved) == (again.base, again.moved)
    assert lake.report(two, lake.measured([lake.stage(two, [(2, "b")], name="part-1")]), base=again.base).result == "committing"


@pytest.mark.parametrize("base", [1, 7, -1])
def test_a_report_against_an_unassigned_base_is_refused(lake: Lake, base: int):
    lake.deploy(APPENDING)
    one, two = two_tasks(lake)
    append(lake, one, [1])
    answer = lake.write(two, [(2, "b")], base=base)
    assert (answer.result, answer.code) == (CompletionResult.REFUSED, "invalid")
    assert lake.write(two, [(2, "b")]).result == "committing"


def test_after_two_moved_bases_the_others_wait_for_that_attempt(lake: Lake):
    lake.deploy(APPENDING)
    unlucky, one, two, three = two_tasks(lake, number=4)
    append(lake, one, [1])
    assert lake.write(unlucky, [(1, "u"), (2, "u"), (3, "u")]).result is CompletionResult.BASE_MOVED
    append(lake, two, [2])
    assert lake.report(unlucky, lake.measured([lake.stage(unlucky, [(2, "u"), (3, "u")], name="b")]), base=1).result is CompletionResult.BASE_MOVED
    # Others, even of other keys, wait now.
    report = lake.measured([lake.stage(three, [(900, "t")])])
    assert lake.report(three, report).result is CompletionResult.WAIT
    assert lake.report(three, report).result is CompletionResult.WAIT
    assert lake.report(unlucky, lake.measured([lake.stage(unlucky, [(3, "u")], name="c")]), base=2).result == "committing"
    assert lake.report(three, report).result == "committing"
    lake.move()
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [1, 2, 3, 900]


def test_a_turn_ends_with_the_lease_of_its_attempt(lake: Lake):
    lake.deploy(APPENDING)
    unlucky, one, two, three = two_tasks(lake, number=4)
    append(lake, one, [1])
    lake.write(unlucky, [(1, "u"), (2, "u")])
    append(lake, two, [2])
    assert lake.report(unlucky, lake.measured([lake.stage(unlucky, [(2, "u")], name="b")]), base=1).result is CompletionResult.BASE_MOVED
    report = lake.measured([lake.stage(three, [(900, "t")])])
    assert lake.report(three, report).result is CompletionResult.WAIT
    lake.query("UPDATE task SET lease_expires_at = now() - interval '1 second' WHERE id = %s", unlucky.fence.task_id)
    assert lake.report(three, report).result == "committing"


def test_a_turn_ends_when_its_attempt_fails(lake: Lake):
    lake.deploy(APPENDING)
    unlucky, one, two, three = two_tasks(lake, number=4)
    append(lake, one, [1])
    lake.write(unlucky, [(1, "u"), (2, "u")])
    append(lake, two, [2])
    lake.report(unlucky, lake.measured([lake.stage(unlucky, [(2, "u")], name="b")]), base=1)
    lake.complete(failed(unlucky))
    assert lake.write(three, [(900, "t")]).result == "committing"


# Replace

A, B, C = part("a"), part("b"), part("c")


def cut(lake: Lake) -> None:
    """A table of three partitions with one row each."""
    lake.deploy(PARTITIONED)
    load(lake, 1, job="rates")
    load_parts(lake, {A: [(1, "a")], B: [(2, "b")], C: [(3, "c")]})
    for task in lake.take():
        [scope] = wanted_scopes(task) or [None]
        if scope is not None:
            assert rewrite(lake, task, {scope: [(0, scope.key)]}).result == "committing"
        else:
            task_given_back(lake, task)
    lake.move()
    for task in lake.take():  # the lookup table's own task asks for everything
        assert task.payload.outputs[0].staged.everything
        assert rewrite(lake, task, {A: [(0, "a")], B: [(0, "b")], C: [(0, "c")]}).result == "committing"
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(0, "a"), (0, "b"), (0, "c")]


def task_given_back(lake: Lake, task: ClaimedTask) -> None:
    [answer] = lake.complete(Completion(fence=task.fence, outcome=Outcome.GIVEN_BACK))
    assert answer.result == "done"


def wide(lake: Lake) -> ClaimedTask:
    """A task that rewrites everything."""
    load(lake, 1, job="rates")
    [task] = tasks_of(lake, "clean")
    assert task.payload.outputs[0].staged.everything
    return task


def narrow(lake: Lake, key: str) -> ClaimedTask:
    load_parts(lake, {part(key): [(1_000 + len(versions_of(lake, "load")), key)]})
    [task] = tasks_of(lake, "clean")
    assert wanted_scopes(task) == [part(key)]
    return task


@pytest.mark.proves("T8.1")
def test_a_wide_replace_never_erases_a_newer_narrow_one(lake: Lake):
    cut(lake)
    long_one = wide(lake)
    short_one = narrow(lake, "a")
    assert rewrite(lake, short_one, {A: [(10, "a")]}).result == "committing"
    answer = rewrite(lake, long_one, {A: [(5, "a")], B: [(5, "b")], C: [(5, "c")]})
    assert (answer.result, answer.task_state) == (CompletionResult.SUPERSEDED, TaskState.QUEUED)
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(0, "b"), (0, "c"), (10, "a")]
    # It runs again, on what is there now.
    [again] = tasks_of(lake, "clean")
    assert again.fence.task_id == long_one.fence.task_id and again.fence.attempt == 2
    assert (again.payload.base, long_one.payload.base) == (again.payload.base, again.payload.base - 1)
    assert [pin.pinned.version for pin in again.payload.inputs] == [versions_of(lake, "load")[-1], versions_of(lake, "rates")[-1]]
    assert [pin.pinned.version for pin in long_one.payload.inputs] == [versions_of(lake, "load")[-2], versions_of(lake, "rates")[-1]]
    assert rewrite(lake, again, {A: [(11, "a")], B: [(5, "b")], C: [(5, "c")]}).result == "committing"
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(5, "b"), (5, "c"), (11, "a")]
    assert lake.query("SELECT failures, superseded FROM task WHERE id = %s", long_one.fence.task_id) == [(0, 1)]
    assert lake.query("SELECT status::text, error_message LIKE 'The result was out of date%%' FROM run_history WHERE task_id = %s ORDER BY attempt",
                      long_one.fence.task_id) == [("FAILED", True), ("SUCCESS", None)]


@pytest.mark.proves("T8.1")
def test_a_narrow_replace_of_an_older_input_never_overwrites_a_newer_wide_one(lake: Lake):
    cut(lake)
    short_one = narrow(lake, "a")
    long_one = wide(lake)
    assert rewrite(lake, long_one, {A: [(5, "a")], B: [(5, "b")], C: [(5, "c")]}).result == "committing"
    lake.move()
    assert rewrite(lake, short_one, {A: [(4, "a")]}).result is CompletionResult.SUPERSEDED
    assert lake.rows(lake.location_of("clean")) == [(5, "a"), (5, "b"), (5, "c")]


def test_replaces_of_other_scopes_do_not_supersede_each_other(lake: Lake):
    cut(lake)
    load_parts(lake, {A: [(1, "a")], B: [(2, "b")]})
    one, two = tasks_of(lake, "clean")
    assert rewrite(lake, one, {wanted_scopes(one)[0]: [(7, "x")]}).result == "committing"
    assert rewrite(lake, two, {wanted_scopes(two)[0]: [(8, "x")]}).result == "committing"
    lake.move()
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [0, 7, 8]


@pytest.mark.proves("T8.1")
def test_a_task_that_was_superseded_twice_runs_alone(lake: Lake):
    cut(lake)
    long_one = wide(lake)
    for number in (1, 2):
        short_one = narrow(lake, "a")
        assert rewrite(lake, short_one, {A: [(number, "a")]}).result == "committing"
        lake.move()
        if number == 2:
            running = narrow(lake, "b")
        assert rewrite(lake, long_one, {A: [(5, "a")], B: [(5, "b")], C: [(5, "c")]}).result is CompletionResult.SUPERSEDED
        if number == 1:
            [long_one] = tasks_of(lake, "clean")
    # While another task of the line runs it is not claimed, and nothing else is either.
    load_parts(lake, {C: [(9, "c")]})
    assert tasks_of(lake, "clean") == []
    assert waiting(lake, "clean") == ["line", "line"]
    assert rewrite(lake, running, {B: [(3, "b")]}).result == "committing"
    lake.move()
    [alone] = tasks_of(lake, "clean")
    assert alone.fence.task_id == long_one.fence.task_id
    assert waiting(lake, "clean") == ["line"]
    lake.services.tasks.reaper.run_once()
    assert tasks_of(lake, "clean") == []
    assert rewrite(lake, alone, {A: [(5, "a")], B: [(5, "b")], C: [(5, "c")]}).result == "committing"
    lake.move()
    [after] = tasks_of(lake, "clean")
    assert wanted_scopes(after) == [C]
    assert lake.query("SELECT DISTINCT reserved_task_id FROM line") == [(None,)]


def test_a_canceled_task_keeps_nobody_waiting(lake: Lake):
    cut(lake)
    long_one = wide(lake)
    for number in (1, 2):
        rewrite(lake, narrow(lake, "a"), {A: [(number, "a")]})
        lake.move()
        assert rewrite(lake, long_one, {A: [], B: [], C: []}).result is CompletionResult.SUPERSEDED
        if number == 1:
            [long_one] = tasks_of(lake, "clean")
    load_parts(lake, {C: [(9, "c")]})
    lake.services.tasks.cancels.cancel(lake.admin, long_one.fence.task_id)
    lake.services.tasks.reaper.run_once()
    [task] = tasks_of(lake, "clean")
    assert wanted_scopes(task) == [C]


def test_two_tasks_that_were_superseded_twice_run_alone_one_after_the_other(lake: Lake):
    cut(lake)
    for _ in range(2):
        load(lake, 1, job="rates")
    long_ones = tasks_of(lake, "clean")
    assert len(long_ones) == 2
    for number in (1, 2):
        rewrite(lake, narrow(lake, "a"), {A: [(number, "a")]})
        lake.move()
        for task in long_ones:
            assert rewrite(lake, task, {A: [], B: [], C: []}).result is CompletionResult.SUPERSEDED
        if number == 1:
            long_ones = tasks_of(lake, "clean")
            assert len(long_ones) == 2
    load_parts(lake, {C: [(9, "c")]})
    for expected in long_ones:
        [alone] = tasks_of(lake, "clean")
        assert alone.fence.task_id == expected.fence.task_id
        assert tasks_of(lake, "clean") == []
        load(lake, 1, job="rates")  # so that the next one is not unchanged
        assert rewrite(lake, alone, {A: [(6, "a")], B: [(6, "b")], C: [(6, "c")]}).result == "committing"
        lake.move()
    assert lake.query("SELECT DISTINCT reserved_task_id FROM line") == [(None,)]
    assert len(tasks_of(lake, "clean")) == 3  # the narrow one, and those of the lookup table


def test_a_long_replace_beside_a_stream_of_narrow_ones_finishes(lake: Lake):
    """Each time the long one reports, a narrow one has come in between; after the second time it has the line for itself."""
    cut(lake)
    long_one = wide(lake)
    tries = 0
    for number in range(size(12, 60)):
        load_parts(lake, {A: [(2_000 + number, "a")]})
        for task in lake.take():
            if wanted_scopes(task) == [A] and not task.payload.outputs[0].staged.everything:
                assert rewrite(lake, task, {A: [(number, "a")]}).result in ("committing", "superseded")
            else:
                long_one = task
        lake.move()
        if lake.one("SELECT state::text FROM task WHERE id = %s", long_one.fence.task_id) == "running":
            tries += 1
            rows = lake.rows(lake.location_of("clean"))
            answer = rewrite(lake, long_one, {A: [row for row in rows if row[1] == "a"], B: [(5, "b")], C: [(5, "c")]})
            if answer.result == "committing":
                break
    assert tries <= 3
    assert lake.one("SELECT state::text FROM task WHERE id = %s", long_one.fence.task_id) == "committing"
    lake.move()
    assert [row for row in lake.rows(lake.location_of("clean")) if row[1] != "a"] == [(5, "b"), (5, "c")]


@pytest.mark.proves("T8.3")
def test_a_replace_is_widened_to_whole_scopes_when_it_is_claimed(lake: Lake):
    lake.deploy(RANGED)
    load_parts(lake, {RangeScope(start=5, end=12): [(5, "x"), (11, "x")]})
    [task] = tasks_of(lake, "clean")
    assert wanted_scopes(task) == [RangeScope(start=0, end=10), RangeScope(start=10, end=20)]
    assert lake.query("SELECT scopes->'0'->'scopes' FROM task_attempt WHERE task_id = %s", task.fence.task_id) == [
        ([{"kind": "range", "start": 0, "end": 10}, {"kind": "range", "start": 10, "end": 20}],)
    ]
    assert rewrite(lake, task, {RangeScope(start=0, end=10): [(5, "x")], RangeScope(start=10, end=20): [(11, "x")]}).result == "committing"
    lake.move()
    load_parts(lake, {CursorScope(value=7): [(7, "x")]})
    [task] = tasks_of(lake, "clean")
    assert wanted_scopes(task) == [RangeScope(start=0, end=10)]
    assert rewrite(lake, task, {RangeScope(start=0, end=10): [(5, "x"), (7, "x")]}).result == "committing"
    lake.move()
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [5, 7, 11]


@pytest.mark.proves("T8.3")
def test_a_replace_that_touches_parts_of_scopes_takes_all_of_them(lake: Lake):
    lake.deploy(RANGED.replace("execution_strategy: PerPartition", "execution_strategy: PerUpdate").replace(", range_size: 10", ""))
    first, second, third = (RangeScope(start=start, end=start + 10) for start in (0, 10, 30))
    load_parts(lake, {first: [(1, "x")], second: [(11, "x")], third: [(31, "x")]})
    for task in tasks_of(lake, "clean"):
        rewrite(lake, task, {wanted_scopes(task)[0]: [(wanted_scopes(task)[0].start + 1, "x")]})
    lake.move()
    load_parts(lake, {RangeScope(start=5, end=15): [(6, "x")]})
    [task] = tasks_of(lake, "clean")
    whole = RangeScope(start=0, end=20)
    assert wanted_scopes(task) == [whole]
    assert task.payload.inputs[0].pinned.scopes == [whole]
    assert rewrite(lake, task, {whole: [(1, "x"), (6, "x"), (11, "x")]}).result == "committing"
    lake.move()
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [1, 6, 11, 31]
    assert lake.query("SELECT scope->'start', scope->'end' FROM scope_state JOIN dataset_version AS v ON v.id = dataset_version_id"
                      " WHERE v.generation_id = %s ORDER BY span", generation_of(lake, "clean")) == [(0, 20), (30, 40)]


def test_a_replace_whose_scope_became_part_of_a_wider_one_meanwhile_is_superseded(lake: Lake):
    lake.deploy(RANGED.replace("execution_strategy: PerPartition", "execution_strategy: PerUpdate").replace(", range_size: 10", ""))
    load_parts(lake, {RangeScope(start=0, end=10): [(1, "x")], RangeScope(start=5, end=15): [(6, "x")]})
    one, two = tasks_of(lake, "clean")
    assert rewrite(lake, one, {wanted_scopes(one)[0]: [(wanted_scopes(one)[0].start + 1, "x")]}).result == "committing"
    assert rewrite(lake, two, {wanted_scopes(two)[0]: [(wanted_scopes(two)[0].start + 1, "x")]}).result is CompletionResult.SUPERSEDED
    load_parts(lake, {RangeScope(start=40, end=41): [(40, "x")]})  # so that it is not unchanged
    again = next(task for task in tasks_of(lake, "clean") if task.fence.task_id == two.fence.task_id)
    assert wanted_scopes(again) == [RangeScope(start=0, end=15)]


def test_a_scope_that_was_announced_and_got_no_row_is_empty_now(lake: Lake):
    """Also where the report forgets to say so: what was there is not left behind."""
    lake.deploy(RANGED)
    low, high = RangeScope(start=0, end=10), RangeScope(start=10, end=20)
    load_parts(lake, {RangeScope(start=5, end=12): [(5, "x"), (11, "x")]})
    [task] = tasks_of(lake, "clean")
    rewrite(lake, task, {low: [(5, "x")], high: [(11, "x")]})
    lake.move()
    load_parts(lake, {RangeScope(start=6, end=13): [(6, "x")]})
    [task] = tasks_of(lake, "clean")
    assert rewrite(lake, task, {low: [(6, "x")]}).result == "committing"
    lake.move()
    assert [row[0] for row in lake.rows(lake.location_of("clean"))] == [6]
    assert lake.query("SELECT count(*) FROM scope_state JOIN dataset_version AS v ON v.id = dataset_version_id WHERE v.generation_id = %s",
                      generation_of(lake, "clean")) == [(2,)]


def test_a_report_of_a_scope_that_was_not_announced_is_refused(lake: Lake):
    cut(lake)
    task = narrow(lake, "a")
    answer = lake.report(task, rewritten(lake, task, {A: [(1, "a")], B: []}))
    assert (answer.result, answer.code) == (CompletionResult.REFUSED, "invalid")
    assert rewrite(lake, task, {A: [(1, "a")]}).result == "committing"
    lake.move()
    assert (0, "b") in lake.rows(lake.location_of("clean"))


@pytest.mark.proves("T8.1")
def test_an_input_that_moves_while_a_task_is_claimed_is_never_older_than_the_base(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    """Between the two reads of a claim, a newer version of the input comes and a newer result is decided."""
    lake.deploy(REPLACING)
    load(lake, 1)
    armed = [True]

    def meanwhile() -> None:
        lake.run()
        [source] = lake.take()
        lake.write(source, [(2, "a")], state={})
        lake.move()
        [newer] = lake.take()
        assert lake.write(newer, [(2, "new")]).result == "committing"

    for name in ("lines", "current_versions"):
        real = getattr(versions, name)

        def read(*given: Any, real: Any = real, **named: Any) -> Any:
            found = real(*given, **named)
            if armed:
                armed.clear()
                meanwhile()
            return found

        monkeypatch.setattr(versions, name, read)
    claimed = lake.take()
    assert not armed
    # With the newer input it is unchanged; with the older one it would have to be superseded.
    for older in claimed:
        lake.write(older, [(older.payload.inputs[0].pinned.version, "old")])
    lake.move()
    assert lake.rows(lake.location_of("clean")) == [(2, "new")]
