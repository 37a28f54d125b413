# ruff: noqa: E501 - forms stay on one line
"""Random tests: a hidden reference computes the expected values, and one of many forms asks for them."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass
from typing import Any

Case = tuple[tuple[Any, ...], Any]


@dataclass(frozen=True)
class Problem:
    """A test and a program that passes it.

    Args:
        kind: ``function``, ``class``, ``in_place`` or ``file``.
        form: names of the forms that the test is made of.
        test: source of the test.
        entry_point: what ``check(candidate)`` is called with, if the test defines it.
        right: the reference.
        cases: arguments and expected value of each call, in the order of the test.
    """

    kind: str
    form: str
    test: str
    entry_point: str | None
    right: str
    cases: tuple[Case, ...]


# --- references: a few random lines ----------------------------------------------------------------------------------

NUMBERS = ["x = x * {a} + {b}", "x = x ^ {a}", "x = abs(x - {b})", "x = x // {a}", "x = x % {c} + x", "x = -x + {b}"]
LISTS = [
    *("x = sorted(x)", "x = x[::-1]", "x = [v * {a} for v in x]", "x = [v for v in x if v % {a}]", "x = x + [len(x)]"),
    *("x = x[{a}:] + x[:{a}]", "x = [v + i for i, v in enumerate(x)]", "x = x + [sum(x)]", "x = x + [{b}]"),
]
TEXTS = [
    *("x = x[::-1]", "x = x.upper()", "x = x.replace('a', 'bc')", "x = ''.join(sorted(x))", "x += str(len(x))"),
    *("x = x.title()", "x = x * 2", "x = x[{a}:] + x[:{a}]", "x = '-'.join(x)"),
]
RETURNS = {
    "number": ["x", "[x, {a}]", "(x, -x)", "str(x)", "{{'x': x}}", "x * 0.5"],
    "list": ["x", "tuple(x)", "sum(x)", "{{str(v): i for i, v in enumerate(x)}}", "[[v] for v in x]", "len(x) + {a}"],
    "text": ["x", "list(x)", "len(x)", "{{c: x.count(c) for c in x}}", "x.encode()", "(x, len(x))"],
}
LINES = {"number": NUMBERS, "list": LISTS, "text": TEXTS}


def value(rng: random.Random, kind: str) -> Any:
    """A random argument."""
    if kind == "number":
        return rng.randrange(-50, 500)
    if kind == "list":
        return [rng.randrange(-9, 99) for _ in range(rng.randrange(1, 9))]
    return "".join(rng.choices("abcde fgh", k=rng.randrange(2, 9))) + rng.choice("xyz")


def filled(rng: random.Random, line: str) -> str:
    """A line with random numbers in it."""
    return line.format(a=rng.randrange(2, 9), b=rng.randrange(1, 90), c=rng.randrange(3, 60))


def defined(source: str) -> dict[str, Any]:
    """Names that a reference defines; it is made of the lines above, and harmless."""
    names: dict[str, Any] = {}
    exec(source, names)
    return names


def _function(rng: random.Random) -> Problem:
    kind = rng.choice(list(LINES))
    lines = [filled(rng, rng.choice(LINES[kind])) for _ in range(rng.randrange(1, 5))]
    source = "def f(x):\n" + "".join(f"    {line}\n" for line in lines)
    source += f"    return {filled(rng, rng.choice(RETURNS[kind]))}\n"
    f = defined(source)["f"]
    arguments = [value(rng, kind) for _ in range(rng.randrange(2, 6))]
    cases = tuple(((x,), f(copy.deepcopy(x))) for x in arguments)
    usable = FORMS | (FORMS_OF_NUMBERS if all(isinstance(want, int | float) for _, want in cases) else {})
    forms = rng.sample(list(usable), 2 if rng.random() < 0.3 else 1)
    parts = [noise(rng)]
    for form in forms:
        text = rng.choice(usable[form])
        plain = "".join(f"assert f({x!r}) == {want!r}\n" for (x,), want in cases)
        parts += [text.replace("CASES", repr(list(cases))).replace("PLAIN\n", plain), noise(rng)]
    return Problem("function", "+".join(forms), "".join(parts), "f" if "check" in forms else None, source, cases)


# --- forms of tests of a function. CASES is a list of pairs, PLAIN an assert for each -----------------------------------

FOR = "for args, want in CASES:\n"
UNIT = "import unittest\nclass TestF(unittest.TestCase):\n"
FORMS = {
    "plain": ["PLAIN\n", "cases = CASES\n" + FOR + "    assert f(*args) == want\n", FOR + "    got = f(*args)\n    assert want == got\n"],
    "message": [FOR + "    got = f(*args)\n    assert got == want, f'{got!r} is not {want[0]}'\n"],
    "index": ["cases = CASES\ni = 0\nwhile i < len(cases):\n    assert f(*cases[i][0]) == cases[i][1]\n    i += 1\n"],
    "dict": ["cases, found = CASES, {}\nfor i, (args, _) in enumerate(cases):\n    found[i] = f(*args)\nfor i, (_, want) in enumerate(cases):\n    assert found[i] == want\n"],
    "check": ["def check(candidate):\n    for args, want in CASES:\n        assert candidate(*args) == want\n", "def check(g):\n    found = [g(*args) for args, _ in CASES]\n    assert found == [want for _, want in CASES]\n"],
    "helper": [
        "def same(got, want):\n    assert got == want\n" + FOR + "    same(f(*args), want)\n",
        "right = lambda got, want: {True: 1}[got == want]\n" + FOR + "    assert right(f(*args), want)\n",
        "from functools import partial\ndef look(table, key): return table[key]\n" + FOR + "    assert partial(look, {repr(want): 1})(repr(want) if f(*args) == want else '') == 1\n",
        "class Checker:\n    def __init__(self, want): self.want = want\n    def run(self, got): assert got == self.want\n" + FOR + "    Checker(want).run(f(*args))\n",
        "def first(rows): return rows[0]\npick = first\n" + FOR + "    assert pick([g for g in [f(*args)] if g == want]) == want\n",
        "def outer():\n    kept = []\n    def inner(args):\n        kept.append(f(*args))\n        return kept[-1]\n    return inner\nrun = outer()\n" + FOR + "    assert run(args) == want\n",
        "from functools import wraps\ndef logged(g):\n    @wraps(g)\n    def inner(*a):\n        return {'got': g(*a)}\n    return inner\nrun = logged(f)\n" + FOR + "    assert run(*args)['got'] == want\n",
    ],
    "try": [
        FOR + "    try:\n        got = f(*args)\n    except Exception as error:\n        got = error.args[0]\n    assert got == want and type(got) is type(want)\n",
        FOR + "    try:\n        got = f(*args)\n    except ValueError:\n        raise RuntimeError('wrong')\n    finally:\n        kept = [args]\n    assert got == want\n",
        FOR + "    failed = []\n    try:\n        assert f(*args) == want\n    except AssertionError:\n        failed.append(args)\n    assert not failed\n",
    ],
    "raise": [
        FOR + "    if f(*args) != want:\n        raise ValueError('wrong')\n",
        "import os\n" + FOR + "    got = f(*args)\n    if got != want:\n        os._exit(3)\n    assert got == want\n",
        "import sys\n" + FOR + "    got = f(*args)\n    if got != want:\n        sys.exit(got)\n    assert got == want\n",
    ],
    "with": [
        "import contextlib\n" + FOR + "    got = []\n    with contextlib.suppress(ValueError):\n        got.append(f(*args))\n    assert got[0] == want\n",
        "import contextlib\n@contextlib.contextmanager\ndef around(args):\n    yield f(*args)\n" + FOR + "    with around(args) as got:\n        assert got == want\n",
        "import contextlib\n" + FOR + "    with contextlib.ExitStack() as stack:\n        got = []\n        stack.callback(got.clear)\n        got.append(f(*args))\n        assert got == [want]\n",
    ],
    "generator": [
        "found = (f(*args) for args, _ in CASES)\nfor got, (_, want) in zip(found, CASES, strict=True):\n    assert got == want\n",
        "assert [f(*args) for args, _ in CASES] == [want for _, want in CASES]\n",
        "assert all(f(*args) == want for args, want in CASES)\n",
        "assert list(map(lambda pair: f(*pair[0]), CASES)) == [want for _, want in CASES]\n",
        "first, *rest = [f(*args) for args, _ in CASES]\nassert first == CASES[0][1] and rest[-1] == CASES[-1][1]\nassert rest == [want for _, want in CASES[1:]]\n",
        "def run(i):\n    if i < len(CASES):\n        assert f(*CASES[i][0]) == CASES[i][1]\n        run(i + 1)\nrun(0)\n",
    ],
    "thread": [
        "import threading\ncases, found = CASES, {}\ndef work(i):\n    found[i] = f(*cases[i][0])\nts = [threading.Thread(target=work, args=(i,)) for i in range(len(cases))]\nfor t in ts: t.start()\nfor t in ts: t.join()\nfor i, (_, want) in enumerate(cases):\n    assert found[i] == want\n",
        "import threading\n" + FOR + "    out = []\n    t = threading.Thread(target=lambda: out.append(f(*args)))\n    t.start()\n    t.join()\n    got = out[0]\n    assert got == want\n",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool:\n    found = list(pool.map(lambda pair: f(*pair[0]), CASES))\nfor got, (_, want) in zip(found, CASES):\n    assert got == want\nassert len(found) == len(CASES)\n",
        "import queue, threading\n" + FOR + "    q = queue.Queue()\n    t = threading.Thread(target=lambda: q.put(f(*args)))\n    t.start()\n    t.join()\n    got = q.get_nowait()\n    assert got == want\n",
        "import asyncio\nasync def run(args):\n    return f(*args)\nasync def main():\n    return await asyncio.gather(*[run(args) for args, _ in CASES])\nassert asyncio.run(main()) == [want for _, want in CASES]\n",
    ],
    "unittest": [
        UNIT + "    def test_a(self):\n        for args, want in CASES:\n            self.assertEqual(f(*args), want)\n",
        UNIT + "    def setUp(self): self.found = [f(*args) for args, _ in CASES]\n    def test_a(self): self.assertEqual(self.found, [want for _, want in CASES])\n    def test_b(self): self.assertEqual(self.found[0], CASES[0][1])\n",
        UNIT + "    def test_a(self):\n        for args, want in CASES:\n            with self.subTest(args=args):\n                self.assertEqual(f(*args), want)\n                self.assertIsNotNone(f(*args))\n",
        UNIT + "    @classmethod\n    def setUpClass(cls): cls.found = {i: f(*args) for i, (args, _) in enumerate(CASES)}\n    def test_a(self):\n        for i, (_, want) in enumerate(CASES):\n            self.assertTrue(self.found[i] == want)\n",
    ],
    "functions": [
        "def test_all():\n    for args, want in CASES:\n        assert f(*args) == want\n",
        "class TestAll:\n    def setup_method(self): self.cases = CASES\n    def test_a(self):\n        for args, want in self.cases:\n            assert f(*args) == want\n",
        "def test_first():\n    assert f(*CASES[0][0]) == CASES[0][1]\ndef test_rest():\n    found = [f(*args) for args, _ in CASES[1:]]\n    assert found == [want for _, want in CASES[1:]]\n",
    ],
    "container": [
        "from heapq import heappush, heappop\nheap = []\nfor i, (args, _) in enumerate(CASES):\n    heappush(heap, (i, f(*args)))\nfor _, want in CASES:\n    assert heappop(heap)[1] == want\n",
        "from bisect import insort\nrows = []\nfor i, (args, _) in enumerate(CASES):\n    insort(rows, [i, f(*args)])\nassert [row[1] for row in rows] == [want for _, want in CASES]\n",
        "class Box: pass\n" + FOR + "    box = Box()\n    setattr(box, 'got', f(*args))\n    assert box.got == want\n",
        "from collections import defaultdict\nfound = defaultdict(list)\n" + FOR + "    found[repr(want)].append(f(*args))\n    assert found[repr(want)][-1] == want\n",
        "from collections import deque\nrows = deque(maxlen=1)\n" + FOR + "    rows.append(f(*args))\n    assert rows[0] == want\n",
        "from types import SimpleNamespace\n" + FOR + "    s = SimpleNamespace(**{'got': f(*args)})\n    assert s.got == want\n",
        "from dataclasses import dataclass\n@dataclass\nclass Row:\n    got: object\n    want: object\n" + FOR + "    row = Row(f(*args), want)\n    assert row.got == row.want\n",
    ],
    "branch": [
        FOR + "    match f(*args):\n        case got if got == want: ok = 1\n        case _: ok = {}\n    assert ok == 1\n",
        FOR + "    ok = 'yes' if f(*args) == want else {}['no']\n    assert ok == 'yes'\n",
        FOR + "    if (got := f(*args)) == want:\n        row = [1]\n    else:\n        row = []\n    first = row[0]\n    assert first == 1\n",
        "count = 0\n" + FOR + "    count += f(*args) == want\nassert count == len(CASES)\n",
    ],
    "file": [
        "for i, (args, want) in enumerate(CASES):\n    with open(f'case{i}.txt', 'w') as h:\n        h.write('right' if f(*args) == want else 'wrong')\n    with open(f'case{i}.txt') as h:\n        assert h.read() == 'right'\n",
        "import os\nos.makedirs('out', exist_ok=True)\n" + FOR + "    with open('out/a', 'w') as h:\n        h.write('a')\n    assert f(*args) == want\n    os.remove('out/a')\n",
    ],
}  # fmt: skip
FORMS_OF_NUMBERS = {
    "operator": [
        FOR + "    assert abs(f(*args) - want) < 1e-9\n",
        FOR + "    got = f(*args)\n    assert want - 1 < got < want + 1 and not got - want\n",
        "import math\n" + FOR + "    assert math.isclose(f(*args), want)\n",
        "total = 0\n" + FOR + "    got = f(*args)\n    total += got\n    assert got == want\nassert total == sum(want for _, want in CASES)\n",
        FOR + "    got = f(*args)\n    text = f'{got:.6f}'\n    assert got == want and float(text) == round(got, 6)\n",
        UNIT + "    def test_a(self):\n        for args, want in CASES:\n            self.assertAlmostEqual(f(*args), want, places=7)\n",
    ],
}  # fmt: skip
NOISE = [
    "", "", "", "import math\n", "limit = sum(range(10))\n", "def unused(v):\n    return v['x']\n", "seen = [1, 2]\n",
    "with open('notes.txt', 'w') as notes:\n    notes.write('n')\n", "import json\nrows = json.loads('[1, 2]')\n",
    "import random\nrandom.seed(3)\n", "class Kept:\n    rows = []\n", "assert callable(unused) if 'unused' in dir() else 1\n",
]  # fmt: skip


def noise(rng: random.Random) -> str:
    """Lines that have nothing to do with the program."""
    return rng.choice(NOISE)


# --- classes, arguments changed in place, files ------------------------------------------------------------------------

_CLASS = """class Box:
    def __init__(self, start):
        self.items = [start]
    def add(self, v):
        self.items.append(v * {a} + {b})
        return len(self.items)
    def total(self):
        return sum(self.items) % {c} + 1
    def last(self, n=1):
        return self.items[-n:]
    def named(self, text):
        return {{text: self.items[0] + {a}}}
"""
CLASS_FORMS = {
    "plain": ["b = Box(START)\nfor name, args, want in STEPS:\n    assert getattr(b, name)(*args) == want\n"],
    "dict": ["made = {'b': Box(START)}\nfound = [getattr(made['b'], name)(*args) for name, args, _ in STEPS]\nassert found == [want for _, _, want in STEPS]\n"],
    "helper": ["def run(b, name, args): return [getattr(b, name)(*args)][0]\nb = Box(START)\nfor name, args, want in STEPS:\n    assert run(b, name, args) == want\n"],
    "caller": ["from operator import methodcaller\nb = Box(START)\nfor name, args, want in STEPS:\n    assert methodcaller(name, *args)(b) == want\n"],
    "subclass": ["class Mine(Box):\n    pass\nb = Mine(START)\nfor name, args, want in STEPS:\n    got = getattr(b, name)(*args)\n    assert got == want\n"],
    "unittest": [UNIT + "    def setUp(self): self.b = Box(START)\n    def test_a(self):\n        for name, args, want in STEPS:\n            self.assertEqual(getattr(self.b, name)(*args), want)\n"],
    "function": ["def test_a():\n    b = Box(START)\n    for name, args, want in STEPS:\n        assert getattr(b, name)(*args) == want\n"],
    "thread": ["import threading\nb, out = Box(START), []\nt = threading.Thread(target=lambda: out.extend(getattr(b, name)(*args) for name, args, _ in STEPS))\nt.start()\nt.join()\nfor i, (_, _, want) in enumerate(STEPS):\n    assert out[i] == want\n"],
    "attribute": ["class Holder: pass\nh = Holder()\nh.b = Box(START)\nfor name, args, want in STEPS:\n    method = getattr(h.b, name)\n    assert {True: 1}[method(*args) == want] == 1\n"],
}  # fmt: skip


def _class(rng: random.Random) -> Problem:
    source = filled(rng, _CLASS)
    start = rng.randrange(90)
    box = defined(source)["Box"](start)
    makers = {
        "add": lambda: (rng.randrange(-5, 50),),
        "total": lambda: (),
        "last": lambda: (rng.randrange(1, 4),),
        "named": lambda: (rng.choice(["a", "bc", "d e"]),),
    }
    steps = []
    for _ in range(rng.randrange(2, 7)):
        name = rng.choice(list(makers))
        args = makers[name]()
        steps.append((name, args, copy.deepcopy(getattr(box, name)(*args))))
    form = rng.choice(list(CLASS_FORMS))
    text = rng.choice(CLASS_FORMS[form]).replace("START", repr(start)).replace("STEPS", repr(steps))
    cases = tuple((args, want) for _, args, want in steps)
    return Problem("class", form, noise(rng) + text + noise(rng), None, source, cases)


IN_PLACE = [
    "x.sort()",
    "x.reverse()",
    "x.append({b})",
    "x[:] = [v * {a} for v in x]",
    "x.pop()",
    "x.extend([{a}, {b}])",
]
IN_PLACE_FORMS = {
    "plain": ["for rows, want in CASES:\n    f(rows)\n    assert rows == want\n"],
    "first": ["for rows, want in CASES:\n    f(rows)\n    first, last = rows[0], rows[-1]\n    assert (first, last) == (want[0], want[-1]) and rows == want\n"],
    "total": ["for rows, want in CASES:\n    f(rows)\n    assert sum(rows) == sum(want)\n    assert max(rows) == max(want) and rows == want\n"],
    "partial": ["from functools import partial\nfor rows, want in CASES:\n    run = partial(f, rows)\n    run()\n    kept = rows[:]\n    assert kept[0] == want[0] and kept == want\n"],
    "unittest": [UNIT + "    def test_a(self):\n        for rows, want in CASES:\n            f(rows)\n            self.assertEqual(rows[0], want[0])\n            self.assertEqual(rows, want)\n"],
    "check": ["def check(candidate):\n    for rows, want in CASES:\n        candidate(rows)\n        rows[len(want) - 1]\n        assert rows == want\n"],
}  # fmt: skip


def _in_place(rng: random.Random) -> Problem:
    while True:
        lines = [filled(rng, rng.choice(IN_PLACE)) for _ in range(rng.randrange(1, 4))]
        source = "def f(x):\n" + "".join(f"    {line}\n" for line in lines)
        f = defined(source)["f"]
        cases = []
        for _ in range(rng.randrange(2, 5)):
            rows = [rng.randrange(99) for _ in range(rng.randrange(4, 9))]
            want = rows[:]
            f(want)
            cases.append(((rows,), want))
        if all(args[0] != want and want for args, want in cases):  # a program that does nothing is wrong
            break
    form = rng.choice(list(IN_PLACE_FORMS))
    pairs = repr([(args[0], want) for args, want in cases])
    text = rng.choice(IN_PLACE_FORMS[form]).replace("CASES", pairs)
    test = noise(rng) + text + noise(rng)
    return Problem("in_place", form, test, "f" if form == "check" else None, source, tuple(cases))


FILE_LINES = [
    "text = text.upper()",
    "text = text[::-1]",
    "text = ' '.join(sorted(text.split()))",
    "text = text + '{a}'",
]
FILE_FORMS = {
    "plain": ["for i, (text, want) in enumerate(CASES):\n    with open('in.txt', 'w') as h:\n        h.write(text)\n    f('in.txt', 'out.txt')\n    with open('out.txt') as h:\n        got = h.read()\n    assert got == want\n"],
    "path": ["from pathlib import Path\nfor i, (text, want) in enumerate(CASES):\n    Path(f'in{i}').write_text(text)\n    f(f'in{i}', f'out{i}')\n    assert Path(f'out{i}').read_text() == want\n"],
    "folder": ["import os\nfor i, (text, want) in enumerate(CASES):\n    os.mkdir(f'd{i}')\n    with open(f'd{i}/a', 'w') as h:\n        h.write(text)\n    f(f'd{i}/a', f'd{i}/b')\n    assert sorted(os.listdir(f'd{i}')) == ['a', 'b']\n    with open(f'd{i}/b') as h:\n        assert h.read() == want\n    os.remove(f'd{i}/a')\n"],
    "temporary": ["import tempfile\nfor text, want in CASES:\n    with tempfile.TemporaryDirectory(dir='.') as d:\n        with open(d + '/a', 'w') as h:\n            h.write(text)\n        f(d + '/a', d + '/b')\n        with open(d + '/b') as h:\n            assert h.read() == want\n"],
}  # fmt: skip


def _file(rng: random.Random) -> Problem:
    lines = [filled(rng, rng.choice(FILE_LINES)) for _ in range(rng.randrange(1, 4))] + ["text += '.'"]
    body = "".join(f"    {line}\n" for line in lines)
    transform = defined(f"def g(text):\n{body}    return text\n")["g"]
    source = f"def f(a, b):\n    with open(a) as h:\n        text = h.read()\n{body}    with open(b, 'w') as h:\n        h.write(text)\n"
    texts = [value(rng, "text") for _ in range(rng.randrange(2, 4))]
    form = rng.choice(list(FILE_FORMS))
    test = rng.choice(FILE_FORMS[form]).replace("CASES", repr([(text, transform(text)) for text in texts]))
    cases = tuple(((text,), transform(text)) for text in texts)
    return Problem("file", form, noise(rng) + test + noise(rng), None, source, cases)


KINDS = {"function": _function, "class": _class, "in_place": _in_place, "file": _file}


def random_problem(rng: random.Random) -> Problem:
    """A random test with its right program."""
    return KINDS[rng.choices(list(KINDS), [6, 2, 2, 1])[0]](rng)
