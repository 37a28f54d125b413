# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Functions of a program, given and giving functions, errors, iterators and coroutines: the last line of each test is an assert."""

from __future__ import annotations

_ERRORS = """
class Bad(ValueError):
    def __init__(self, code, why='bad'): super().__init__(why); self.code = code
class Worse(Bad): pass
def bad(code): raise Bad(code)
def worse(code): raise Worse(code, 'worse')
def key(): return {}['a']
def chain():
    try: key()
    except KeyError as e: raise Bad(1) from e
def system(): raise OSError(2, 'gone', 'file')
"""
_HIGHER = """
import functools, itertools
def apply(f, *xs, **ks): return f(*xs, **ks)
def my_map(f, xs): return [f(x) for x in xs]
def retry(f, n, errors=Exception):
    for i in range(n):
        try: return f()
        except errors:
            if i == n - 1: raise
def memo(f):
    seen = {}
    @functools.wraps(f)
    def g(*a):
        if a not in seen: seen[a] = f(*a)
        return seen[a]
    g.seen = seen
    return g
def use(x): return x
def lines(file): return [line.rstrip() for line in file]
def head(file): return file.readline().strip()
def rename(obj, name): obj.name = name; return obj
def hello(animal): return animal.speak() + '!'
def fill(obj): obj['k'] = 3; return obj['k'] + len(obj)
"""
_ITERATORS = """
def count(n=0):
    while True: yield n; n += 1
def fails_late():
    yield 1
    raise ValueError('late')
def echo():
    got = None
    while True: got = yield got
class Bag:
    def __init__(self, *items): self.items = items
    def __iter__(self): return iter(self.items)
    def __len__(self): return len(self.items)
"""
_ASYNC = """
import asyncio
async def double(x):
    await asyncio.sleep(0)
    return 2 * x
async def fetch(get): return await get() + 1
async def broken(): raise ValueError('async')
"""

# fmt: off
_TESTS = {
    _ERRORS: {
        "own_exception": "try:\n    bad(7)\nexcept Bad as e:\n    found = e\nassert found.code == 7 and str(found) == 'bad'",
        "base_of_an_own_exception": "try:\n    worse(7)\nexcept Bad as e:\n    found = e\nassert isinstance(found, Worse) and isinstance(found, ValueError) and found.args == ('worse',)",
        "arguments_of_a_key_error": "try:\n    key()\nexcept KeyError as e:\n    found = e.args\nassert found == ('a',)",
        "cause_of_an_exception": "try:\n    chain()\nexcept Bad as e:\n    found = e.__cause__\nassert isinstance(found, KeyError)",
        "system_error_number": "try:\n    system()\nexcept FileNotFoundError as e:\n    found = e.errno\nassert found == 2",
        "assert_raises": "import unittest\ncase = unittest.TestCase()\nwith case.assertRaises(Bad) as caught:\n    bad(3)\nassert caught.exception.code == 3",
    },
    _HIGHER: {
        "function_given": "assert my_map(lambda x: x * 2, [1, 2]) == [2, 4]",
        "functions_of_the_program_given_back": "assert apply(my_map, str, [1]) == ['1']",
        "decorator": "calls = []\n@memo\ndef slow(x):\n    calls.append(x)\n    return x + 1\nslow(1), slow(1)\nassert calls == [1] and slow(2) == 3",
        "error_of_the_tests_comes_back": "class Mine(Exception): pass\nerror = Mine('x')\ndef fail(): raise error\ntry:\n    apply(fail)\n    found = None\nexcept Mine as e:\n    found = e\nassert found is error",
        "error_of_the_tests_is_handled": "tries = []\ndef flaky():\n    tries.append(1)\n    if len(tries) < 3: raise ValueError('again')\n    return 'ok'\nassert retry(flaky, 5, ValueError) == 'ok'",
        "object_of_the_tests_returned": "class Thing: pass\nthing = Thing()\nassert use(thing) is thing",
        "object_of_the_tests_changed": "class Thing: name = 'a'\nt = Thing()\nrename(t, 'b')\nassert t.name == 'b'",
        "method_of_a_test_object": "class Dog:\n    def speak(self): return 'wuff'\nassert hello(Dog()) == 'wuff!'",
        "mock": "from unittest.mock import Mock\nm = Mock(return_value=7)\nassert apply(m, 1, k=2) == 7 and m.call_args.args == (1,)",
        "test_object_with_items": "class D(object):\n    def __init__(self): self.d = {}\n    def __setitem__(self, k, v): self.d[k] = v\n    def __getitem__(self, k): return self.d[k]\n    def __len__(self): return len(self.d)\nd = D()\nassert fill(d) == 4 and d.d == {'k': 3}",
        "file_in_memory": "import io\nassert lines(io.StringIO('a\\nb\\n')) == ['a', 'b'] and head(io.StringIO('x\\ny')) == 'x'",
        "threads_in_the_tests": "import threading\nfound = []\nts = [threading.Thread(target=lambda i=i: found.append(use(i))) for i in range(8)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nassert sorted(found) == list(range(8))",
    },
    _ITERATORS: {
        "endless_generator": "import itertools\nassert list(itertools.islice(count(), 100)) == list(range(100))",
        "generator_in_a_loop": "found = []\nfor x in count():\n    if x > 300: break\n    found.append(x)\nassert found == list(range(301))",
        "generator_that_fails_late": "g = fails_late()\nfirst = next(g)\ntry:\n    next(g)\n    found = None\nexcept ValueError as e:\n    found = str(e)\nassert (first, found) == (1, 'late')",
        "generator_that_is_sent_values": "g = echo()\nnext(g)\nassert g.send(3) == 3",
        "iterable_class": "b = Bag(3, 1, 2)\nassert sorted(b) == [1, 2, 3] and max(b) == 3 and len(b) == 3",
    },
    _ASYNC: {
        "coroutine": "import asyncio\nassert asyncio.run(double(3)) == 6",
        "coroutines_gathered": "import asyncio\nasync def run(): return await asyncio.gather(double(1), double(2))\nassert asyncio.run(run()) == [2, 4]",
        "coroutine_of_the_tests": "import asyncio\nasync def get(): return 41\nassert asyncio.run(fetch(get)) == 42",
        "coroutine_that_fails": "import asyncio\ntry:\n    asyncio.run(broken())\n    found = None\nexcept ValueError as e:\n    found = str(e)\nassert found == 'async'",
    },
}
# fmt: on
CASES = {name: (program, test) for program, tests in _TESTS.items() for name, test in tests.items()}
