# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs and tests that use them as Python lets them: the last line of each test is an assert."""

_POINT = """
class Point:
    def __init__(self, x, y=0): self.x, self.y = x, y
    def __add__(self, o): return Point(self.x + o.x, self.y + o.y)
    def __radd__(self, o): return self if o == 0 else NotImplemented
    def __iadd__(self, o): self.x += o.x; self.y += o.y; return self
    def __mul__(self, k): return Point(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** 0.5
    def __matmul__(self, o): return self.x * o.x + self.y * o.y
    def __repr__(self): return f'Point({self.x}, {self.y})'
    def __str__(self): return f'<{self.x}, {self.y}>'
    def __iter__(self): yield self.x; yield self.y
    def __getitem__(self, i): return (self.x, self.y)[i]
    def __setitem__(self, i, v): setattr(self, 'xy'[i], v)
    def __len__(self): return 2
    def __contains__(self, v): return v in (self.x, self.y)
    def __bool__(self): return bool(self.x or self.y)
    def __float__(self): return abs(self)
    def __int__(self): return int(abs(self))
    def __index__(self): return self.x
    def __round__(self, n=None): return Point(round(self.x, n), round(self.y, n))
    def __format__(self, spec): return format(self.x, spec)
    def __call__(self, t): return self.x + t * self.y
    @property
    def norm(self): return abs(self)
    @norm.setter
    def norm(self, n): self.x, self.y = n, 0
    @classmethod
    def of(cls, pair): return cls(*pair)
class Point3(Point):
    def __init__(self, x, y, z): super().__init__(x, y); self.z = z
"""
_STACK = """
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x); return self
    def pop(self):
        if not self.items: raise IndexError('pop from an empty stack')
        return self.items.pop()
    def __len__(self): return len(self.items)
    def __enter__(self): self.open = True; return self
    def __exit__(self, kind, value, trace): self.open = False; self.kind = kind and kind.__name__; return kind is ZeroDivisionError
"""
_NODES = """
class Node:
    def __init__(self, val=0, next=None): self.val, self.next = val, next
def reverse(head):
    before = None
    while head: head.next, before, head = before, head, head.next
    return before
def prepend(head, val): return Node(val, head)
def depth(tree): return 0 if tree is None else 1 + max(depth(tree.left), depth(tree.right))
"""
_ENUMS = """
import enum, dataclasses, functools, collections, abc
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    @property
    def short(self): return self.name[0]
def favourite(): return Color.BLUE
@dataclasses.dataclass
class Item:
    name: str
    price: float = 1.5
    tags: list = dataclasses.field(default_factory=list)
    def total(self, n): return n * self.price
def cheapest(items): return min(items, key=lambda i: i.price)
@functools.lru_cache(None)
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def documented(x):
    '''Doubles.'''
    return 2 * x
def counted(x):
    counted.calls += 1
    return x
counted.calls = 0
Pair = collections.namedtuple('Pair', 'a b')
def pair(a, b): return Pair(a, b)
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
    def twice(self): return 2 * self.area()
class Square(Shape):
    def __init__(self, s): self.s = s
    def area(self): return self.s ** 2
"""
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

_TESTS = {
    _POINT: {
        "class_method": "assert Point.of((3, 4)).y == 4",
        "property_setter": "p = Point(3, 4)\np.norm = 7\nassert (p.x, p.y) == (7, 0)",
        "sum_of_objects": "assert sum([Point(1, 2), Point(3, 4)]).x == 4",
        "in_place_addition": "p = q = Point(1, 2)\np += Point(1, 1)\nassert p is q and q.x == 2",
        "scaling_from_both_sides": "assert (2 * Point(1, 2) * 3).y == 12",
        "product_of_objects": "assert Point(1, 2) @ Point(3, 4) == 11",
        "representation": "assert repr(Point(1, 2)) == 'Point(1, 2)'",
        "text": "assert str(Point(1, 2)) == '<1, 2>' and f'{Point(1, 2)!s}' == '<1, 2>'",
        "format": "assert f'{Point(1, 2):03d}' == '001'",
        "unpacking": "x, y = Point(1, 2)\nassert (x, y) == (1, 2)",
        "items": "p = Point(1, 2)\np[1] = 9\nassert p[0] == 1 and p[-1] == 9",
        "membership": "assert 2 in Point(1, 2) and 3 not in Point(1, 2)",
        "truth": "assert Point(1, 2) and not Point(0, 0)",
        "conversion_to_numbers": "assert float(Point(3, 4)) == 5.0 and int(Point(3, 4)) == 5",
        "as_an_index": "assert 'abc'[Point(1)] == 'b'",
        "rounding": "assert round(Point(1.26, 2), 1).x == 1.3",
        "called_object": "assert Point(1, 2)(10) == 21",
        "isinstance": "p = Point3(1, 2, 3)\nassert isinstance(p, Point) and isinstance(p, Point3) and not isinstance(Point(1), Point3)",
        "has_attribute": "p = Point(1)\nassert hasattr(p, 'x') and not hasattr(p, 'z') and getattr(p, 'z', 7) == 7",
        "vars_of_an_object": "assert vars(Point(1, 2)) == {'x': 1, 'y': 2}",
        "identity": "p = Point(1)\nassert p == p and p != Point(1) and p in [p]",
        "object_as_a_key": "p = Point(1)\nd = {p: 3}\nassert d[p] == 3",
        "copies": "import copy\np = Point(1, 2)\nq = copy.deepcopy(p)\nq.x = 5\nassert p.x == 1 and q.y == 2",
        "objects_in_a_list": "ps = [Point(i) for i in range(5)]\nassert [p.x for p in sorted(ps, key=lambda p: -p.x)] == [4, 3, 2, 1, 0]",
        "class_derived_in_the_tests": "class Named(Point):\n    def __init__(self, name, x):\n        super().__init__(x, 0)\n        self.name = name\n    def hi(self): return self.name + str(self.x)\nn = Named('a', 3)\nassert n.hi() == 'a3' and n.norm == 3.0",
    },
    _STACK: {
        "empty_stack_raises": "try:\n    Stack().pop()\n    found = None\nexcept IndexError as e:\n    found = str(e)\nassert found == 'pop from an empty stack'",
        "with_block": "with Stack() as s:\n    inside = s.open\nassert inside and not s.open",
        "with_block_that_swallows": "with Stack() as s:\n    1 / 0\nassert s.kind == 'ZeroDivisionError'",
        "bound_method": "s = Stack()\npush = s.push\nfor i in range(3): push(i)\nassert s.items == [0, 1, 2]",
    },
    _NODES: {
        "nodes_of_the_tests_changed": "class N:\n    def __init__(self, val, next=None): self.val, self.next = val, next\nr = reverse(N(1, N(2)))\nassert isinstance(r, N) and (r.val, r.next.val, r.next.next) == (2, 1, None)",
        "nodes_of_both": "class N:\n    def __init__(self, val, next=None): self.val, self.next = val, next\nmine = N(2)\nr = prepend(mine, 1)\nassert r.val == 1 and r.next is mine",
        "tree_of_the_tests": "class T:\n    def __init__(self, left=None, right=None): self.left, self.right = left, right\nassert depth(T(T(), T(T()))) == 3",
    },
    _ENUMS: {
        "enum_member_returned": "assert favourite() is Color.BLUE and favourite() == Color.BLUE",
        "enum_members": "assert [c.name for c in Color] == ['RED', 'BLUE'] and len(Color) == 2",
        "data_class": "i = Item('a', tags=['t'])\nassert (i.name, i.price, i.tags, i.total(2)) == ('a', 1.5, ['t'], 3.0)",
        "objects_given_in_a_list": "a, b = Item('a', 3.0), Item('b', 2.0)\nassert cheapest([a, b]) is b",
        "cached_function": "fib(30)\nassert fib(20) == 6765 and fib.cache_info().currsize == 31",
        "documentation": "assert documented.__doc__ == 'Doubles.' and documented.__name__ == 'documented'",
        "attribute_of_a_function": "counted(1)\ncounted(2)\nassert counted.calls == 2",
        "named_tuple": "p = pair(1, 2)\nassert p == (1, 2) and p[0] == 1",
        "abstract_class_derived_in_the_tests": "class Disc(Shape):\n    def __init__(self, r): self.r = r\n    def area(self): return 3 * self.r\nd = Disc(2)\nassert d.twice() == 12 and isinstance(d, Shape) and d.area() == 6",
    },
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
CASES = {name: (program, test) for program, tests in _TESTS.items() for name, test in tests.items()}
