"""Values that cross between processes arrive unchanged."""

import array
import collections
import datetime
import decimal
import fractions
import io
import pathlib
import random
import subprocess
import sys
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.named_jobs import judge_named, not_among

from lit_rl.execution import CallTests, Verdict
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.neutral_values import Array, FieldTuple

Point = collections.namedtuple("Point", "x y")
UTC = datetime.UTC
VALUES = [
    datetime.date(2020, 2, 29),
    datetime.datetime(2020, 2, 29, 23, 59, 58, 7),
    datetime.datetime(2020, 2, 29, 1, fold=1, tzinfo=UTC),
    datetime.time(1, 2, 3, 4),
    datetime.timedelta(-1, 2, 3),
    datetime.timezone(datetime.timedelta(hours=-3)),
    pathlib.Path("a/b.txt"),
    pathlib.PurePosixPath("/x"),
    pathlib.PureWindowsPath("c:/x"),
    array.array("d", [1.5, -2.0]),
    array.array("u", "ab"),
    array.array("q"),
    ...,
    NotImplemented,
    collections.Counter("abca"),
    collections.OrderedDict(b=1, a=2),
    collections.defaultdict(list, {1: [2]}),
    collections.deque([1, [2]], 3),
    decimal.Decimal("-1.50"),
    fractions.Fraction(-1, 3),
    range(10, 0, -3),
    range(10**30, 10**30 + 2),
    1 - 2j,
    10**5000,
    frozenset([(1, frozenset())]),
    {1: 2}.keys(),
    {1: (2,)}.items(),
    bytearray(b"\xff\x00"),
]


def test_a_value_of_the_standard_library_crosses_with_its_type():
    for value in VALUES:
        back = plain.loads(plain.dumps(value))
        assert (back, type(back)) == (value, type(value))
        inside = plain.loads(plain.dumps({"key": [value, (value,)]}))
        assert inside == {"key": [value, (value,)]}


def test_what_equality_does_not_show_crosses_too():
    def crossed(value):
        return plain.loads(plain.dumps(value))

    assert crossed(collections.deque([1], 5)).maxlen == 5
    assert crossed(collections.defaultdict(int))["new"] == 0 == crossed(collections.Counter())["new"]
    assert crossed(datetime.datetime(2020, 1, 1, fold=1)).fold == 1
    assert list(crossed({1: 3, 2: 3}.values())) == [3, 3]
    text, content = io.StringIO("one\ntwo\n"), io.BytesIO(b"abc")
    text.readline()
    content.seek(2)
    text, content = crossed([text, content])
    assert (text.read(), text.getvalue()) == ("two\n", "one\ntwo\n")
    assert (content.read(), content.getvalue()) == (b"c", b"abc")


def test_a_named_tuple_is_a_tuple_with_names():
    back = plain.loads(plain.dumps(Point(1, [2])))
    assert back == (1, [2]) == Point(1, [2])
    assert (back.x, back._asdict(), back._replace(x=5), back._fields) == (1, {"x": 1, "y": [2]}, (5, [2]), ("x", "y"))
    assert repr(back) == "Point(x=1, y=[2])"
    assert type(plain.loads(plain.dumps(back))) is FieldTuple
    with pytest.raises(AttributeError, match="Point"):
        _ = back.z


def test_an_array_of_numpys_is_read_without_numpy_and_compares_as_numpys_does():
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.arange(6).reshape(2, 3), numpy.array([1.5]), numpy.array(["a", "bc"]), numpy.array([], dtype="f4")]
    texts = [plain.dumps(value) for value in arrays]
    script = "import sys\nfrom lit_rl.execution.wire import plain\nfor line in sys.stdin:\n    a = plain.loads(line)\n"
    script += "    print(repr((type(a).__name__, a.shape, a.dtype, a.tolist(), len(a))))\n"
    script += "assert 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], input="\n".join(texts), text=True, capture_output=True)
    seen = [eval(line) for line in done.stdout.splitlines()]
    assert seen == [("Array", a.shape, a.dtype.name.rstrip("0123456789") if a.dtype.kind == "U" else a.dtype.name,
                     a.tolist(), len(a)) for a in arrays], done.stderr  # fmt: skip
    for text, value in zip(texts, arrays, strict=True):
        back = plain.loads(text)
        assert back.dtype == value.dtype and back.shape == value.shape and (back == value).all()


def test_an_array_of_any_type_is_read_as_its_items():
    """Masked items are ``None``; what stays a matrix when it is flattened is a list of its rows."""
    numpy = pytest.importorskip("numpy")
    shapes = [(), (0,), (2,), (2, 0), (2, 2)]
    kinds = ["?", "u8", "f2", "c8", "U0", "S3", "M8[s]", "m8[s]", "M8[ns]", "O"]
    arrays = [numpy.zeros(shape, kind) for kind in kinds for shape in shapes]
    arrays += [numpy.full(2, fill, kind) for kind in ("f2", "f8", "c8") for fill in (numpy.nan, numpy.inf)]
    arrays += [numpy.ma.array([1, 2], mask=[0, 1]), numpy.array(["NaT"], dtype="M8[D]")]
    arrays += [numpy.zeros(2).view(type("Rows", (numpy.ndarray,), {"ravel": lambda self: self.reshape(1, 2)}))]
    arrays += [numpy.int64(3), numpy.float64(2.5), numpy.bool_(True), numpy.str_("a")]
    for value in arrays:
        back = plain.loads(plain.dumps(value))
        items = back.tolist() if hasattr(back, "tolist") else back
        assert repr(items) == repr(value.tolist()), value.dtype
    assert plain.loads(plain.dumps(numpy.longdouble(2.5))) == 2.5


def test_an_array_of_two_items_is_neither_true_nor_false():
    two = Array("int64", (2,), [1, 2])
    assert (two == [1, 2]).tolist() == [True, True] and (two == 1).tolist() == [True, False]
    with pytest.raises(ValueError, match="ambiguous"):
        bool(two == [1, 2])
    assert bool(Array("int64", (1,), [3]) == [3]) and not bool(Array("int64", (1,), [3]) == [4])
    grid = Array("int64", (2, 2), [1, 2, 3, 4])
    assert (grid[1, 0], grid[0].tolist(), grid[:,].tolist(), grid[1:].shape) == (3, [1, 2], [[1, 2], [3, 4]], (1, 2))


@settings(max_examples=60)
@given(st.lists(st.integers(-30, 100), max_size=18), st.booleans())
def test_a_small_set_is_gone_through_in_the_same_order(items, frozen):
    """Given away in another order, a program that forgets to sort may be right by accident."""
    value = frozenset(set(items)) if frozen else set(items)
    back = plain.loads(plain.dumps(value))
    assert back == value
    if len(value) <= 5:
        assert list(back) == list(value)


def test_most_sets_are_gone_through_in_the_same_order():
    rng = random.Random(0)
    values = [{rng.randrange(-50, 1000) for _ in range(rng.randrange(2, 40))} for _ in range(100)]
    same = sum(list(plain.loads(plain.dumps(value))) == list(value) for value in values)
    plainly = sum(list(set(iter(value))) == list(value) for value in values)
    assert same >= 0.9 * len(values) > plainly


ARGUMENTS = [
    (datetime.date(2020, 1, 2), "x.isoformat()", "2020-01-02"),
    (array.array("i", [1, 2]), "x.typecode + str(x.tolist())", "i[1, 2]"),
    (bytearray(b"ab"), "type(x).__name__", "bytearray"),
    (io.StringIO("a\nb"), "x.readlines()", ["a\n", "b"]),
    (collections.OrderedDict(a=1), "type(x).__name__", "OrderedDict"),
    (FieldTuple.of("Point", ("x", "y"), (1, 2)), "x.x + x.y", 3),
    (pathlib.PurePosixPath("a/b"), "x.name", "b"),
    (collections.deque([1, 2], 2), "x.maxlen", 2),
    ({8, 0}, "list(x)", list({8, 0})),
    ([{16, 8, 0}], "list(x[0])", list({16, 8, 0})),
    (Array("int64", (2,), [1, 2]), "x.tolist() if type(x).__name__ == 'Array' else 0", [1, 2]),
]


def test_an_argument_arrives_as_it_is(sandbox):
    jobs = {
        (i, use): (f"def f(x):\n    return {use}\n", CallTests((((value,), expected),), "f"))
        for i, (value, use, expected) in enumerate(ARGUMENTS)
    }
    assert not_among(judge_named(sandbox, jobs), Verdict.PASSED) == {}


def test_an_argument_that_cannot_cross_is_a_fault_of_ours(sandbox):
    outcome = sandbox.submit("def f(x): return 1\n", CallTests((((uuid.UUID(int=1),), 1),), "f")).result()
    assert outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE


RESULTS = [
    ("import datetime", "datetime.timedelta(1, 5)", datetime.timedelta(1, 5)),
    ("from collections import *", "namedtuple('P', 'x y')(1, 2)", (1, 2)),
    ("from collections import *", "Counter('aab')", {"a": 2, "b": 1}),
    ("from pathlib import Path", "Path('a') / 'b'", pathlib.Path("a/b")),
    ("from array import array", "array('i', [1])", array.array("i", [1])),
    ("", "...", ...),
    ("", "{1: 2}.keys()", {1}),
    ("", "{1: 2}.items()", {(1, 2)}),
]


def test_a_result_is_compared_as_plain_python_does(sandbox):
    programs = {result: f"{before}\ndef f():\n    return {result}\n" for before, result, _ in RESULTS}
    good = {result: (programs[result], CallTests((((), expected),), "f")) for _, result, expected in RESULTS}
    bad = {result: (program, CallTests((((), -1),), "f")) for result, program in programs.items()}
    assert not_among(judge_named(sandbox, good), Verdict.PASSED) == {}
    assert not_among(judge_named(sandbox, bad), Verdict.WRONG_ANSWER) == {}
