"""Values as text for readers."""

import collections
import datetime
import decimal
import fractions
import os
import subprocess
import sys

from lit_rl.execution.wire import plain
from lit_rl.execution.wire.value_text import MAX_SHOWN_LENGTH, call_text, shorten_text, source_excerpt, value_text

AS_PYTHON_WRITES = [
    None, True, 3, -1.5, 2j, "it's", b"a\0", bytearray(b"x"), [], [1, [2]], (), (1,), (1, 2), {}, {"a": [1], 2: None},
    set(), {1, 2}, frozenset({3}), range(3), range(1, 9, 2), float("inf"), int, collections.deque([1]),
    collections.Counter("aab"), datetime.date(2020, 1, 2), decimal.Decimal("1.50"), fractions.Fraction(1, 3),
    "a\nb\ud800", [[[["deep"]]]], True, 10**400,
]  # fmt: skip


def test_a_value_is_written_as_python_writes_it():
    for value in AS_PYTHON_WRITES:
        assert value_text(value) == repr(value)
        assert value_text(plain.loads(plain.dumps(value))) == repr(value)


def test_a_set_is_written_the_same_in_each_process():
    script = "from lit_rl.execution.wire.value_text import value_text\n"
    script += (
        "print(value_text({'b', 'a', 'c', (1, 'x'), frozenset('xyz')}), value_text({str(i) for i in range(2000)}))"
    )
    seen = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        seen.add(subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True).stdout)
    assert seen == {"{'a', 'b', 'c', (1, 'x'), frozenset({'x', 'y', 'z'})} <set of 2000 items>\n"}


def test_what_is_long_is_cut():
    assert value_text(list(range(10**6))).endswith(" ... (1000000 items)")
    text = value_text("a" * 10**6 + "b")
    assert text.startswith("'aaa") and text.endswith("b'") and " ... " in text and len(text) <= MAX_SHOWN_LENGTH
    text = value_text([1] * 300)
    assert text.startswith("[1, 1") and text.endswith("1, 1]") and len(text) == MAX_SHOWN_LENGTH
    assert shorten_text("x" * 501) != "x" * 501 == shorten_text("x" * 501, 501)
    assert source_excerpt("a\n  b\n  c\nd", 2, 3) == "b\n  c"
    assert call_text("f", [1, "a"], {"key": [2]}) == "f(1, 'a', key=[2])"
    assert len(call_text("f", ["x" * 10**6] * 10**6, {})) == MAX_SHOWN_LENGTH


class Raising(list):
    def __iter__(self):
        raise RuntimeError


def test_a_value_that_cannot_be_written_gives_no_text():
    assert value_text(Raising([1])) == ""
