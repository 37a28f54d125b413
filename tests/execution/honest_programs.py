# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs that solve the task in ways that a sandbox may break by accident.

Function style: ``add(a, b) == a + b``. Whole programs: read two lines ``a b`` each, print the sum of the first
and, for the second, ``7 7``.
"""

ADD = "\ndef add(a, b): return a + b\n"

FUNCTION_STYLE = {
    "plain": ADD,
    "method_of_solution": "class Solution:\n    def add(self, a, b): return a + b\nadd = Solution().add",
    "partial": "import functools, operator\nadd = functools.partial(operator.add)",
    "byte_order_mark": "\ufeff" + ADD,
    "windows_lines": ADD.replace("\n", "\r\n"),
    "encoding_line": "# -*- coding: utf-8 -*-" + ADD,
    "prints_much": "def add(a, b):\n    print('x' * 100000)\n    return a + b",
    "main_guard": ADD + "if __name__ == '__main__':\n    raise SystemExit(1)",
    "returns_int_enum": "import enum\nclass N(enum.IntEnum):\n    A = 3\n    B = 0\n    C = 30\ndef add(a, b): return N(a + b)",
    "returns_float": "def add(a, b): return float(a + b)",
    "returns_fraction": "from fractions import Fraction\ndef add(a, b): return Fraction(a + b)",
    "returns_decimal": "from decimal import Decimal\ndef add(a, b): return Decimal(a) + Decimal(b)",
    "returns_complex": "def add(a, b): return complex(a + b)",
    "pickles_own_class": "import pickle\nclass P:\n    def __init__(s, x): s.x = x\ndef add(a, b): return pickle.loads(pickle.dumps(P(a + b))).x",
    "copies_own_class": "import copy\nclass P: pass\ndef add(a, b):\n    p = P(); p.v = [a, b]\n    return sum(copy.deepcopy(p).v)",
    "inspects_its_source": "import inspect\ndef add(a, b):\n    assert 'return a + b' in inspect.getsource(add)\n    return a + b",
    "temporary_folder": "import tempfile, pathlib\ndef add(a, b):\n    with tempfile.TemporaryDirectory() as d:\n        p = pathlib.Path(d) / 'x'; p.write_text(str(a + b))\n        return int(p.read_text())",
    "threads": "import threading\ndef add(a, b):\n    r = []\n    t = threading.Thread(target=lambda: r.append(a + b))\n    t.start(); t.join()\n    return r[0]",
    "big_thread_stack": "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(128 << 20)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef add(a, b):\n    r = []\n    t = threading.Thread(target=lambda: r.append(f(20000)))\n    t.start(); t.join()\n    return a + b if r else None",
    "deep_recursion": "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef add(a, b): return a + b + f(30000) - 30000",
    "exec_and_eval": "exec('def add(a, b): return eval(\"a + b\")')",
    "closes_and_replaces_stdout": "import sys, io\nsys.stdout = io.StringIO()" + ADD,
    "told_that_it_is_judged": "import os\nassert os.environ['ONLINE_JUDGE']" + ADD,
    "memory_within_the_limit": "x = bytearray(100 << 20)" + ADD,
}

_SOLVE = "a, b = map(int, input().split())\nprint(a + b)\nc, d = map(int, input().split())\nprint(c + d, c + d)\n"

STDIO = {
    "input": _SOLVE,
    "os_read": "import os\nd = os.read(0, 1 << 16).split()\nos.write(1, b'%d\\n7 7\\n' % (int(d[0]) + int(d[1])))",
    "stdin_replaced": "import io, os, sys\nsys.stdin = io.BytesIO(os.read(0, 9999))\nd = sys.stdin.read().split()\nprint(int(d[0]) + int(d[1])); print('7 7')",
    "main_guard": "def main():\n    " + _SOLVE.replace("\n", "\n    ") + "\nif __name__ == '__main__':\n    main()",
    "no_newline_at_end": "d = open(0).read().split()\nprint(int(d[0]) + int(d[1])); print('7 7', end='')",
    "blank_lines_at_end": _SOLVE + "print()\nprint()",
    "windows_output": "d = open(0).read().split()\nprint(int(d[0]) + int(d[1]), end='\\r\\n'); print('7 7', end='\\r\\n')",
    "redirects": "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    print('hidden')\n" + _SOLVE,
    "echoes_much_to_stderr": "import sys\nsys.stderr.write('x' * 300000)\n" + _SOLVE,
}  # fmt: skip
