# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs and tests that use each other as Python lets them: the last line of each test is an assert."""

from __future__ import annotations

_POINT = """
class Point:
    ORIGIN = (0, 0)
    made = 0
    def __init__(self, x, y=0): self.x, self.y = x, y; type(self).made += 1
    def __add__(self, o): return Point(self.x + o.x, self.y + o.y)
    def __radd__(self, o): return self if o == 0 else NotImplemented
    def __iadd__(self, o): self.x += o.x; self.y += o.y; return self
    def __mul__(self, k): return Point(self.x * k, self.y * k)
    __rmul__ = __mul__
    def __neg__(self): return Point(-self.x, -self.y)
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
    def __reversed__(self): return iter([self.y, self.x])
    def __call__(self, t): return self.x + t * self.y
    @property
    def norm(self): return abs(self)
    @norm.setter
    def norm(self, n): self.x, self.y = n, 0
    @classmethod
    def of(cls, pair): return cls(*pair)
    @staticmethod
    def zero(): return Point(0, 0)
class Point3(Point):
    def __init__(self, x, y, z): super().__init__(x, y); self.z = z
"""
_ERRORS = """
class Bad(ValueError):
    def __init__(self, code, why='bad'): super().__init__(why); self.code = code
class Worse(Bad): pass
class Odd(Exception):
    def __str__(self): return 'odd: ' + repr(self.args)
def bad(code): raise Bad(code)
def worse(code): raise Worse(code, 'worse')
def odd(*a): raise Odd(*a)
def key(): return {}['a']
def chain():
    try: key()
    except KeyError as e: raise Bad(1) from e
def index(): return [][3]
def decode(): return b'\\xff'.decode()
def system(): raise OSError(2, 'gone', 'file')
def leave(code): raise SystemExit(code)
def group(): raise ExceptionGroup('g', [ValueError(1), KeyError(2)])
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
def total(head):
    s = 0
    while head is not None: s += head.val; head = head.next
    return s
def prepend(head, val): return Node(val, head)
def depth(tree): return 0 if tree is None else 1 + max(depth(tree.left), depth(tree.right))
def build(values):
    head = None
    for v in reversed(values): head = Node(v, head)
    return head
"""
_HIGHER = """
import functools
def apply(f, *xs, **ks): return f(*xs, **ks)
def compose(*fs): return lambda x: functools.reduce(lambda v, f: f(v), fs, x)
def my_map(f, xs): return [f(x) for x in xs]
def my_filter(f, xs): return list(filter(f, xs))
def my_sort(xs, key=None): return sorted(xs, key=key)
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
def counter():
    n = 0
    def up(by=1):
        nonlocal n
        n += by
        return n
    return up
def fold(f, xs, start): return functools.reduce(f, xs, start)
def timesx(n): return lambda x: n * x
def use(x): return x
def lines(file): return [line.rstrip() for line in file]
def head(file): return file.readline().strip()
def write(file, text): file.write(text); return file.tell()
def area(shape): return shape.width * shape.height
def describe(obj): return f'{obj.name}: {len(obj)}'
def rename(obj, name): obj.name = name; return obj
def hello(animal): return animal.speak() + '!'
def fill(obj): obj['k'] = 3; return obj['k'] + len(obj)
"""
_ITERATORS = """
def count(n=0):
    while True: yield n; n += 1
def squares(n):
    for i in range(n): yield i * i
def fails_late():
    yield 1
    raise ValueError('late')
def echo():
    got = None
    while True: got = yield got
def pairs(xs): return zip(xs, xs[1:])
class Countdown:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        if self.n == 0: raise StopIteration
        self.n -= 1
        return self.n + 1
class Bag:
    def __init__(self, *items): self.items = items
    def __iter__(self): return iter(self.items)
    def __len__(self): return len(self.items)
class Old:
    def __getitem__(self, i):
        if i > 2: raise IndexError(i)
        return i * 10
def perms(xs):
    for i in range(len(xs)):
        xs[0], xs[i] = xs[i], xs[0]
        yield xs
"""
_ENUMS = """
import enum, dataclasses, functools, collections, abc
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    @property
    def short(self): return self.name[0]
class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2
def favourite(): return Color.BLUE
def is_red(c): return c is Color.RED
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
LIMIT = 10
NAMES = ['a', 'b']
"""
_ASYNC = """
import asyncio
async def double(x):
    await asyncio.sleep(0)
    return 2 * x
async def fetch(get): return await get() + 1
async def broken(): raise ValueError('async')
class Service:
    async def ask(self, x): return await double(x)
"""

CASES = {
    "attributes": (_POINT, "p = Point(1, 2)\np.x = 5\nassert (p.x, p.y) == (5, 2)"),
    "class_constant": (_POINT, "assert Point.ORIGIN == (0, 0)"),
    "class_variable_that_counts": (_POINT, "Point(1)\nPoint(2)\nassert Point.made == 2"),
    "class_method": (_POINT, "assert Point.of((3, 4)).y == 4"),
    "static_method": (_POINT, "assert Point.zero().x == 0"),
    "static_method_of_an_instance": (_POINT, "assert Point(1, 1).zero().x == 0"),
    "property": (_POINT, "assert Point(3, 4).norm == 5.0"),
    "property_setter": (_POINT, "p = Point(3, 4)\np.norm = 7\nassert (p.x, p.y) == (7, 0)"),
    "addition": (_POINT, "assert (Point(1, 2) + Point(3, 4)).y == 6"),
    "sum_of_objects": (_POINT, "assert sum([Point(1, 2), Point(3, 4)]).x == 4"),
    "in_place_addition": (_POINT, "p = q = Point(1, 2)\np += Point(1, 1)\nassert p is q and q.x == 2"),
    "scaling_from_both_sides": (_POINT, "assert (2 * Point(1, 2) * 3).y == 12"),
    "negation": (_POINT, "assert (-Point(1, 2)).x == -1"),
    "absolute_value": (_POINT, "assert abs(Point(3, 4)) == 5.0"),
    "product_of_objects": (_POINT, "assert Point(1, 2) @ Point(3, 4) == 11"),
    "representation": (_POINT, "assert repr(Point(1, 2)) == 'Point(1, 2)'"),
    "text": (_POINT, "assert str(Point(1, 2)) == '<1, 2>' and f'{Point(1, 2)!s}' == '<1, 2>'"),
    "format": (_POINT, "assert f'{Point(1, 2):03d}' == '001'"),
    "unpacking": (_POINT, "x, y = Point(1, 2)\nassert (x, y) == (1, 2)"),
    "iteration": (_POINT, "assert list(Point(1, 2)) == [1, 2]"),
    "items": (_POINT, "p = Point(1, 2)\np[1] = 9\nassert p[0] == 1 and p[-1] == 9"),
    "length": (_POINT, "assert len(Point(1, 2)) == 2"),
    "membership": (_POINT, "assert 2 in Point(1, 2) and 3 not in Point(1, 2)"),
    "truth": (_POINT, "assert Point(1, 2) and not Point(0, 0)"),
    "conversion_to_numbers": (_POINT, "assert float(Point(3, 4)) == 5.0 and int(Point(3, 4)) == 5"),
    "as_an_index": (_POINT, "assert 'abc'[Point(1)] == 'b'"),
    "rounding": (_POINT, "assert round(Point(1.26, 2), 1).x == 1.3"),
    "reversed": (_POINT, "assert list(reversed(Point(1, 2))) == [2, 1]"),
    "called_object": (_POINT, "assert Point(1, 2)(10) == 21"),
    "isinstance": (
        _POINT,
        "p = Point3(1, 2, 3)\nassert isinstance(p, Point) and isinstance(p, Point3) and not isinstance(Point(1), Point3)",
    ),
    "issubclass": (_POINT, "assert issubclass(Point3, Point) and not issubclass(Point, Point3)"),
    "type_is_the_class": (_POINT, "assert type(Point(1)) is Point and Point(1).__class__.__name__ == 'Point'"),
    "inherited_method": (_POINT, "assert Point3(3, 4, 5).norm == 5.0"),
    "has_attribute": (
        _POINT,
        "p = Point(1)\nassert hasattr(p, 'x') and not hasattr(p, 'z') and getattr(p, 'z', 7) == 7",
    ),
    "vars_of_an_object": (_POINT, "assert vars(Point(1, 2)) == {'x': 1, 'y': 2}"),
    "identity": (_POINT, "p = Point(1)\nassert p == p and p != Point(1) and p in [p]"),
    "object_as_a_key": (_POINT, "p = Point(1)\nd = {p: 3}\nassert d[p] == 3"),
    "copies": (_POINT, "import copy\np = Point(1, 2)\nq = copy.deepcopy(p)\nq.x = 5\nassert p.x == 1 and q.y == 2"),
    "objects_in_a_list": (
        _POINT,
        "ps = [Point(i) for i in range(5)]\nassert [p.x for p in sorted(ps, key=lambda p: -p.x)] == [4, 3, 2, 1, 0]",
    ),
    "own_exception": (
        _ERRORS,
        "try:\n    bad(7)\nexcept Bad as e:\n    found = e\nassert found.code == 7 and str(found) == 'bad'",
    ),
    "base_of_an_own_exception": (
        _ERRORS,
        "try:\n    worse(7)\nexcept Bad as e:\n    found = e\nassert isinstance(found, Worse) and isinstance(found, ValueError) and found.args == ('worse',)",
    ),
    "own_exception_not_caught_by_its_child": (
        _ERRORS,
        "try:\n    bad(7)\nexcept Worse:\n    found = 1\nexcept ValueError:\n    found = 2\nassert found == 2",
    ),
    "text_of_an_own_exception": (
        _ERRORS,
        "try:\n    odd(1, 'a')\nexcept Odd as e:\n    found = str(e)\nassert found == \"odd: (1, 'a')\"",
    ),
    "arguments_of_a_key_error": (
        _ERRORS,
        "try:\n    key()\nexcept KeyError as e:\n    found = e.args\nassert found == ('a',)",
    ),
    "cause_of_an_exception": (
        _ERRORS,
        "try:\n    chain()\nexcept Bad as e:\n    found = e.__cause__\nassert isinstance(found, KeyError)",
    ),
    "lookup_error": (
        _ERRORS,
        "try:\n    index()\nexcept LookupError as e:\n    found = type(e)\nassert found is IndexError",
    ),
    "unicode_error": (
        _ERRORS,
        "try:\n    decode()\nexcept UnicodeDecodeError as e:\n    found = e.start\nassert found == 0",
    ),
    "system_error_number": (
        _ERRORS,
        "try:\n    system()\nexcept FileNotFoundError as e:\n    found = e.errno\nassert found == 2",
    ),
    "exit_code": (_ERRORS, "try:\n    leave(3)\nexcept SystemExit as e:\n    found = e.code\nassert found == 3"),
    "exception_made_by_the_tests": (_ERRORS, "e = Bad(4)\nassert isinstance(e, ValueError)"),
    "assert_raises": (
        _ERRORS,
        "import unittest\ncase = unittest.TestCase()\nwith case.assertRaises(Bad) as caught:\n    bad(3)\nassert caught.exception.code == 3",
    ),
    "suppressed": (
        _ERRORS,
        "import contextlib\ndone = []\nwith contextlib.suppress(Bad):\n    bad(3)\n    done.append(1)\nassert done == []",
    ),
    "stack": (_STACK, "s = Stack()\ns.push(1).push(2)\nassert s.pop() == 2 and len(s) == 1"),
    "empty_stack_is_false": (_STACK, "s = Stack()\nassert not s"),
    "empty_stack_raises": (
        _STACK,
        "try:\n    Stack().pop()\n    found = None\nexcept IndexError as e:\n    found = str(e)\nassert found == 'pop from an empty stack'",
    ),
    "with_block": (_STACK, "with Stack() as s:\n    inside = s.open\nassert inside and not s.open"),
    "with_block_that_swallows": (_STACK, "with Stack() as s:\n    1 / 0\nassert s.kind == 'ZeroDivisionError'"),
    "bound_method": (_STACK, "s = Stack()\npush = s.push\nfor i in range(3): push(i)\nassert s.items == [0, 1, 2]"),
    "list_of_the_program": (
        _NODES,
        "r = reverse(build([1, 2, 3]))\nassert (r.val, r.next.val, r.next.next.val, r.next.next.next) == (3, 2, 1, None)",
    ),
    "nodes_of_the_tests": (
        _NODES,
        "class N:\n    def __init__(self, val, next=None): self.val, self.next = val, next\nassert total(N(1, N(2, N(4)))) == 7",
    ),
    "nodes_of_the_tests_changed": (
        _NODES,
        "class N:\n    def __init__(self, val, next=None): self.val, self.next = val, next\nr = reverse(N(1, N(2)))\nassert isinstance(r, N) and (r.val, r.next.val, r.next.next) == (2, 1, None)",
    ),
    "nodes_of_both": (
        _NODES,
        "class N:\n    def __init__(self, val, next=None): self.val, self.next = val, next\nmine = N(2)\nr = prepend(mine, 1)\nassert r.val == 1 and r.next is mine",
    ),
    "tree_of_the_tests": (
        _NODES,
        "class T:\n    def __init__(self, left=None, right=None): self.left, self.right = left, right\nassert depth(T(T(), T(T()))) == 3",
    ),
    "function_given": (_HIGHER, "assert my_map(lambda x: x * 2, [1, 2]) == [2, 4]"),
    "function_with_keywords": (_HIGHER, "assert apply(lambda x, *, y: x - y, 5, y=3) == 2"),
    "builtin_given": (_HIGHER, "assert my_sort(['bb', 'a'], key=len) == ['a', 'bb']"),
    "type_given": (_HIGHER, "assert my_map(str, [1, 2]) == ['1', '2']"),
    "predicate_given": (_HIGHER, "assert my_filter(lambda x: x % 2, range(5)) == [1, 3]"),
    "operator_given": (_HIGHER, "import operator\nassert fold(operator.mul, [2, 3, 4], 1) == 24"),
    "partial_given": (_HIGHER, "import functools\nassert apply(functools.partial(pow, 2), 5) == 32"),
    "method_given": (_HIGHER, "seen = []\nmy_map(seen.append, [1, 2])\nassert seen == [1, 2]"),
    "closure_returned": (_HIGHER, "up = counter()\nup()\nassert up(5) == 6"),
    "functions_composed": (_HIGHER, "assert compose(lambda x: x + 1, timesx(3))(2) == 9"),
    "functions_of_the_program_given_back": (_HIGHER, "assert apply(my_map, str, [1]) == ['1']"),
    "decorator": (
        _HIGHER,
        "calls = []\n@memo\ndef slow(x):\n    calls.append(x)\n    return x + 1\nslow(1), slow(1)\nassert calls == [1] and slow(2) == 3",
    ),
    "error_of_the_tests_comes_back": (
        _HIGHER,
        "class Mine(Exception): pass\nerror = Mine('x')\ndef fail(): raise error\ntry:\n    apply(fail)\n    found = None\nexcept Mine as e:\n    found = e\nassert found is error",
    ),
    "error_of_the_tests_is_handled": (
        _HIGHER,
        "tries = []\ndef flaky():\n    tries.append(1)\n    if len(tries) < 3: raise ValueError('again')\n    return 'ok'\nassert retry(flaky, 5, ValueError) == 'ok'",
    ),
    "error_class_of_the_tests_given": (
        _HIGHER,
        "class Mine(Exception): pass\ntries = []\ndef flaky():\n    tries.append(1)\n    if len(tries) < 2: raise Mine\n    return 'ok'\nassert retry(flaky, 5, Mine) == 'ok'",
    ),
    "object_of_the_tests": (_HIGHER, "class Box:\n    width, height = 2, 3\nassert area(Box()) == 6"),
    "object_of_the_tests_returned": (_HIGHER, "class Thing: pass\nthing = Thing()\nassert use(thing) is thing"),
    "object_of_the_tests_with_length": (
        _HIGHER,
        "class Thing:\n    name = 'n'\n    def __len__(self): return 4\nassert describe(Thing()) == 'n: 4'",
    ),
    "object_of_the_tests_changed": (
        _HIGHER,
        "class Thing: name = 'a'\nt = Thing()\nrename(t, 'b')\nassert t.name == 'b'",
    ),
    "method_of_a_test_object": (
        _HIGHER,
        "class Dog:\n    def speak(self): return 'wuff'\nassert hello(Dog()) == 'wuff!'",
    ),
    "mock": (
        _HIGHER,
        "from unittest.mock import Mock\nm = Mock(return_value=7)\nassert apply(m, 1, k=2) == 7 and m.call_args.args == (1,)",
    ),
    "test_object_with_items": (
        _HIGHER,
        "class D(object):\n    def __init__(self): self.d = {}\n    def __setitem__(self, k, v): self.d[k] = v\n    def __getitem__(self, k): return self.d[k]\n    def __len__(self): return len(self.d)\nd = D()\nassert fill(d) == 4 and d.d == {'k': 3}",
    ),
    "file_in_memory": (
        _HIGHER,
        "import io\nassert lines(io.StringIO('a\\nb\\n')) == ['a', 'b'] and head(io.StringIO('x\\ny')) == 'x'",
    ),
    "file_in_memory_written": (
        _HIGHER,
        "import io\nf = io.StringIO()\nassert write(f, 'abc') == 3 and f.getvalue() == 'abc'",
    ),
    "endless_generator": (
        _ITERATORS,
        "import itertools\nassert list(itertools.islice(count(), 100)) == list(range(100))",
    ),
    "next_of_a_generator": (
        _ITERATORS,
        "g = squares(3)\nassert [next(g), next(g), next(g), next(g, None)] == [0, 1, 4, None]",
    ),
    "generator_in_a_loop": (
        _ITERATORS,
        "found = []\nfor x in count():\n    if x > 300: break\n    found.append(x)\nassert found == list(range(301))",
    ),
    "generator_that_fails_late": (
        _ITERATORS,
        "g = fails_late()\nfirst = next(g)\ntry:\n    next(g)\n    found = None\nexcept ValueError as e:\n    found = str(e)\nassert (first, found) == (1, 'late')",
    ),
    "generator_that_is_sent_values": (_ITERATORS, "g = echo()\nnext(g)\nassert g.send(3) == 3"),
    "zip_returned": (_ITERATORS, "assert dict(pairs([1, 2, 3])) == {1: 2, 2: 3}"),
    "iterator_class": (_ITERATORS, "c = Countdown(3)\nnext(c)\nassert c.n == 2 and list(c) == [2, 1]"),
    "iterable_class": (_ITERATORS, "b = Bag(3, 1, 2)\nassert sorted(b) == [1, 2, 3] and max(b) == 3 and len(b) == 3"),
    "membership_by_iteration": (_ITERATORS, "assert 3 in Bag(3, 1) and 4 not in Bag(3, 1)"),
    "iteration_by_items": (_ITERATORS, "assert list(Old()) == [0, 10, 20]"),
    "same_list_yielded": (_ITERATORS, "assert list(perms([1, 2]))[0] == [1, 2]"),
    "generator_given": (_HIGHER, "assert my_map(str, (x for x in range(3))) == ['0', '1', '2']"),
    "endless_generator_given": (
        _HIGHER + "import itertools\ndef take(n, it): return list(itertools.islice(it, n))\n",
        "import itertools\nassert take(3, itertools.count(5)) == [5, 6, 7]",
    ),
    "enum_member": (_ENUMS, "assert Color.RED.value == 1 and Color.RED.name == 'RED' and Color.RED.short == 'R'"),
    "enum_member_returned": (_ENUMS, "assert favourite() is Color.BLUE and favourite() == Color.BLUE"),
    "enum_member_given": (_ENUMS, "assert is_red(Color.RED) and not is_red(Color.BLUE)"),
    "enum_by_value_and_name": (_ENUMS, "assert Color(2) is Color.BLUE and Color['RED'] is Color.RED"),
    "enum_members": (_ENUMS, "assert [c.name for c in Color] == ['RED', 'BLUE'] and len(Color) == 2"),
    "integer_enum": (_ENUMS, "assert Level.HIGH == 2 and Level.LOW < Level.HIGH"),
    "data_class": (
        _ENUMS,
        "i = Item('a', tags=['t'])\nassert (i.name, i.price, i.tags, i.total(2)) == ('a', 1.5, ['t'], 3.0)",
    ),
    "representation_of_a_data_class": (_ENUMS, "assert repr(Item('a')) == \"Item(name='a', price=1.5, tags=[])\""),
    "objects_given_in_a_list": (_ENUMS, "a, b = Item('a', 3.0), Item('b', 2.0)\nassert cheapest([a, b]) is b"),
    "cached_function": (_ENUMS, "fib(30)\nassert fib(20) == 6765 and fib.cache_info().currsize == 31"),
    "documentation": (_ENUMS, "assert documented.__doc__ == 'Doubles.' and documented.__name__ == 'documented'"),
    "attribute_of_a_function": (_ENUMS, "counted(1)\ncounted(2)\nassert counted.calls == 2"),
    "named_tuple": (_ENUMS, "p = pair(1, 2)\nassert p == (1, 2) and p[0] == 1"),
    "abstract_class": (_ENUMS, "s = Square(3)\nassert s.twice() == 18 and isinstance(s, Shape)"),
    "abstract_class_not_made": (
        _ENUMS,
        "try:\n    Shape()\n    found = None\nexcept TypeError as e:\n    found = 'abstract' in str(e)\nassert found",
    ),
    "abstract_class_derived_in_the_tests": (
        _ENUMS,
        "class Disc(Shape):\n    def __init__(self, r): self.r = r\n    def area(self): return 3 * self.r\nd = Disc(2)\nassert d.twice() == 12 and isinstance(d, Shape) and d.area() == 6",
    ),
    "class_derived_in_the_tests": (
        _POINT,
        "class Named(Point):\n    def __init__(self, name, x):\n        super().__init__(x, 0)\n        self.name = name\n    def hi(self): return self.name + str(self.x)\nn = Named('a', 3)\nassert n.hi() == 'a3' and n.norm == 3.0",
    ),
    "constants": (_ENUMS, "assert LIMIT == 10 and NAMES == ['a', 'b']"),
    "coroutine": (_ASYNC, "import asyncio\nassert asyncio.run(double(3)) == 6"),
    "coroutines_gathered": (
        _ASYNC,
        "import asyncio\nasync def run(): return await asyncio.gather(double(1), double(2))\nassert asyncio.run(run()) == [2, 4]",
    ),
    "coroutine_of_a_method": (_ASYNC, "import asyncio\nassert asyncio.run(Service().ask(4)) == 8"),
    "coroutine_of_the_tests": (
        _ASYNC,
        "import asyncio\nasync def get(): return 41\nassert asyncio.run(fetch(get)) == 42",
    ),
    "coroutine_that_fails": (
        _ASYNC,
        "import asyncio\ntry:\n    asyncio.run(broken())\n    found = None\nexcept ValueError as e:\n    found = str(e)\nassert found == 'async'",
    ),
    "recursion_through_the_tests": (
        _HIGHER,
        "def fact(n): return 1 if n == 0 else n * apply(fact, n - 1)\nassert fact(20) == 2432902008176640000",
    ),
    "threads_in_the_tests": (
        _HIGHER,
        "import threading\nfound = []\nts = [threading.Thread(target=lambda i=i: found.append(use(i))) for i in range(8)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nassert sorted(found) == list(range(8))",
    ),
}
