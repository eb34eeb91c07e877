"""Whether a statement always returns the same result on the same rows, decided from its syntax tree. Pure.

If not, a sentence says why. If in doubt, it is not replayable.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tracelake.query.engine.functions import AGGREGATES, BY_ORDER, FLOATING, VOLATILE, VOLATILE_NAMES, WINDOWS_BY_ORDER

Node = Mapping[str, Any]
Keys = Mapping[str, Sequence[str]]  # the unique key of each table that is read, by the name it is read under

_LIMITED = (
    "LIMIT returns arbitrary rows if ORDER BY is not a total order: order by every column of the result,"
    " or by the unique key of the only dataset if no row has a null in it."
)


@dataclass(frozen=True)
class Replayability:
    why_not: str | None              # None: it always returns the same rows
    in_order: bool                   # the order of its rows is determined, so that the first rows are the same each time
    computed: frozenset[int] | None  # indexes of result columns that are computed, not columns of a dataset; None: unknown, treat all as computed


def judge_replay(tree: Node, keys: Keys) -> Replayability:
    return Replayability(next(_doubts(tree, keys), None), _ordered(tree, keys), _computed(tree))


def _doubts(tree: Node, keys: Keys) -> Iterator[str]:
    for node in _every(tree):
        if node.get("class") == "COLUMN_REF" and len(node["column_names"]) == 1 and node["column_names"][0].lower() in VOLATILE_NAMES:
            yield f"{node['column_names'][0].lower()} returns another value each time."
        if "function_name" in node:
            yield from _of_function(node)
        if node.get("sample"):
            yield "A sample returns other rows each time."
        if node.get("ref_type") == "POSITIONAL":
            yield "A positional join depends on the order of rows."
        if "modifiers" in node:
            yield from _of_modifiers(node, keys)


def _of_function(node: Node) -> Iterator[str]:
    name = node["function_name"].lower()
    if name in VOLATILE:
        yield f"{name}() returns another value each time."
    if name == "age" and len(node.get("arguments", ())) == 1:
        yield "age() of one time counts from today."
    if node.get("class") == "WINDOW":
        by_order = name in WINDOWS_BY_ORDER or name in BY_ORDER or str(node.get("start", "")).endswith("_ROWS") or str(node.get("end", "")).endswith("_ROWS")
        if by_order and not node.get("orders"):
            yield f"{name}() depends on an order of rows that OVER does not define."
    elif name in BY_ORDER and not cast("Node", node.get("order_bys") or {}).get("orders"):
        yield f"{name}() depends on the order of rows; define it: {name}(… ORDER BY …)."


def _of_modifiers(node: Node, keys: Keys) -> Iterator[str]:
    for modifier in cast("list[Node]", node["modifiers"]):
        limited = modifier.get("type") in ("LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER")
        if limited and not _ordered(node, keys) and not _is_one_row(node):
            yield _LIMITED
        if modifier.get("type") == "DISTINCT_MODIFIER" and modifier.get("distinct_on_targets") and not _ordered(node, keys):
            yield "DISTINCT ON keeps any row of each group if ORDER BY does not determine their order."


def _ordered(node: Node, keys: Keys) -> bool:
    """Whether ORDER BY determines the order of the rows of this node, except for equal rows."""
    orders = [order["expression"] for modifier in node["modifiers"] if modifier.get("type") == "ORDER_MODIFIER" for order in modifier["orders"]]
    if not orders:
        return False
    if any(order.get("class") == "STAR" for order in orders):
        return True  # ORDER BY ALL
    if node["type"] != "SELECT_NODE":
        return False
    items = cast("list[Node]", node["select_list"])
    # With one table a column is identified by its last name; with several it could belong to any of them.
    alone = node["from_table"].get("type") == "BASE_TABLE"
    by = {_spelt(order, alone) for order in orders} | {_spelt(items[place], alone) for order in orders if (place := _place(order, items)) is not None}
    named = {item["alias"].lower() for item in items if item.get("alias") and ("column", item["alias"].lower()) in by}

    def is_ordered(part: Node) -> bool:
        return _spelt(part, alone) in by or part.get("alias", "").lower() in named

    if all(is_ordered(item) for item in items):
        return True
    groups = cast("list[Node]", node.get("group_expressions") or [])
    if groups and len(node.get("group_sets") or ()) <= 1:
        return all(is_ordered(items[place] if (place := _place(group, items)) is not None else group) for group in groups)
    return _ordered_by_key(node, by, keys)


def _ordered_by_key(node: Node, by: set[Any], keys: Keys) -> bool:
    table = cast("Node", node["from_table"])
    if table.get("type") != "BASE_TABLE" or _groups_or_unnests(node):
        return False
    key = keys.get(str(table["table_name"]).lower(), ())
    return bool(key) and all(("column", column.lower()) in by for column in key)


def _groups_or_unnests(node: Node) -> bool:
    """Whether a row of the result is not a row of the table."""
    if node.get("group_expressions") or node.get("aggregate_handling") != "STANDARD_HANDLING":
        return True
    return any(part.get("function_name", "").lower() == "unnest" for item in node["select_list"] for part in _every(item))


def _is_one_row(node: Node) -> bool:
    """Aggregates without a group."""
    if node.get("type") != "SELECT_NODE" or node.get("group_expressions") or node.get("aggregate_handling") != "STANDARD_HANDLING":
        return False
    plain = [part for item in node["select_list"] for part in _every(item) if part.get("class") in ("FUNCTION", "WINDOW")]
    return any(part["class"] == "FUNCTION" and part["function_name"].lower() in AGGREGATES for part in plain)


def _computed(tree: Node) -> frozenset[int] | None:
    summed = any("function_name" in node and node["function_name"].lower() in FLOATING for node in _every(tree))
    if tree["type"] != "SELECT_NODE":
        return None if summed else frozenset()
    items = cast("list[Node]", tree["select_list"])
    plain = [item.get("class") == "COLUMN_REF" or (item.get("class") == "STAR" and not item.get("replace_list") and not item.get("expr")) for item in items]
    if all(plain) and not summed:
        return frozenset()
    if any(item.get("class") == "STAR" for item in items):
        return None
    # A column of a subquery may be a sum: then no column is known to be plain.
    inner_sums = summed and any("function_name" in node and node["function_name"].lower() in FLOATING for node in _every({"from": tree["from_table"], "with": tree["cte_map"]}))
    return frozenset(range(len(items))) if inner_sums else frozenset(place for place, is_plain in enumerate(plain) if not is_plain)


def _place(order: Node, items: Sequence[Node]) -> int | None:
    """ORDER BY 2 and GROUP BY 2 mean the second item."""
    literal = order.get("literal") or {}
    if order.get("class") != "CONSTANT" or literal.get("kind") != "INTEGER":
        return None
    place = int(literal["text"]) - 1
    return place if 0 <= place < len(items) else None


def _spelt(node: Any, alone: bool) -> Any:
    """A form that is equal for equal expressions; position and alias do not count."""
    if isinstance(node, list):
        return tuple(_spelt(inner, alone) for inner in cast("list[Any]", node))
    if not isinstance(node, dict):
        return node
    part = cast("dict[str, Any]", node)
    if part.get("class") == "COLUMN_REF":
        return ("column", *(name.lower() for name in part["column_names"][-1 if alone else 0 :]))
    return tuple((key, _spelt(value, alone)) for key, value in sorted(part.items()) if key not in ("alias", "query_location", "query_location_length"))


def _every(part: Any) -> Iterator[dict[str, Any]]:
    """Every node of a tree."""
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found = cast("dict[str, Any]", node)
            yield found
            waiting.extend(found.values())
        elif isinstance(node, list):
            waiting.extend(cast("list[Any]", node))
