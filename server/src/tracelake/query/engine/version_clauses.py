"""Versions in SQL: `orders AT (VERSION => 3)` becomes the name `"orders@3"` before the engine reads the statement.

Positions are counted in bytes, as DuckDB does.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from tracelake.query.engine.gate import HOW_TO_ASK, Tree
from tracelake_sdk.errors import QueryRefused

Parse = Callable[[str], Tree]
Tokenize = Callable[[str], Sequence[tuple[int, str]]]  # where each token begins, and its kind

_AT = re.compile(rb"AT", re.IGNORECASE)
_CLAUSE = (re.compile(rb"\("), re.compile(rb"VERSION", re.IGNORECASE), re.compile(rb"=>"), re.compile(rb"[0-9]+"), re.compile(rb"\)"))
_PLAIN = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_BARE = re.compile(r"@\s*[0-9]")


def with_versions(sql: str, parse: Parse, tokenize: Tokenize) -> tuple[str, Tree]:
    """The statement that the engine reads, and its tree."""
    if "@" not in sql and not _mentions_at(sql):
        return sql, parse(sql)
    text = _alias_first(sql, tokenize) if _mentions_at(sql) else sql
    parsed = parse(text)
    if parsed["error"]:
        if _BARE.search(sql) and "@" in str(parsed.get("error_message", "")):
            raise QueryRefused(HOW_TO_ASK)
        return text, parsed
    clauses = sorted(_clauses(parsed["statements"]), key=lambda node: node["query_location"], reverse=True)
    if not clauses:
        return text, parsed
    spelt = text.encode()
    for node in clauses:
        start = int(node["query_location"])
        spelt = spelt[:start] + _named(node).encode() + spelt[start + int(node["query_location_length"]) :]
    return spelt.decode(), parse(spelt.decode())


def _mentions_at(sql: str) -> bool:
    return re.search(r"\bat\b", sql, re.IGNORECASE) is not None


def _alias_first(sql: str, tokenize: Tokenize) -> str:
    """`orders AT (VERSION => 3) AS o` with the alias before the clause, as DuckDB requires."""
    text = sql.encode()
    tokens = _tokens(text, tokenize(sql))
    moved: list[tuple[int, int, int]] = []  # where the clause begins and ends, and where its alias ends
    for number, (start, _, spelt, _) in enumerate(tokens):
        clause = tokens[number + 1 : number + 1 + len(_CLAUSE)]
        if not _AT.fullmatch(spelt) or len(clause) < len(_CLAUSE) or not all(part.fullmatch(token[2]) for part, token in zip(_CLAUSE, clause, strict=True)):
            continue
        end = clause[-1][1]
        if alias_end := _alias_end(tokens[number + 1 + len(_CLAUSE) : number + 3 + len(_CLAUSE)]):
            moved.append((start, end, alias_end))
    for start, end, alias_end in reversed(moved):
        text = text[:start] + text[end:alias_end] + b" " + text[start:end] + text[alias_end:]
    return text.decode()


def _alias_end(following: Sequence[tuple[int, int, bytes, str]]) -> int | None:
    """Where the alias after a clause ends; None if there is none."""
    if following and following[0][2].upper() == b"AS":
        following = following[1:]
        return following[0][1] if following else None
    if following and (following[0][2].startswith(b'"') or (following[0][3] == "identifier" and _PLAIN.fullmatch(following[0][2]))):
        return following[0][1]
    return None


def _tokens(text: bytes, begun: Sequence[tuple[int, str]]) -> list[tuple[int, int, bytes, str]]:
    """Start, end, text and kind of every token that is not a comment."""
    found: list[tuple[int, int, bytes, str]] = []
    for (start, kind), following in zip(begun, [*(start for start, _ in begun[1:]), len(text)], strict=True):
        spelt = text[start:following].rstrip()
        if kind != "comment":
            found.append((start, start + len(spelt), spelt, kind))
    return found


def _clauses(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, list):
        for inner in cast("list[Any]", part):
            yield from _clauses(inner)
    elif isinstance(part, dict):
        node = cast("dict[str, Any]", part)
        if node.get("type") == "BASE_TABLE" and node.get("at_clause"):
            yield node
        for inner in node.values():
            yield from _clauses(inner)


def _named(node: dict[str, Any]) -> str:
    """A table with a version clause, written as a table name."""
    clause = node["at_clause"]
    literal = clause["expr"].get("literal") or {}
    if str(clause["unit"]).upper() != "VERSION" or literal.get("kind") != "INTEGER" or node.get("sample") or node.get("schema_name"):
        raise QueryRefused(HOW_TO_ASK)
    columns = cast("list[str]", node.get("column_name_alias") or [])
    alias = _quoted(node["alias"] or node["table_name"]) + (f"({', '.join(_quoted(column) for column in columns)})" if columns else "")
    return f"{_quoted(node['table_name'] + '@' + literal['text'])} AS {alias}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
