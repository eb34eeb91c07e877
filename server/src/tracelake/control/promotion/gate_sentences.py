"""The sentences of the gate: results and reasons as people read them. Pure."""

from collections.abc import Sequence
from uuid import UUID

from tracelake_sdk.rules import Enumerated, NotNull, Range, Regex, RowCount, RuleScope, RuleTree, Unique
from tracelake_sdk.wording import counted, plural

NOT_EVALUATED = "Not evaluated: an earlier check already failed."

_MOST_NAMED = 3      # facts in one reason; the results have all
_MOST_LETTERS = 500  # characters of one fact
_BEGINNINGS = ("A ", "An ", "All ", "Column ", "Columns ", "It ", "No ", "The ", "There ")


def blocked_by_facts(facts: Sequence[str]) -> str:
    return f"Blocked: {_joined(facts)}."


def blocked_by(sentences: Sequence[str], one: str, many: str) -> str:
    return f"Blocked by {counted(len(sentences), one, many)}: {_joined([fact(sentence) for sentence in sentences])}."


def allowed(policies: int, rules: int, warnings: Sequence[str]) -> str:
    if warnings:
        return f"Allowed with {counted(len(warnings), 'warning')}: {_joined([fact(sentence) for sentence in warnings])}."
    parts = [counted(policies, "policy", "policies")] * (policies > 0) + [counted(rules, "rule")] * (rules > 0)
    if not parts:
        return "Allowed: no policy and no rule applies."
    return f"Allowed: {' and '.join(parts)} {plural(policies + rules, 'holds', 'hold')}."


def refused_sibling(output_index: int, name: str, reason: str) -> str:
    return f"output {output_index} ({name}) of the same task is b{fact(reason)[1:]}"  # every refusal begins with Blocked


def refused_batch(name: str, task: UUID, reason: str) -> str:
    return f"{_batch(name, task)} is b{fact(reason)[1:]}"


def ended_batch(name: str, task: UUID, state: str, reason: str | None) -> str:
    """Of a batch that no decision refused: its task failed or was canceled."""
    return f"{_batch(name, task)} is {state}" + (f": {fact(reason)}" if reason else "")


def _batch(name: str, task: UUID) -> str:
    return f"the batch {plain(name)!r} that it posted (task {task})"


def fact(sentence: str) -> str:
    """A sentence as part of another: short, on one line, without full stop and initial capital."""
    text = plain(" ".join(sentence.split())).rstrip(".")
    if len(text) > _MOST_LETTERS:
        text = text[: _MOST_LETTERS - 1] + "…"
    # Any other first word may be a column name.
    return text[0].lower() + text[1:] if text.startswith(_BEGINNINGS) else text


def plain(text: str) -> str:
    """Without characters that a log, a terminal or the database refuses."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def scope_sentence(outside: int, rows: int) -> str:
    if outside == 0:
        return "There are no rows outside the declared scope."
    return _sentence(f"{_of(outside, rows)} {plural(outside, 'is', 'are')} outside the declared scope")


def key_sentence(key: Sequence[str], nulls: int, rows: int) -> str:
    found = f"{_of(nulls, rows)} {plural(nulls, 'has', 'have')} a null in the unique key ({', '.join(key)}) and cannot be deduplicated"
    return _sentence(f"{found}; fix the rows, or write `null_keys: distinct` in the job to append them every time")


def schema_kept(harmless: Sequence[str]) -> str:
    if not harmless:
        return "No column changed."
    return f"No breaking change: {_joined([fact(sentence) for sentence in harmless])}."


def schema_broken(breaking: Sequence[str]) -> str:
    return f"SCHEMA allows no breaking change, and {_joined([fact(sentence) for sentence in breaking])}."


def unknown_policy(type: str, expression: str) -> str:
    return f"The policy {fact(type)} ({fact(expression)}) could not be evaluated: this release does not know it."


def rule_sentence(tree: RuleTree, scope: RuleScope, violations: int, rows: int) -> str:
    if violations == 0:
        return _sentence(f"{demand(tree)}, and {_all(rows)}{_of_table(scope)} {plural(rows, 'passes', 'pass')}") if rows else nothing_to_break(tree)
    found = f"{_of(violations, rows)}{_of_table(scope)} {_break(tree, violations)}"
    return _sentence(f"{demand(tree)}, and {found}")


def nothing_to_break(tree: RuleTree) -> str:
    return _sentence(f"{demand(tree)}: there are no rows that could break it")


def not_evaluable(tree: RuleTree, why: str) -> str:
    return _sentence(f"{demand(tree)}, which could not be evaluated: {fact(why)}")


def count_sentence(tree: RowCount, scope: RuleScope, rows: int, *, broken: bool) -> str:
    subject = "the batch" if scope is RuleScope.BATCH else "the table as it would be"
    return _sentence(f"{subject} must have {_number_of_rows(tree)}, {'and' if broken else 'as'} it has {rows:,}")


def demand(tree: RuleTree) -> str:
    """The requirement of a rule: `order_id must not be null`."""
    match tree:
        case NotNull(column=column):
            return f"{column} must not be null"
        case Range(column=column, null_passes=null_passes):
            return f"{column} must {'' if null_passes else 'not be null and '}{_interval(tree)}"
        case Unique(columns=columns):
            return f"{', '.join(columns)} must be unique"
        case RowCount():
            return f"there must be {_number_of_rows(tree)}"
        case Enumerated(column=column, values=values, null_passes=null_passes):
            return f"{column} must {'' if null_passes else 'not be null and '}be {'one of ' if len(values) > 1 else ''}{', '.join(map(_value, values))}"
        case Regex(column=column, pattern=pattern, null_passes=null_passes):
            return f"{column} must {'' if null_passes else 'not be null and '}match {_value(pattern)}"


def _break(tree: RuleTree, violations: int) -> str:
    match tree:
        case NotNull():
            return plural(violations, "has none", "have none")
        case Range():
            return plural(violations, "is outside", "are outside")
        case Unique():
            return plural(violations, "repeats a key", "repeat a key")
        case Enumerated():
            return plural(violations, "has another value", "have another value")
        case Regex() | RowCount():
            return plural(violations, "does not", "do not")


def _interval(tree: Range) -> str:
    match tree.low, tree.high:
        case None, None:
            return "be a number"  # NaN is outside every range
        case low, None:
            return f"be {'at least' if tree.low_inside else 'greater than'} {_value(low)}"
        case None, high:
            return f"be {'at most' if tree.high_inside else 'less than'} {_value(high)}"
        case low, high:
            return f"be in {'[' if tree.low_inside else '('}{_value(low)}, {_value(high)}{']' if tree.high_inside else ')'}"


def _number_of_rows(tree: RowCount) -> str:
    match tree.least, tree.most:
        case None, None:
            return "any number of rows"
        case least, None:
            return f"at least {_rows(least)}"
        case None, most:
            return f"at most {_rows(most)}"
        case least, most:
            return f"exactly {_rows(least)}" if least == most else f"between {least:,} and {_rows(most)}"


def _value(value: float | str | bool | None) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _of(some: int, all: int) -> str:
    """`3 of 1,000 rows`; only the first number if it is larger than the second."""
    return f"{some:,} of {_rows(all)}" if 0 < some <= all else _rows(some)


def _all(rows: int) -> str:
    return "the one row" if rows == 1 else f"all {_rows(rows)}"


def _of_table(scope: RuleScope) -> str:
    return " of the table" if scope is RuleScope.TABLE else ""


def _rows(number: int) -> str:
    return counted(number, "row")


def _joined(parts: Sequence[str]) -> str:
    named = "; ".join(parts[:_MOST_NAMED])
    return named if len(parts) <= _MOST_NAMED else f"{named}; and {len(parts) - _MOST_NAMED:,} more"


def _sentence(words: str) -> str:
    """With a full stop; a column name keeps its case."""
    return words + "."
