"""Patterns: regular expressions that every engine interprets in the same way.

The subset is that of RE2 without flags, word boundaries, captures and Unicode classes. An accepted pattern is rewritten in a
canonical form in which RE2 and Java's regular expressions agree: character sets are listed by code point.
"""

from dataclasses import dataclass, field

MAX_PATTERN = 1000       # characters
_MAX_REPEAT = 1000       # RE2's limit, also for nested repeats
_MAX_ATOMS = 5000        # after repeats are written out
_LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_DIGITS = [(0x30, 0x39)]
_WORDS = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_SPACES = [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)]
_SETS = {"d": _DIGITS, "w": _WORDS, "s": _SPACES}
_CONTROLS = {"a": 0x07, "t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_HEX = frozenset("0123456789abcdefABCDEF")

Ranges = list[tuple[int, int]]


class PatternRefused(ValueError):
    """The pattern is not in the subset; the message says which part, and what to write instead."""


def re2_subset(pattern: str) -> str:
    """The pattern in canonical form, for a match of the whole text; raises PatternRefused."""
    if len(pattern) > MAX_PATTERN:
        raise PatternRefused(f"a pattern has at most {MAX_PATTERN} characters")
    reader = _Reader(pattern)
    spelled, atoms, _ = reader.alternatives()
    if reader.at < len(pattern):
        raise PatternRefused("`)` has no matching `(`; write \\) for the character")
    if atoms > _MAX_ATOMS:
        raise PatternRefused("the pattern repeats too much; use smaller counts")
    return spelled


@dataclass
class _Reader:
    """Reads from left to right; each method returns the canonical form of what it read, its size and its greatest product of repeats."""

    pattern: str
    at: int = 0
    depth: int = field(default=0)

    def alternatives(self) -> tuple[str, int, int]:
        branches = [self.sequence()]
        while self.next_is("|"):
            self.at += 1
            branches.append(self.sequence())
        return "|".join(text for text, _, _ in branches), sum(size for _, size, _ in branches), max(product for _, _, product in branches)

    def sequence(self) -> tuple[str, int, int]:
        texts: list[str] = []
        atoms, product = 1, 1
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            text, size, inner = self.repeated()
            texts.append(text)
            atoms, product = atoms + size, max(product, inner)
        return "".join(texts), atoms, product

    def repeated(self) -> tuple[str, int, int]:
        text, size, product = self.atom()
        anchor = text in (r"\A", r"\z")
        found = self.quantifier()
        if found is None:
            return text, size, product
        if anchor:
            raise PatternRefused("`^` and `$` cannot be repeated")
        quantifier, times = found
        if self.next_is("?"):
            self.at += 1  # lazy or greedy makes no difference if the whole text must match
        if self.at < len(self.pattern) and self.pattern[self.at] in "*+?{":
            raise PatternRefused("one repeat follows another; group the first one")
        if product * max(times, 1) > _MAX_REPEAT:
            raise PatternRefused(f"repeats multiply to more than {_MAX_REPEAT}")
        return text + quantifier, size * max(times, 1), product * max(times, 1)

    def quantifier(self) -> tuple[str, int] | None:
        for sign in "*+?":
            if self.next_is(sign):
                self.at += 1
                return sign, 1
        if not self.next_is("{"):
            return None
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if not _number(low) or (high and not _number(high)):
            raise PatternRefused("`{` begins a count such as {2}, {2,} or {2,5}; write \\{ for the character")
        least, most = int(low), int(high) if high else None
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
            raise PatternRefused(f"a count must be ascending and at most {_MAX_REPEAT}")
        self.at = end + 1
        return f"{{{least}{comma}{'' if most is None else most}}}", max(least, most or 0)

    def atom(self) -> tuple[str, int, int]:
        sign = self.pattern[self.at]
        if sign in "*+?{":
            raise PatternRefused(f"`{sign}` repeats nothing; write \\{sign} for the character")
        if sign == "(":
            return self.group()
        if sign == "[":
            return self.character_class(), 1, 1
        self.at += 1
        match sign:
            case "^":
                return r"\A", 1, 1
            case "$":
                return r"\z", 1, 1
            case ".":
                return _spell_set(_complement([(0x0A, 0x0A)])), 1, 1
            case "\\":
                return self.escape_outside(), 1, 1
            case _:
                return _spell(_code(sign)), 1, 1

    def group(self) -> tuple[str, int, int]:
        self.at += 1
        if self.next_is("?"):
            if self.pattern[self.at + 1 : self.at + 2] != ":":
                raise PatternRefused("of `(?` only `(?:` is portable: flags, names, lookahead and lookbehind are not supported")
            self.at += 2
        self.depth += 1
        if self.depth > 50:
            raise PatternRefused("groups are nested too deep")
        text, size, product = self.alternatives()
        self.depth -= 1
        if not self.next_is(")"):
            raise PatternRefused("`(` is not closed; write \\( for the character")
        self.at += 1
        return f"(?:{text})", size, product

    def escape_outside(self) -> str:
        sign = self.pattern[self.at : self.at + 1]
        if sign in ("A", "z"):
            self.at += 1
            return f"\\{sign}"
        found = self.escape()
        return _spell(found) if isinstance(found, int) else _spell_set(found)

    def escape(self) -> int | Ranges:
        """The escape after a backslash: a character, or a set of them."""
        sign = self.pattern[self.at : self.at + 1]
        self.at += 1
        if sign in _PUNCTUATION and sign:
            return ord(sign)
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign.lower() in _SETS:
            return _SETS[sign] if sign in _SETS else _complement(_SETS[sign.lower()])
        if sign == "x":
            return self.hexadecimal()
        raise PatternRefused(f"`\\{sign}` is not portable; characters can be written as \\x{{…}}, and sets of them in [ ]")

    def hexadecimal(self) -> int:
        if self.next_is("{"):
            end = self.pattern.find("}", self.at)
            digits, after = self.pattern[self.at + 1 : max(end, 0)], end + 1
        else:
            digits, after = self.pattern[self.at : self.at + 2], self.at + 2
            digits = digits if len(digits) == 2 else ""
        if not 1 <= len(digits) <= 6 or not set(digits) <= _HEX or not _is_character(int(digits, 16)):
            raise PatternRefused("`\\x` is followed by two hexadecimal digits, or by a character's code in { }")
        self.at = after
        return int(digits, 16)

    def character_class(self) -> str:
        self.at += 1
        negated = self.next_is("^")
        self.at += negated
        ranges: Ranges = []
        first = True
        while first or not self.next_is("]"):
            first = False
            ranges += self.class_item()
        self.at += 1
        return _spell_set(_complement(ranges) if negated else _merged(ranges))

    def class_item(self) -> Ranges:
        low = self.class_character()
        if isinstance(low, list):
            if self.next_is("-") and self.pattern[self.at + 1 : self.at + 2] != "]":
                raise PatternRefused("a range inside [ ] goes from one character to another")
            return low
        if not self.next_is("-") or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return [(low, low)]
        self.at += 1
        high = self.class_character()
        if isinstance(high, list) or high < low:
            raise PatternRefused("a range inside [ ] goes from one character to a later one")
        return [(low, high)]

    def class_character(self) -> int | Ranges:
        sign = self.pattern[self.at : self.at + 1]
        self.at += 1
        if not sign:
            raise PatternRefused("`[` is not closed; write \\[ for the character")
        if sign == "\\":
            return self.escape()
        if sign in "[]" or self.pattern[self.at - 1 : self.at + 1] in ("&&", "~~", "--", "||"):
            raise PatternRefused(f"write \\{sign} for this character inside [ ]")
        return _code(sign)

    def next_is(self, sign: str) -> bool:
        return self.pattern[self.at : self.at + 1] == sign


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _is_character(code: int) -> bool:
    return 0 < code <= _LAST and not _SURROGATES[0] <= code <= _SURROGATES[1]


def _code(sign: str) -> int:
    if not _is_character(ord(sign)):
        raise PatternRefused("a pattern must not contain the NUL character")
    return ord(sign)


def _merged(ranges: Ranges) -> Ranges:
    """In order, without overlaps, without invalid characters."""
    whole: Ranges = []
    for low, high in sorted(ranges):
        for start, end in ((low, min(high, _SURROGATES[0] - 1)), (max(low, _SURROGATES[1] + 1), high)):
            if start > end:
                continue
            if whole and start <= whole[-1][1] + 1:
                whole[-1] = (whole[-1][0], max(whole[-1][1], end))
            else:
                whole.append((start, end))
    return whole


def _complement(ranges: Ranges) -> Ranges:
    rest: Ranges = []
    at = 0
    for low, high in _merged(ranges):
        if low > at:
            rest.append((at, low - 1))
        at = high + 1
    return _merged([*rest, (at, _LAST)] if at <= _LAST else rest)


def _spell(code: int) -> str:
    sign = chr(code)
    return sign if sign.isascii() and sign.isalnum() else f"\\x{{{code:X}}}"


def _spell_set(ranges: Ranges) -> str:
    if not ranges:
        raise PatternRefused("[ ] must leave at least one character")
    return "[" + "".join(_spell(low) if low == high else f"{_spell(low)}-{_spell(high)}" for low, high in ranges) + "]"
