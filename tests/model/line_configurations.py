"""The situations that the model of the line is walked through."""

from model.line_model import Configuration, Task

_TWO_OF_ONE_SCOPE = (Task("A", "x"), Task("B", "x", input=2))
_SHARED_KEY = (Task("A", keys=frozenset({1, 2})), Task("B", keys=frozenset({1, 3})))
_FOUR_APPENDS = tuple(Task(name, keys=frozenset({key})) for key, name in enumerate("ABCD", 1))


# Cells are letters, keys are numbers. A start is the table that is there before anything happens, as entry 0 and version 1.
CONFIGURATIONS = (
    Configuration("two replaces of one scope", _TWO_OF_ONE_SCOPE, start=("x",), inputs=2),
    Configuration("two replaces of disjoint scopes", (Task("A", "x"), Task("B", "y")), start=("x", "y")),
    Configuration("a replace of everything against a narrow one", (Task("A"), Task("B", "x")), start=("x", "y")),
    Configuration("a range against a narrow one in an empty table", (Task("A", "xy"), Task("B", "x"))),
    Configuration("two narrow replaces that are widened to one scope", (Task("A", "x"), Task("B", "y")), start=("xy",)),
    Configuration("a replace beside one that the gate refuses", (Task("A", "x"), Task("B", "x", bad=True)), start=("x",)),
    Configuration("two appends that share a key", _SHARED_KEY, appends=True),
    Configuration("two appends far apart", (Task("A", keys=frozenset({1, 2})), Task("B", keys=frozenset({8, 9}))), start=("5",), appends=True),
    Configuration("two appends under a table rule", (Task("A", keys=frozenset({1, 2})), Task("B", keys=frozenset({3, 4}))), start=("5",), appends=True, limit=4),
    Configuration("a foreign writer", (Task("A", "x"), Task("B", "y")), start=("x",), foreign=True),
    Configuration("four appends, and one gets the turn", _FOUR_APPENDS, appends=True, limit=9, committers=1, crashes=0),
    Configuration("a wide replace beside narrow ones", (Task("A"), Task("B", "x"), Task("C", "y"), Task("D", "x")), start=("x", "y"), committers=1, crashes=0),
)


def configuration(name: str) -> Configuration:
    return next(one for one in CONFIGURATIONS if one.name == name)
