"""Rule expressions: what people write, `amount in [0, 100)`, and the tree that it means. Pure.

An expression is parsed once, when a rule is defined; everything after that works on the tree. `spell` is the inverse:
parsing a spelled tree gives the same tree.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tracelake_sdk.errors import RuleInvalid
from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RowCount, RuleTree, RuleType, Unique
from tracelake_sdk.rules.patterns import PatternRefused, re2_subset

MOST_LETTERS = 10_000  # of an expression
MOST_VALUES = 1_000    # of an ENUM

_WRITE = {
    RuleType.NOT_NULL: "order_id",
    RuleType.RANGE: "amount in [0, 100)` or `amount >= 0` or `day in ['2024-01-01', '2025-01-01')",
    RuleType.UNIQUE: "order_id, line",
    RuleType.ROW_COUNT: ">= 1` or `in [1, 100]",
    RuleType.ENUM: "status in ('new', 'paid')",
    RuleType.REGEX: "code ~ '[A-Z]{3}'",
}
_KEYWORDS = frozenset({"in", "not", "null", "true", "false", "and", "or", "between", "is", "like"})
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<text>'(?:[^']|'')*')
    | (?P<quoted>"(?:[^"]|"")+")
    | (?P<name>[^\W\d]\w*)
    | (?P<symbol>>=|<=|!=|<>|==|[\[\](),<>=~])
    )""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class _Token:
    kind: str  # number, text, quoted, name, symbol, end
    text: str
    at: int    # the position of its first character, counted from 1

    @property
    def word(self) -> str | None:
        """The keyword, if the token is one."""
        return self.text.lower() if self.kind == "name" and self.text.lower() in _KEYWORDS else None


class _Words:
    """The tokens of one expression, taken one after the other."""

    def __init__(self, type: RuleType, expression: str) -> None:
        self.type: RuleType = type
        self.expression: str = expression
        self._tokens: list[_Token] = self._split()
        self._next: int = 0

    def peek(self) -> _Token:
        return self._tokens[self._next]

    def take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def symbol(self, *wanted: str) -> str:
        token = self.take()
        if token.kind != "symbol" or token.text not in wanted:
            raise self.unexpected(" or ".join(f"`{one}`" for one in wanted), token)
        return token.text

    def keyword(self, wanted: str) -> None:
        token = self.take()
        if token.word != wanted:
            raise self.unexpected(f"`{wanted}`", token)

    def column(self) -> str:
        token = self.take()
        if token.kind == "quoted":
            return token.text[1:-1].replace('""', '"')
        if token.kind != "name":
            raise self.unexpected("the name of a column", token)
        if token.word is not None:
            raise self.wrong(f"`{token.text}` is a keyword", f'a column of that name is written in double quotes, "{token.text}"')
        return token.text

    def end(self) -> None:
        token = self.peek()
        if token.kind != "end":
            raise self.unexpected("nothing more", token)

    def null_passes(self) -> bool:
        """The end of the expression, with or without `not null`."""
        if self.peek().word != "not":
            self.end()
            return True
        self.take()
        self.keyword("null")
        self.end()
        return False

    def unexpected(self, wanted: str, token: _Token) -> RuleInvalid:
        found = "it ends there" if token.kind == "end" else f"`{_shown(token.text)}` is there"
        return self.wrong(f"at character {token.at} {wanted} is expected, and {found}")

    def wrong(self, what: str, remedy: str | None = None) -> RuleInvalid:
        write = remedy or f"write it like `{_WRITE[self.type]}`"
        return RuleInvalid(f"{self.type.value} `{_shown(self.expression)}`: {what}; {write}.")

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        place, text = 0, self.expression.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None or match.lastgroup is None:
                start = place + len(text[place:]) - len(text[place:].lstrip())
                raise self._unreadable(text, start)
            tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
            place = match.end()
        tokens.append(_Token("end", "", len(text) + 1))
        return tokens

    def _unreadable(self, text: str, start: int) -> RuleInvalid:
        letter = text[start]
        if letter == "'":
            return self.wrong(f"the text that begins at character {start + 1} has no end", "close it with ', and write a ' inside it twice")
        if letter == '"':
            return self.wrong(f"the name that begins at character {start + 1} has no end or is empty", 'close it with "')
        if letter == ".":
            return self.wrong(f"`.` at character {start + 1} is not valid here", "a column whose name has a dot is written in double quotes; fields inside a column have no rules")
        return self.wrong(f"`{_shown(letter)}` at character {start + 1} is not valid here")


def parse(rule_type: str, expression: str) -> RuleTree:
    """The tree of an expression, or RuleInvalid with what to write instead."""
    try:
        type = RuleType(rule_type)
    except ValueError:
        raise RuleInvalid(f"{_shown(rule_type)!r} is not a valid rule type; choose one of {', '.join(RuleType)}.") from None
    if len(expression) > MOST_LETTERS:
        raise RuleInvalid(f"A rule has at most {MOST_LETTERS:,} letters; this one has {len(expression):,}.")
    if "\0" in expression:
        raise RuleInvalid(f"A {type.value} rule contains a NUL character, which no table can store; remove it.")
    words = _Words(type, expression)
    if words.peek().kind == "end":
        raise RuleInvalid(f"The expression of a {type.value} rule is empty; write it like `{_WRITE[type]}`.")
    return _PARSERS[type](words)


def spell(tree: RuleTree) -> str:
    """The canonical expression of a tree."""
    match tree:
        case NotNull(column=column):
            return _column(column)
        case Range(column=column):
            return f"{_column(column)} {_spelt_range(tree)}{_suffix(tree.null_passes)}"
        case Unique(columns=columns):
            return ", ".join(_column(column) for column in columns)
        case RowCount():
            return _spelt_count(tree)
        case Enumerated(column=column, values=values):
            return f"{_column(column)} in ({', '.join(_literal(value) for value in values)}){_suffix(tree.null_passes)}"
        case Regex(column=column, pattern=pattern):
            return f"{_column(column)} ~ {_literal(pattern)}{_suffix(tree.null_passes)}"


def _not_null(words: _Words) -> RuleTree:
    column = words.column()
    if words.peek().kind != "end":
        raise words.wrong("the expression has more than a column name", "write the name of one column alone, in double quotes where it is not plain")
    return NotNull(column=column)


def _unique(words: _Words) -> RuleTree:
    if words.peek().text == "(":
        raise words.wrong("the columns are in brackets", "write them without, like `order_id, line`")
    columns = [words.column()]
    while words.peek().kind != "end":
        words.symbol(",")
        columns.append(words.column())
    if len(set(columns)) < len(columns):
        raise words.wrong("a column occurs twice", "name each column once")
    return Unique(columns=tuple(columns))


def _range(words: _Words) -> RuleTree:
    column = words.column()
    if words.peek().word == "in":
        words.take()
        return _interval(words, column)
    if words.peek().text in ("=", "==", "!=", "<>"):
        raise words.wrong(f"`{words.peek().text}` is not a range", "for exact values write an ENUM rule, like `status in ('new', 'paid')`")
    operator = words.symbol(">=", ">", "<=", "<")
    bound = _bound(words)
    inside = operator.endswith("=")
    if words.peek().word == "and":
        raise words.wrong("two conditions are one range", f"write it like `{_column(column)} in [0, 100)`")
    null_passes = words.null_passes()
    if operator.startswith(">"):
        return Range(column=column, low=bound, low_inside=inside, null_passes=null_passes)
    return Range(column=column, high=bound, high_inside=inside, null_passes=null_passes)


def _interval(words: _Words, column: str) -> RuleTree:
    low_inside = words.symbol("[", "(") == "["
    low = _bound(words)
    words.symbol(",")
    high = _bound(words)
    high_inside = words.symbol("]", ")") == "]"
    null_passes = words.null_passes()
    if isinstance(low, str) != isinstance(high, str):
        raise words.wrong("one bound is a number and the other a text", "write both as numbers, or both in quotes")
    if not isinstance(low, str) and not isinstance(high, str) and (low > high or (low == high and not (low_inside and high_inside))):
        raise words.wrong("this range is empty", "write the smaller bound first; `[` and `]` include a bound, `(` and `)` exclude it")
    return Range(column=column, low=low, high=high, low_inside=low_inside, high_inside=high_inside, null_passes=null_passes)


def _bound(words: _Words) -> float | str:
    token = words.take()
    if token.kind == "text":
        return _text(token)
    if token.kind != "number":
        raise words.unexpected("a number, or a text in single quotes,", token)
    return _number(words, token)


def _row_count(words: _Words) -> RuleTree:
    if words.peek().word == "in":
        words.take()
        least = words.symbol("[", "(")
        low = _whole(words)
        words.symbol(",")
        high = _whole(words)
        most = words.symbol("]", ")")
        words.end()
        return _counted(words, low + (least == "("), high - (most == ")"))
    operator = words.symbol(">=", ">", "<=", "<", "=")
    number = _whole(words)
    words.end()
    match operator:
        case ">=" | ">":
            return _counted(words, number + (operator == ">"), None)
        case "<=" | "<":
            return _counted(words, None, number - (operator == "<"))
        case _:
            return _counted(words, number, number)


def _counted(words: _Words, least: int | None, most: int | None) -> RowCount:
    if (most is not None and most < 0) or (least is not None and most is not None and least > most):
        raise words.wrong("this range is empty", "write the smaller number first; `[` and `]` include it, `(` and `)` exclude it")
    return RowCount(least=least, most=most)


def _whole(words: _Words) -> int:
    token = words.take()
    if token.kind != "number":
        raise words.unexpected("a number of rows", token)
    number = _number(words, token)
    if isinstance(number, float) or number < 0:
        raise words.wrong(f"`{token.text}` is not a number of rows", "write a whole number, 0 or more")
    return number


def _enum(words: _Words) -> RuleTree:
    column = words.column()
    words.keyword("in")
    words.symbol("(")
    values = [_exact(words)]
    while words.symbol(",", ")") == ",":
        values.append(_exact(words))
        if len(values) > MOST_VALUES:
            raise words.wrong(f"there are more than {MOST_VALUES:,} values", "store this many values in a dataset instead of a rule")
    null_passes = words.null_passes()
    if len({type(value) for value in values}) > 1:
        raise words.wrong("the values are of several kinds", "write all as texts in quotes, all as whole numbers, or all as true and false")
    if len(set(values)) < len(values):
        raise words.wrong("a value occurs twice", "write each value once")
    return Enumerated(column=column, values=tuple(values), null_passes=null_passes)


def _exact(words: _Words) -> int | str | bool:
    token = words.take()
    if token.kind == "text":
        return _text(token)
    if token.word in ("true", "false"):
        return token.word == "true"
    if token.word == "null":
        raise words.wrong("null is not a value", "remove it: null passes unless the rule ends with `not null`")
    if token.kind != "number":
        raise words.unexpected("a text in single quotes, a whole number, true or false", token)
    number = _number(words, token)
    if isinstance(number, float):
        raise words.wrong(f"`{token.text}` is not an exact value", "write whole numbers, or a RANGE rule")
    return number


def _regex(words: _Words) -> RuleTree:
    column = words.column()
    words.symbol("~")
    token = words.take()
    if token.kind != "text":
        raise words.unexpected("a pattern in single quotes", token)
    pattern = _text(token)
    null_passes = words.null_passes()
    try:
        re2_subset(pattern)
    except PatternRefused as refused:
        remedy = "write the subset of regular expressions that all engines support; it matches the whole text"
        raise words.wrong(f"the pattern is not valid ({refused})", remedy) from None
    return Regex(column=column, pattern=pattern, null_passes=null_passes)


def _number(words: _Words, token: _Token) -> int | float:
    if re.fullmatch(r"[+-]?\d+", token.text):
        if len(token.text) > 20 or not -(2**63) <= int(token.text) < 2**63:
            raise words.wrong(f"`{_shown(token.text)}` does not fit in 64 bits", "write it in single quotes, and it is read as the column's own type")
        return int(token.text)
    number = float(token.text)
    if not math.isfinite(number):
        raise words.wrong(f"`{_shown(token.text)}` is too large", "write it in single quotes, and it is read as the column's own type")
    return number


def _text(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _column(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.lower() not in _KEYWORDS else '"' + name.replace('"', '""') + '"'


def _literal(value: float | str | bool | None) -> str:
    match value:
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bool():
            return str(value).lower()
        case _:
            return repr(value)


def _spelt_range(tree: Range) -> str:
    if tree.low is None:
        return f"<{'=' if tree.high_inside else ''} {_literal(tree.high)}"
    if tree.high is None:
        return f">{'=' if tree.low_inside else ''} {_literal(tree.low)}"
    return f"in {'[' if tree.low_inside else '('}{_literal(tree.low)}, {_literal(tree.high)}{']' if tree.high_inside else ')'}"


def _spelt_count(tree: RowCount) -> str:
    if tree.least is None:
        return f"<= {tree.most}"
    if tree.most is None:
        return f">= {tree.least}"
    return f"= {tree.least}" if tree.least == tree.most else f"in [{tree.least}, {tree.most}]"


def _suffix(null_passes: bool) -> str:
    return "" if null_passes else " not null"


def _shown(text: str) -> str:
    """User input shortened for one line of an error."""
    short = text if len(text) <= 80 else text[:79] + "…"
    return "".join(letter if letter.isprintable() else "�" for letter in short)


_PARSERS: dict[RuleType, Callable[[_Words], RuleTree]] = {
    RuleType.NOT_NULL: _not_null,
    RuleType.RANGE: _range,
    RuleType.UNIQUE: _unique,
    RuleType.ROW_COUNT: _row_count,
    RuleType.ENUM: _enum,
    RuleType.REGEX: _regex,
}
