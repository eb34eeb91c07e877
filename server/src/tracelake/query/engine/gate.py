"""The gate: checks a statement on DuckDB's own syntax tree, so that what is checked is what will run.

The whole tree is checked. A node of an unknown kind is refused, and so is a function that is not on the list.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tracelake.query.engine.functions import FUNCTIONS, TABLE_FUNCTIONS
from tracelake_sdk.errors import QueryInvalid, QueryRefused
from tracelake_sdk.queries import MOST_NAMES, RequestedName

Tree = Mapping[str, Any]

_DATASET = re.compile(r"([a-z][a-z0-9_]{0,127})(?:@([1-9][0-9]{0,17}))?")
_LOOKS_LIKE_FILE = re.compile(r"[/\\.*:]")
_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLES = frozenset({"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "EMPTY", "PIVOT"})
_MODIFIERS = frozenset({"ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"})
_ORDERS = frozenset({"ASCENDING", "DESCENDING", "ORDER_DEFAULT"})
_KNOWN = _NODES | _TABLES | _MODIFIERS | _ORDERS
_CLASSES = frozenset(
    {
        "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR",
        "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "TYPE", "WINDOW",
    }
)  # fmt: skip
_WRITES = re.compile(r"(INSERT|UPDATE|DELETE|MERGE|COPY)_QUERY_NODE")
# Catalogs that DuckDB resolves without a schema; a common table expression of such a name could hide one.
_CATALOGS = ("sqlite_", "duckdb_", "pg_", "pragma_", "information_schema")

HOW_TO_ASK = 'Select a version with FROM "orders@3" or FROM orders AT (VERSION => 3).'


@dataclass(frozen=True)
class Statement:
    """One statement that may run, and what it reads."""

    tree: Tree
    names: tuple[RequestedName, ...]


def judge(parsed: Tree) -> Statement:
    """The only statement of the text; raises QueryInvalid if it cannot be parsed, QueryRefused if it is not allowed."""
    if parsed["error"]:
        raise _not_understood(parsed)
    statements = cast("list[Tree]", parsed["statements"])
    if len(statements) != 1:
        raise QueryRefused(f"A query is exactly one statement; this text has {len(statements)}.")
    if statements[0].get("named_param_map"):
        raise QueryRefused("A query has no parameters; write the values into it.")
    try:
        names = dict.fromkeys(_names(statements[0]["node"], frozenset()))
    except RecursionError:
        raise QueryRefused("The statement is nested too deeply; split it with WITH, or simplify it.") from None
    if len(names) > MOST_NAMES:
        raise QueryRefused(f"The statement reads {len(names)} datasets; {MOST_NAMES} is the limit.")
    return Statement(statements[0]["node"], tuple(RequestedName(name=name, version=version) for name, version in names))


def _not_understood(parsed: Tree) -> Exception:
    sentence = str(parsed.get("error_message", "")).rstrip(".")
    if parsed.get("error_type") == "not implemented":
        return QueryRefused("A query must be one SELECT, or WITH and a SELECT.")
    if "depth" in sentence:
        return QueryRefused("The statement is nested too deeply; split it with WITH, or simplify it.")
    where = f" (at character {int(parsed['position']) + 1})" if str(parsed.get("position", "")).isdigit() else ""
    return QueryInvalid(f"The statement is not valid: {sentence}{where}.")


def _names(part: Any, common: frozenset[str]) -> Iterator[tuple[str, int | None]]:
    """The datasets that a part of the tree reads; `common` are names that WITH defines."""
    if isinstance(part, list):
        for inner in cast("list[Any]", part):
            yield from _names(inner, common)
        return
    if not isinstance(part, dict):
        return
    node = cast("dict[str, Any]", part)
    _check_kind(node)
    if "function_name" in node:
        _check_function(node, FUNCTIONS)
    if node.get("type") == "TABLE_FUNCTION":
        _check_function(node["function"], TABLE_FUNCTIONS)
        yield from _names(node["function"]["arguments"], common)
        return
    if node.get("type") == "BASE_TABLE":
        yield from _table(node, common)
    if "cte_map" in node:
        for entry in cast("list[dict[str, Any]]", node["cte_map"].get("map", [])):
            name = _common_name(entry["key"])
            body = entry["value"]["query_node"]
            itself = {name} if body["type"] == "RECURSIVE_CTE_NODE" else set[str]()
            yield from _names({key: value for key, value in entry["value"].items() if key != "query_node"}, common)
            yield from _names(body, common | itself)
            common |= {name}
    for key, inner in node.items():
        if key not in ("cte_map", "at_clause"):
            yield from _names(inner, common)


def _check_kind(node: dict[str, Any]) -> None:
    kind = node.get("class", node.get("type"))
    if not isinstance(kind, str) or kind in (_CLASSES if "class" in node else _KNOWN):
        return
    if kind == "PARAMETER":
        raise QueryRefused("A query has no parameters; write the values into it.")
    if kind == "SHOW_REF":
        raise QueryRefused("DESCRIBE, SHOW and SUMMARIZE are not supported; `tracelake dataset show NAME` lists the columns of a dataset.")
    if _WRITES.fullmatch(kind):
        raise QueryRefused("A query only reads; statements that write are not supported.")
    raise QueryRefused(f"A part of the statement ({kind.lower().replace('_', ' ')}) is not supported.")


def _check_function(node: dict[str, Any], allowed: frozenset[str]) -> None:
    name = str(node["function_name"])
    if node.get("schema") or node.get("catalog"):
        raise QueryRefused(f"Functions are called by their plain names; write {name}(…) alone.")
    if name.lower() in allowed:
        return
    if name == "@":
        raise QueryRefused(HOW_TO_ASK)
    if allowed is TABLE_FUNCTIONS:
        raise QueryRefused(f"{name}() is not supported: queries only read published datasets by name.")
    raise QueryRefused(f"The function {name}() is not supported.")


def _common_name(key: str) -> str:
    name = key.lower()
    if name.startswith(_CATALOGS):
        raise QueryRefused(f"The name {key!r} in WITH is reserved; choose another.")
    return name


def _table(node: dict[str, Any], common: frozenset[str]) -> Iterator[tuple[str, int | None]]:
    if node.get("schema_name") or node.get("catalog_name"):
        raise QueryRefused(f"Datasets are read by their plain names; write {node['table_name']} alone.")
    if node.get("at_clause"):
        raise QueryRefused(HOW_TO_ASK)
    name = str(node["table_name"]).lower()
    if name in common:
        return
    found = _DATASET.fullmatch(name)
    if found is None and _LOOKS_LIKE_FILE.search(name):
        raise QueryRefused("Queries read published datasets by name; files are not supported.")
    if found is None:
        raise QueryRefused(f"A dataset's name has only lowercase letters, digits and underscores. {HOW_TO_ASK}")
    yield found[1], int(found[2]) if found[2] else None
