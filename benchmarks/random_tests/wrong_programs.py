"""Random wrong programs: each is sure to be wrong in one of the calls that the test makes, in one of many ways.

A wrong program is the reference with a fault: on one call, from a call on, or in all. The fault is another value, an
exception, an end of the process, or damage to whatever can be reached. Others bind the name to something else.
"""

from __future__ import annotations

import random

from random_tests.problems import Problem

# Expressions of ``r``, the right value, which differ from it.
VALUES = [
    "None", "object()", "[r]", "(r,)", "{'r': r}", "lambda *a: r", "type(r)", "float('nan')", "float('inf')",
    "iter([r])", "Liar()", "Liar", "[Liar()]", "...", "NotImplemented", "10 ** 4000", "'x' * 10 ** 6", "deep(60)",
    "deep(5000)", "range(10 ** 9)", "b'x'", "ValueError(r)", "__import__('sys')", "print", "open", "f_or_box()",
    "(v for v in [r])", "itself()", "'\\ud800'", "{1: {2: 3}}", "set()", "frozenset([1])", "-10 ** 9", "globals()",
    "memoryview(b'x')", "wait()", "{Liar(): r}", "__import__('fractions').Fraction(1, 3)",
    "__import__('decimal').Decimal('NaN')", "__import__('datetime').date.max",
    "__import__('collections').Counter('ab')", "complex(1, 2)", "1e308", "-0.25", "Spy()", "property()",
    "type('', (), {})()", "exit", "__builtins__", "[None] * 10 ** 5", "{i: i for i in range(10 ** 4)}",
    "__import__('threading').Lock()", "open('made', 'w')", "super", "Raising()", "[Raising()]", "Exiting()",
]  # fmt: skip
RAISES = [
    "ValueError", "ValueError('wrong')", "ValueError()", "KeyError('a')", "AssertionError",
    "AssertionError('x' * 10 ** 6)", "NameError('f', name='f')", "ImportError('no', name='math')", "MemoryError",
    "RecursionError", "StopIteration", "StopIteration(1)", "GeneratorExit", "KeyboardInterrupt", "SystemExit(0)",
    "SystemExit(41)", "SyntaxError('x')", "OSError(28, 'No space left on device', 'a')", "TimeoutError", "Odd",
    "Odd(1)", "ExceptionGroup('g', [ValueError(1)])", "BaseExceptionGroup('g', [KeyboardInterrupt()])",
    "UnicodeDecodeError('a', b'b', 0, 1, 'c')", "Exception(*range(10 ** 4))", "Exception(object())",
    "Exception(Liar())", "__import__('unittest').SkipTest", "__import__('asyncio').CancelledError",
    "type('FaultOfTests', (Exception,), {})", "type('\\ud800', (Exception,), {})", "Warning", "NotImplementedError",
]  # fmt: skip
ENDS = [
    "os._exit(0)", "os._exit(1)", "os._exit(41)", "os._exit(45)", "sys.exit()", "sys.exit(0)", "os.abort()",
    "os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)",
    "os.kill(os.getpid(), signal.SIGXCPU)", "os.kill(os.getpid(), signal.SIGALRM)",
    "signal.raise_signal(signal.SIGSEGV)", "signal.raise_signal(signal.SIGUSR1)", "os.closerange(0, 64)",
    "os.close(4)", "os.dup2(1, 4)", "sys.setrecursionlimit(10 ** 8); over = lambda: over(); over()",
    "threading.Thread(target=os._exit, args=(0,)).start(); time.sleep(0.2)", "bytearray(1 << 40)",
    "atexit.register(os._exit, 0)",
]  # fmt: skip
# What a program may do before it starts or in a call; none of it makes the answer right.
DAMAGE = [
    "import builtins; builtins.len = lambda *a: 0", "import builtins; builtins.AssertionError = ValueError",
    "import builtins; builtins.isinstance = lambda *a: True", "import builtins; builtins.print = None",
    "sys.modules.clear()", "sys.modules['math'] = None", "import json; json.loads = json.dumps = None",
    "import unittest; unittest.TestCase = object", "sys.path.clear()", "sys.stdout.close()",
    "sys.stdin = sys.stdout = sys.stderr = None", "sys.setrecursionlimit(60)", "sys.settrace(lambda *a: None)",
    "gc.disable()", "gc.collect()", "os.environ.clear()", "os.chdir('/')", "os.umask(0o777)",
    "write('notes.txt', 'x')", "made('notes.txt')", "made('out')", "made('out/a')", "write('out', 'x')",
    "made('case0.txt')", "made('in.txt')", "made('out.txt')", "made('in0')", "made('d0')", "write('d0', 'x')",
    "write('math.py', 'raise ImportError')", "write('json.py', 'import os; os._exit(41)')", "link('notes.txt')",
    "link('case0.txt')", "link('out.txt')", "link('in.txt')", "link('out')", "pipe('case0.txt.x')", "forbid('.')",
    "forbid('notes.txt')", "remove()", "[write(f'n{i}', '') for i in range(300)]", "write('big', 'x' * (1 << 22))",
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)", "signal.setitimer(signal.ITIMER_REAL, 0.05)",
    "threading.Thread(target=time.sleep, args=(60,)).start()", "threading.Thread(target=spill, daemon=True).start()",
    "spill()", "[os.write(d, b'\\xff\\n[]\\n') for d in opened()]", "[os.ftruncate(d, 1 << 20) for d in (1, 2)]",
    "print('x' * 10 ** 5)", "[os.lseek(d, 99, 0) for d in (0, 1, 2)]", "os.close(0)", "os.closerange(5, 64)",
    "os.dup2(4, 1)", "atexit.register(spill)", "limit('NOFILE', 5)", "limit('FSIZE', 0)", "limit('STACK', 1 << 16)",
    "kept.append(bytearray(1 << 27))", "busy(0.02)", "kept.append(Ending())", "tamper('plain')", "tamper('link')",
    "tamper('channel')", "globals().pop('_right', None)", "globals()['__name__'] = 'f'",
    "import random; random.seed(0)", "import warnings; warnings.simplefilter('error')", 'tell(b\'["end", null]\')',
    'tell(b\'["value", 1, []]\')', 'tell(b\'["names", {}, []]\')', "tell(b'{}')", "tell(b'null')",
    'tell(b\'["error", {}, []]\')', 'tell(b\'["do", "__call__", 0, [], {}, []]\')', "tell(b'[' * 10 ** 5)",
]  # fmt: skip
HELPERS = """
import atexit, copy, gc, os, signal, sys, threading, time
kept, counts = [], [0]
class Liar:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __sub__(self, other): return 0
    __rsub__ = __abs__ = lambda self, *a: 0
    def __hash__(self): return hash(counts[0])
class Spy(Liar):
    def __getattr__(self, name): return lambda *a, **k: True
    def __iter__(self): return iter([self])
    def __sub__(self, other): return Spy()
    def __bool__(self): return True
class Raising:
    def __getattribute__(self, name): raise ValueError('no')
    __eq__ = __hash__ = __repr__ = __iter__ = __bool__ = lambda self, *a: 1 // 0
class Exiting:
    def __getattribute__(self, name): os._exit(0)
    __eq__ = __hash__ = __repr__ = __iter__ = __bool__ = __reduce_ex__ = lambda self, *a: os._exit(0)
class Ending:
    def __del__(self): os._exit(0)
class Odd(Exception):
    args = 5
    def __str__(self): raise KeyError
    __repr__ = __str__
def deep(n):
    v = []
    for _ in range(n): v = [v]
    return v
def itself():
    v = []
    v.append(v)
    return v
async def wait(): return 1
def f_or_box(): return globals().get('f') or globals().get('Box')
def write(path, text):
    with open(path, 'w') as h: h.write(text)
def made(path): os.makedirs(path, exist_ok=True)
def link(path): os.symlink(path, path)
def pipe(path): os.mkfifo(path)
def forbid(path): os.chmod(path, 0)
def remove():
    for name in os.listdir('.'): os.remove(name)
    os.rmdir(os.getcwd())
def opened(): return [d for d in range(16) if os.fstat(d)]
def spill():
    for d in range(64):
        try: os.write(d, b'x' * 99)
        except OSError: pass
def tell(line): os.write(4, line + b'\\n')
def limit(name, n):
    import resource
    resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (n, n))
def busy(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
def tamper(name):
    module = sys.modules['lit_rl.execution.wire.' + name]
    for key, value in list(vars(module).items()):
        if callable(value) and not key.startswith('_'): setattr(module, key, lambda *a, **k: None)
def tried(what):
    try: exec(what, globals())
    except Exception: pass
"""
# Bound in place of the function; a right answer is out of the question.
FUNCTIONS = [
    "f = None", "f = 3", "f = 'f'", "import json as f", "import os as f", "import sys as f", "f = type", "f = print",
    "f = exit", "f = Liar", "f = Liar()", "f = Spy()", "f = property()", "class f: pass", "f = lambda: 0", "pass",
    "f = Raising()", "f = Exiting()", "f = f_missing", "async def f(*a): return 1", "def f(*a):\n    yield 1",
    "f = staticmethod(f_or_box)", "raise SystemExit(0)", "def f(x", "os._exit(0)", "f = [].append",
    "f = NotImplemented", "f = Exception", "f = AssertionError", "f = StopIteration", "f = threading.Lock()",
    "def f(*a): return f", "f = os.abort", "f = super", "f = __builtins__", "from json import loads as f",
    "def f(a, b, c, d, e): return 1", "def f(): return 1", "f = __import__('functools').partial(print, 1)", "f = int",
    "f = iter",
]  # fmt: skip
CLASSES = [
    "def Box(*a): pass", "Box = 3", "Box = None", "import json as Box", "Box = type", "class Box: pass", "Box = Liar",
    "Box = Spy", "class Box:\n    def __init__(self, *a): raise ValueError",
    "class Box:\n    def __init__(self, *a): os._exit(0)", "pass", "Box = Raising",
    "class Box:\n    add = total = last = named = 5\n    def __init__(self, *a): pass", "Box = Exiting", "Box = print",
    "Box = list", "class Box(Spy):\n    def __init__(self, *a): pass",
    "class Box:\n    def __new__(cls, *a): return 7", "def Box(*a): return Liar()",
    "class M(type):\n    def __call__(cls, *a): return Spy()\nclass Box(metaclass=M): pass", "Box = lambda: 0",
    "import sys as Box",
    "class Box(Spy):\n    def __init__(self, *a): pass\n    def __init_subclass__(cls): os._exit(0)",
    "Box = property()", "os._exit(0)", "class Box(Exception):\n    pass", "class Box(int):\n    pass",
    "class Box:\n    def __getattr__(self, name): return lambda *a: self",
]  # fmt: skip
# Of ``a``, the arguments: what a program may do to them in place of the right thing.
IN_PLACE = [
    "pass", "a[0].clear()", "a[0].append(object())", "a[0].append('x')", "a[0].append(None)", "a[0].append(a[0])",
    "del a[0][:2]", "a[0][:] = 'ab'", "a[0][:] = [[]]", "a[0].extend(range(10 ** 5))", "a[0][:] = [Liar()] * 9",
    "a[0][0] = float('nan')", "a[0][:] = deep(5000)", "a[0].insert(0, 10 ** 4000)", "a[0][:] = [None] * 9",
    "a[0][:] = [lambda: 0]", "a[0].insert(0, Raising())",
]  # fmt: skip
FILES = [
    "pass", "os.remove(a[0])", "made(a[1])", "link(a[1])", "write(a[1], 'x')", "write(a[1], '')",
    "write(a[1], '\\0' * 10 ** 6)", "open(a[1], 'wb').write(bytes([255, 254]))", "os.symlink('/etc/passwd', a[1])",
    "os.symlink('/dev/zero', a[1])", "remove()", "write(a[1], 'x'); os.chmod(a[1], 0)", "os.rename(a[0], a[1])",
    "os.link(a[0], a[1])", "made(a[1] + '/b')", "os.remove(a[0]); made(a[0])", "open(a[1], 'w').truncate(1 << 21)",
    "write(a[1] + 'c', 'x')", "write(a[0], 'y')", "os.symlink('/dev/full', a[1])",
]  # fmt: skip


def wrong_program(rng: random.Random, problem: Problem) -> str:
    """A program that fails the problem's test, whatever else it does."""
    damage = rng.choice(DAMAGE)
    start = f"tried({damage!r})\n" if rng.random() < 0.3 else ""
    names = CLASSES if problem.kind == "class" else FUNCTIONS
    if rng.random() < 0.15:
        return f"{HELPERS}{start}{rng.choice(names)}\n"
    in_call = f"tried({damage!r})" if rng.random() < 0.3 else "pass"
    fault, condition = _fault(rng, problem), _condition(rng, problem)
    if problem.kind == "class":
        return HELPERS + start + _wrong_class(problem, in_call, condition, fault)
    right = problem.right.replace("def f(", "def _right(", 1)
    return f"""{HELPERS}{start}{right}
def f(*a):
    counts[0] += 1
    {in_call}
    if {condition}:
        {fault}
    return _right(*a)
"""


def _wrong_class(problem: Problem, in_call: str, condition: str, fault: str) -> str:
    """A class derived from the reference, each of whose methods has the fault."""
    right = problem.right.replace("class Box:", "class _Right:", 1)
    methods = "".join(
        f"""    def {name}(self, *a):
        counts[0] += 1
        {in_call}
        _right = super().{name}
        if {condition}:
            {fault}
        return _right(*a)
"""
        for name in ("add", "total", "last", "named")
    )
    return f"{right}class Box(_Right):\n{methods}"


def _condition(rng: random.Random, problem: Problem) -> str:
    """A condition that holds in at least one of the calls that the test makes."""
    number = rng.randrange(len(problem.cases))
    if rng.random() < 0.4:
        return "True"
    if problem.kind in ("class", "file") or rng.random() < 0.5:
        return f"counts[0] > {number}"
    return f"a == {problem.cases[number][0]!r}"


def _fault(rng: random.Random, problem: Problem) -> str:
    """One line that returns a wrong value, raises, ends the process, or leaves the wrong thing behind."""
    kind = rng.random()
    if kind < 0.25:
        return f"raise {rng.choice(RAISES)}"
    if kind < 0.4:
        return f"{rng.choice(ENDS)}; return None"
    if problem.kind == "in_place":
        return f"{rng.choice(IN_PLACE)}; return None"
    if problem.kind == "file":
        return f"{rng.choice(FILES)}; return None"
    return f"r = _right(*copy.deepcopy(a)); return {rng.choice(VALUES)}"
