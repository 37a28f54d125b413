"""Whatever bytes arrive, each parser gives a value or ``NotPlain``, within bounds of memory and time."""

import json
import subprocess
import sys
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.slow_cases import slow_but

from lit_rl.execution import CallTests, Verdict
from lit_rl.execution.judging.calls import CallAnswers
from lit_rl.execution.wire import plain, program_messages
from lit_rl.execution.wire.bounded_json import NotPlain, parse_bounded_json
from lit_rl.execution.wire.printable import make_printable, printable_name

PARSERS = {
    "JSON": parse_bounded_json,
    "value": plain.loads,
    "description": program_messages.parse_exception_description,
    "hosted": program_messages.parse_hosted_message,
    "result": program_messages.parse_grader_result,
}
DESCRIPTION = {"stage": "run", "types": ["ValueError", "Exception"], "message": "no", "line": 3}
VALID = [
    *map(plain.dumps, [[1, (2.5, "a")], {"k": {1, 2}}, b"\xff", 10**40, 1j, range(3), iter([1]), int]),
    '["Decimal","1.5"]',
    '["Fraction","0x1","0x3"]',
    '["Counter","a",1]',
    '["datetime","2020-01-02T03:04:05",0]',
    '["timedelta",1,2,3]',
    '["fields","P",["l","x"],["l",1]]',
    '["array","<i8",["l",1,2],["l",1,2]]',
    '["plain",1.5]',
    '["defaultdict","int","a",1]',
    '["o",0,"Thing"]',
    json.dumps(DESCRIPTION),
    '["call","ask",["t","a"],["d","options",["l"]]]',
    json.dumps(["end", DESCRIPTION]),
    '["end",null]',
    json.dumps({"kind": "passed", "secret": "ab", "number": 3, "num_bytes": 10}),
    json.dumps({"kind": "raised", "secret": "ab", "number": 1, "error": DESCRIPTION, "line": 3, "asked": True}),
]
TAGS = ["l", "t", "s", "f", "d", "b", "B", "i", "c", "r", "q", "I", "T", "o"]
WORDS = ["Decimal", "Fraction", "Counter", "OrderedDict", "defaultdict", "fields", "datetime"]
WORDS += ["date", "time", "timedelta", "timezone", "array"]
WORDS += ["plain", "call", "end", "value", "error", "names", "passed", "failed", "raised", "int"]
ODD = ["", "0x", "0x" + "f" * 9000, "1e999999999", "NaN", "sNaN", "-0", "<f8", "<U9", "\ud800", "\x00", "x" * 300]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS + ODD)


def _tagged(children):
    return st.builds(lambda tag, rest: [tag, *rest], st.sampled_from(TAGS + WORDS), st.lists(children, max_size=5))


TREES = st.recursive(
    LEAVES,
    lambda children: (
        st.lists(children, max_size=4) | _tagged(children) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=20,
)


@st.composite
def mutated(draw):
    """A valid message of which bytes were changed, doubled, cut out or swapped with another message's."""
    line = draw(st.sampled_from(VALID)).encode()
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(line)))
        end = draw(st.integers(start, min(len(line), start + 12)))
        piece = draw(
            st.binary(max_size=6) | st.just(line[start:end] * 2) | st.sampled_from(VALID).map(str.encode)
            | st.sampled_from([b"null", b"[", b"]", b"-1", b'"', b"{}", b"1e400", b"9" * 30, b"true", b"\\ud800"])
        )  # fmt: skip
        line = line[:start] + piece + line[end:]
    return line


ANY_LINE = st.binary(max_size=200) | mutated() | TREES.map(lambda tree: json.dumps(tree).encode())


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@settings(max_examples=100, deadline=None)
@given(line=ANY_LINE)
@example(line=b'["b",5]')
@example(line=b'["Fraction","0x1","0x0"]')
@example(line=b'["Decimal","one"]')
@example(line=b'["array","<i8",["l",1],["l","x"]]')
@example(line=b'["array",1,["l",2],["l",1]]')
@example(line=b'["timedelta",999999999999,0,0]')
@example(line=b'["c",{},[]]')
@example(line=b"[[],[]]")
def test_any_line_is_a_value_or_the_programs_fault(parser, line):
    try:
        parser(line)
    except NotPlain as error:
        assert len(str(error)) < 300


def test_what_is_valid_is_read_by_some_parser():
    for line in VALID:
        read = 0
        for parser in PARSERS.values():
            with suppress(NotPlain):
                parser(line.encode())
                read += 1
        assert read >= 2, line  # as JSON, and as what it is


@settings(max_examples=100, deadline=None)
@given(content=st.lists(ANY_LINE, max_size=5).map(b"\n".join), end=st.sampled_from([b"", b"\n"]))
def test_answers_of_any_content_are_verdicts_of_the_program(content, end):
    check = CallTests((((1,), object), ((2,), [1, (2.5, "a")])), "f")
    cases = CallAnswers(content + end, 2, None, lambda error: Verdict.EXCEPTION).verdicts_of_calls(check)
    assert len(cases) == 2 and Verdict.INFRASTRUCTURE_FAILURE not in cases


@settings(deadline=None)
@given(st.text() | st.text(alphabet="\x00\x1b\r\n\t\u2028\u202e\ud800\udfffab"))
def test_printable_text_holds_nothing_that_steers_a_terminal(text):
    shown = make_printable(text)
    shown.encode()  # no halves of pairs
    assert not set(shown) & set("\x00\x1b\r\x7f\x9b\u2028\u202e\ud800")
    assert len(printable_name(text)) <= 100 and not set(printable_name(text)) & set("\n\t\r\x1b")


LIMITED = """
import resource, sys
from lit_rl.execution import CallTests, Verdict
from lit_rl.execution.judging.calls import CallAnswers
from lit_rl.execution.wire.bounded_json import NotPlain, parse_bounded_json
from lit_rl.execution.wire.program_messages import parse_exception_description, parse_grader_result
from lit_rl.execution.wire.program_messages import parse_hosted_message
LIST = b'["l"%s]'
content = b"{}\\n" + eval(sys.argv[1]) + b"\\n"
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
check = CallTests(tuple(((i,), i) for i in range(100)), "f")
verdicts = CallAnswers(content, 100, None, lambda error: Verdict.EXCEPTION).verdicts_of_calls(check)
assert "passed" not in verdicts, verdicts
line = content.split(b"\\n", 2)[1]
for read in (parse_exception_description, parse_hosted_message, parse_grader_result):
    try:
        read(line)
    except NotPlain:
        pass
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024, resource.getrusage(resource.RUSAGE_SELF).ru_utime)
"""
HUGE = {
    "empty lists": "LIST % (b',[\"l\"]' * 2700000)",
    "as many lists as are read": "LIST % (b',[\"t\",1234567]' * 390000)",
    "texts of commas": "LIST % (b',\",,,,\"' * 1900000)",
    "backslashes and quotes": "b',\"' + b'\\\\\"' * (7 << 20)",
    "a text that needs four bytes a character": "b'\"' + b\"a\" * (15 << 20) + b'\\\\ud83d\\\\ude00\"'",
    "ints that collide": 'b\'["s"%s]\' % b"".join(b\',["i","0x%x"]\' % (i * ((1 << 61) - 1)) for i in range(1, 99999))',
    "ints of millions of digits": 'LIST % (b\',["i","0x%s"]\' % (b"f" * 8000000) * 2)',
    "an int of millions of digits beside decimals": (
        'LIST % (b\',["i","0x%s"]\' % (b"f" * 4000000) + b\',["Decimal","1"]\' * 300000)'
    ),
    "an int of millions of digits beside fractions": (
        'LIST % (b\',["i","0x%s"]\' % (b"f" * 4000000) + b\',["Fraction","0x1","0x3"]\' * 200000)'
    ),
    "a range of large ints": 'b\'["r",0,["i","0x%s"],["i","0x%s"]]\' % (b"f" * 7000000, b"f" * 3000000)',
    "decimals with a large exponent": 'b\'["Decimal","1e999999999"]\\n\' * 100',
    "an exception with a long name": 'b\'{"types":["%s"]}\' % (b"x" * (15 << 20))',
}


QUICK = ("empty lists", "texts of commas", "ints that collide", "a range of large ints")


@pytest.mark.parametrize("name", slow_but(QUICK, HUGE))
def test_reading_and_comparing_stays_within_300_mb_and_20_seconds_of_cpu(name):
    """Each took up to 85 seconds or 0.8 GB when nothing was bounded."""
    done = subprocess.run([sys.executable, "-I", "-c", LIMITED, HUGE[name]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout.split()[0]) < 300
