"""The design of the line holds in every interleaving, and each design that was thought of before it breaks a promise that is named here.

`line_model` holds the steps, `line_invariants` what must hold, `line_configurations` the situations, `line_walk` the way through all of it.
"""

import re
from dataclasses import replace

import pytest
from model import line_invariants as must
from model import line_model
from model.line_configurations import CONFIGURATIONS, configuration
from model.line_invariants import broken_between, broken_in
from model.line_model import Configuration, Design, Line
from model.line_walk import Edge, Trace, after, covering, edges, edges_of, first_broken, random_trace, walk
from support.sizes import full, size


def fine(one: Configuration) -> Configuration:
    """In the finest steps, with as many committers and crashes as this run has time for."""
    if len(one.tasks) > 2:
        return one if not full() else replace(one, claims_in_two_steps=True, freezes_ahead=True, freezes_less=True)
    return replace(one, crashes=size(2, 3), committers=size(2, 3), claims_in_two_steps=True, freezes_ahead=True, freezes_less=True)


@pytest.mark.parametrize("one", CONFIGURATIONS, ids=lambda one: one.name)
def test_the_line_holds_in_every_interleaving(one: Configuration):
    walked = walk(Line(fine(one)))
    print(f"{one.name}: {walked.states} states, {walked.steps} steps, {walked.ends} ends")
    assert walked.broken == {}
    assert walked.ends
    assert walked.states > 500


WRONG = {
    "removes as of the recorded state": (Design(removes="of the recorded state, at decide"), "two replaces of one scope", {must.SCOPES, must.REPLAY}),
    "removes from Postgres at commit time": (Design(removes="from Postgres, at commit"), "two replaces of one scope", {must.SCOPES, must.REPLAY}),
    "removes from the Delta snapshot at commit time": (Design(removes="from the Delta snapshot, at commit"), "two replaces of one scope", {must.SCOPES}),
    "a retry at another version": (Design(keeps_its_version=False), "two appends far apart", {must.ONCE}),
    "two committers compute their own bytes": (Design(bytes_are_frozen=False), "two replaces of disjoint scopes", {must.STOPS}),
    "own bytes, written over what is there": (Design(bytes_are_frozen=False, puts_only_if_absent=False), "two replaces of disjoint scopes", {must.BYTES}),
    "pins before base": (Design(base_before_pins=False), "two replaces of one scope", {must.FRESH}),
    "recording out of order": (Design(records_in_order=False), "two replaces of disjoint scopes", {must.ORDER, must.SHOWN, must.GAPS}),
    "recording what another one froze since": (Design(records_what_it_put=False), "two replaces of disjoint scopes", {must.SHOWN}),
    "a group of overlapping scopes": (Design(groups_are_disjoint=False), "a replace of everything against a narrow one", {must.SCOPES, must.REPLAY}),
    "giving up after freeze": (Design(never_gives_up=False), "two replaces of one scope", {must.REFUSED}),
    "an unchecked base of replaces": (Design(base_is_checked=False), "two replaces of one scope", {must.FRESH}),
    "an unchecked base of appends": (Design(base_is_checked=False), "two appends that share a key", {must.KEYS}),
    "an unchecked base of a table rule": (Design(base_is_checked=False), "two appends under a table rule", {must.RULE}),
    "freezing out of order": (Design(freezes_in_order=False), "two replaces of one scope", {must.REPLAY}),
    "only who froze an entry may put it": (Design(anyone_may_put=False), "two appends far apart", {must.DONE}),
    "nobody gets the turn": (Design(turns_and_reservations=False), "four appends, and one gets the turn", {must.PATIENCE}),
    "nobody runs alone": (Design(turns_and_reservations=False), "a wide replace beside narrow ones", {must.PATIENCE}),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_design_is_caught(name: str):
    design, where, promises = WRONG[name]
    line = Line(fine(configuration(where)), design)
    broken = walk(line).broken if must.DONE in promises else first_broken(line, frozenset(promises))
    assert promises <= broken.keys()
    for promise in promises - {must.DONE}:
        assert promise in broken_along(line, broken[promise])


def broken_along(line: Line, steps: list[line_model.Step]) -> frozenset[str]:
    state = line.start()
    found = broken_in(line, state)
    for step in steps:
        assert not found  # the way is a shortest one: nothing is broken before its end
        before, state = state, after(line, state, step)
        found = broken_in(line, state) | broken_between(before, state)
    return found


def test_every_invariant_can_be_broken():
    assert frozenset().union(*(promises for _, _, promises in WRONG.values())) == must.ALL


def test_pins_before_base_let_an_older_input_win():
    """The shortest such run, in readable form."""
    line = Line(fine(configuration("two replaces of one scope")), Design(base_before_pins=False))
    steps = first_broken(line, frozenset({must.FRESH}))[must.FRESH]
    taken = [step[:2] for step in steps if step[0] in ("pins", "base", "input", "decide")]
    assert taken.index(("pins", "A")) < taken.index(("input",)) < taken.index(("decide", "B")) < taken.index(("base", "A")) < taken.index(("decide", "A"))


@pytest.fixture(scope="module")
def every_edge() -> dict[Edge, Trace]:
    return edges()


def test_every_word_of_the_vocabulary_is_used_and_no_other(every_edge: dict[Edge, Trace]):
    documented = set(re.findall(r'^(?: {4}\(| {8})"([\w ]+)"', line_model.__doc__ or "", re.MULTILINE))
    steps = [step for trace in every_edge.values() for step in trace.steps]
    used = {step[0] for step in steps} | {step[-1] for step in steps if step[0] in ("decide", "put")}
    assert used == documented - {"base", "pins"}


def test_traces_go_through_every_edge_and_end_as_they_say(every_edge: dict[Edge, Trace]):
    traces = covering(every_edge)
    print(f"{len(every_edge)} edges, {len(traces)} traces, {sum(len(trace.steps) for trace in traces)} steps")
    assert set().union(*(edges_of(trace) for trace in traces)) == every_edge.keys()
    late = ("replace", "a committer putting what is recorded", "put", "same bytes", "a task completed")
    assert late in every_edge
    for trace in traces:
        line = Line(trace.configuration)
        state = line.start()
        for step in trace.steps:
            state = after(line, state, step)
        assert line.ended(state)
        assert [[task for task, _ in state.frozen[version].members] for version in state.recorded] == trace.versions
        assert {name for version in trace.versions for name in version} - {"start"} == {name for name, is_ in trace.tasks.items() if is_ == "completed"}


def test_a_seed_gives_one_trace():
    traces = [random_trace(seed) for seed in range(size(100, 1000))]
    assert traces[7] == random_trace(7)
    assert {trace.configuration.name for trace in traces} == {one.name for one in CONFIGURATIONS}
    assert all(trace.stopped or set(trace.tasks.values()) <= {"completed", "blocked"} for trace in traces)
