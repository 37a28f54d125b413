"""Values that cross between processes arrive unchanged."""

import array
import collections
import datetime
import decimal
import fractions
import subprocess
import sys
import uuid

import pytest
from support.named_jobs import judge_named, not_among

from lit_rl.execution import CallTests, Verdict
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.library_values import FieldTuple

Point = collections.namedtuple("Point", "x y")
UTC = datetime.UTC
VALUES = [
    datetime.date(2020, 2, 29),
    datetime.datetime(2020, 2, 29, 23, 59, 58, 7),
    datetime.datetime(2020, 2, 29, 1, fold=1, tzinfo=UTC),
    datetime.time(1, 2, 3, 4),
    datetime.timedelta(-1, 2, 3),
    datetime.timezone(datetime.timedelta(hours=-3)),
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


def test_a_named_tuple_is_a_tuple_with_names():
    back = plain.loads(plain.dumps(Point(1, [2])))
    assert back == (1, [2]) == Point(1, [2])
    assert (back.x, back._asdict(), back._replace(x=5), back._fields) == (1, {"x": 1, "y": [2]}, (5, [2]), ("x", "y"))
    assert repr(back) == "Point(x=1, y=[2])"
    assert type(plain.loads(plain.dumps(back))) is FieldTuple
    with pytest.raises(AttributeError, match="Point"):
        _ = back.z


def test_an_array_is_its_lists_where_numpy_is_not_loaded_and_itself_elsewhere():
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.arange(6).reshape(2, 3), numpy.array([1.5]), numpy.array(7j), numpy.zeros((2, 0), dtype="f4")]
    script = "import sys\nfrom lit_rl.execution.wire import plain\nfor line in sys.stdin:\n"
    script += "    print(repr(plain.loads(line)))\nassert 'numpy' not in sys.modules"
    texts = [plain.dumps(value) for value in arrays]
    done = subprocess.run([sys.executable, "-c", script], input="\n".join(texts), text=True, capture_output=True)
    assert done.stdout.splitlines() == [repr(value.tolist()) for value in arrays], done.stderr
    for text, value in zip(texts, arrays, strict=True):
        back = plain.loads(text)
        assert back.dtype == value.dtype and back.shape == value.shape and (back == value).all()


def test_an_array_of_any_other_type_is_read_as_its_items():
    """Masked items are ``None``; what stays a matrix when it is flattened is a list of its rows."""
    numpy = pytest.importorskip("numpy")
    arrays = [numpy.zeros(2, kind) for kind in ["U1", "S3", "M8[s]", "m8[s]", "M8[ns]", "O", "i4, f8"]]
    arrays += [numpy.ma.array([1, 2], mask=[0, 1]), numpy.array(["NaT"], dtype="M8[D]"), array.array("d", [1.5])]
    arrays += [numpy.zeros(2).view(type("Rows", (numpy.ndarray,), {"ravel": lambda self: self.reshape(1, 2)}))]
    arrays += [numpy.int64(3), numpy.float64(2.5), numpy.bool_(True), numpy.str_("a")]
    for value in arrays:
        assert repr(plain.loads(plain.dumps(value))) == repr(value.tolist())
    assert plain.loads(plain.dumps([numpy.longdouble(2.5), numpy.array([2.5], "g")])) == [2.5, [2.5]]


def test_an_array_whose_items_do_not_fill_its_shape_is_refused():
    for shape, items in (("2,2", "1,2,3"), ("2,0", "1"), ("9999999", ""), ("-1", ""), ("1", '"x"')):
        with pytest.raises(plain.NotPlain):
            plain.loads(f'["array","<i8",["l",{shape}],["l"{"," if items else ""}{items}]]')


ARGUMENTS = [
    (datetime.date(2020, 1, 2), "x.isoformat()", "2020-01-02"),
    (array.array("i", [1, 2]), "x", [1, 2]),
    (bytearray(b"ab"), "type(x).__name__", "bytearray"),
    (collections.OrderedDict(a=1), "type(x).__name__", "OrderedDict"),
    (FieldTuple.of("Point", ("x", "y"), (1, 2)), "x.x + x.y", 3),
    (collections.deque([1, 2], 2), "x.maxlen", 2),
    ([{16, frozenset([8])}], "x", [{16, frozenset([8])}]),
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
    ("from array import array", "array('i', [1])", [1]),
]


def test_a_result_is_compared_as_plain_python_does(sandbox):
    programs = {result: f"{before}\ndef f():\n    return {result}\n" for before, result, _ in RESULTS}
    good = {result: (programs[result], CallTests((((), expected),), "f")) for _, result, expected in RESULTS}
    bad = {result: (program, CallTests((((), -1),), "f")) for result, program in programs.items()}
    assert not_among(judge_named(sandbox, good), Verdict.PASSED) == {}
    assert not_among(judge_named(sandbox, bad), Verdict.WRONG_ANSWER) == {}
