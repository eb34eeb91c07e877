"""The graph of datasets over all DAGs of an org: which dataset is made from which, without cycles. Pure."""

import graphlib
from collections.abc import Iterable
from uuid import UUID


def find_cycle(edges: Iterable[tuple[UUID, UUID]]) -> list[UUID] | None:
    """A cycle of datasets in (output, input) pairs, each made from the next; None if there is no cycle."""
    graph: dict[UUID, set[UUID]] = {}
    for made, reads in edges:
        graph.setdefault(made, set()).add(reads)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        found: list[UUID] = error.args[1]  # each is read by the next, and the last is the first again
        return list(reversed(found[:-1]))
    return None
