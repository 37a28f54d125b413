"""Whether a program printed what was expected. Runs where the expected output is, never beside the program.

Both texts are walked side by side and the walk ends at the first difference, so that time and memory follow
the expected output, whatever the program printed. Numbers are compared as digits and exponents: no integer,
decimal or float is ever built from a text that could make it large.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from lit_rl.execution.checks import StdioTests

Expected = str | tuple[str, ...]

_TOKEN = re.compile(rb"\S+")
# Possessive, so that a token which is not a number is refused in one pass over it.
_NUMBER = re.compile(rb"([+-]?)(?:(\d++)(?:\.(\d*+))?|\.(\d++))(?:[eE]([+-]?\d++))?")
_LONGEST_EXPONENT = 18
_LONGEST_FLOAT = 1000
# Decimal fractions have no exact float: a difference of just the tolerance must still count as within it.
_ROUNDING = 1 + 1e-9


def same_output(printed: bytes, expected: Expected, check: StdioTests) -> bool:
    """Whether a program printed what was expected, or one of several accepted outputs."""
    accepted = (expected,) if isinstance(expected, str) else expected
    printed = printed.rstrip()
    texts = (text.encode("utf-8", "surrogateescape").rstrip() for text in accepted)
    return any(printed == text or _same(printed, text, check) for text in texts)


def _same(printed: bytes, expected: bytes, check: StdioTests) -> bool:
    if check.compare == "lines":
        return _all_match(_lines(printed), _lines(expected), lambda one, other: one.rstrip() == other.rstrip())
    if check.compare == "decimals":
        return _all_match(_lines(printed.lstrip()), _lines(expected.lstrip()), _same_line)
    return _all_match(_tokens(printed), _tokens(expected), lambda one, other: _near(one, other, check.tolerance))


def _same_line(printed: bytes, expected: bytes) -> bool:
    """Equal texts, or numbers on both sides that are equal one by one."""
    if printed.strip() == expected.strip():
        return True
    return _all_match(_tokens(printed), _tokens(expected), _equal_numbers)


def _all_match(one: Iterator[bytes], other: Iterator[bytes], match: Callable[[bytes, bytes], bool]) -> bool:
    """Whether both have the same number of parts and each pair matches."""
    pairs = zip_longest(one, other)
    return all(a is not None and b is not None and match(a, b) for a, b in pairs)


def _lines(text: bytes) -> Iterator[bytes]:
    start = 0
    while (end := text.find(b"\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _tokens(text: bytes) -> Iterator[bytes]:
    return (found.group() for found in _TOKEN.finditer(text))


class _Number(NamedTuple):
    """A decimal number without leading and trailing zeros: ``digits`` times ten to the ``exponent``."""

    negative: bool
    digits: bytes
    exponent: int


def _number(token: bytes) -> _Number | None:
    """The number that a token spells; ``None`` for words, including ``nan`` and ``inf``."""
    found = _NUMBER.fullmatch(token)
    if found is None:
        return None
    sign, whole, fraction, only_fraction, power = found.groups(b"")
    fraction = fraction or only_fraction
    if len(power) > _LONGEST_EXPONENT:
        return None
    digits = (whole + fraction).rstrip(b"0")
    exponent = int(power or 0) + len(whole) - len(digits)
    digits = digits.lstrip(b"0")
    return _Number(sign == b"-", digits, exponent) if digits else _Number(False, b"", 0)


def _equal_numbers(printed: bytes, expected: bytes) -> bool:
    number = _number(printed)
    return number is not None and number == _number(expected)


def _near(printed: bytes, expected: bytes, tolerance: float) -> bool:
    """Whether two tokens are equal, or numbers within the tolerance; integers are never near one another.

    The tolerance is absolute or relative where the expected number is written with a fraction or an exponent,
    and absolute where it is an integer: 123456700.0 is not near enough to 123456789.
    """
    if printed == expected or _equal_numbers(printed, expected):
        return True
    too_long = max(len(printed), len(expected)) > _LONGEST_FLOAT
    if not tolerance or too_long or (_is_integer(printed) and _is_integer(expected)):
        return False
    if _number(printed) is None or _number(expected) is None:
        return False
    value, wanted = float(printed), float(expected)
    slack = tolerance if _is_integer(expected) else tolerance * max(1.0, abs(wanted))
    return math.isfinite(wanted) and abs(value - wanted) <= slack * _ROUNDING


def _is_integer(token: bytes) -> bool:
    return token.lstrip(b"+-").isdigit()
