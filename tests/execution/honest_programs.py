# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs that solve the task in ways that a sandbox may break by accident.

Function style: ``add(a, b) == a + b``. Whole programs: read two lines ``a b`` each, print the sum of the first
and, for the second, ``7 7``.
"""

from __future__ import annotations

ADD = "\ndef add(a, b): return a + b\n"

# fmt: off
FUNCTION_STYLE = {
    "plain": ADD,
    "method_of_solution": "class Solution:\n    def add(self, a, b): return a + b\nadd = Solution().add",
    "partial": "import functools, operator\nadd = functools.partial(operator.add)",
    "builtin": "from operator import add",
    "byte_order_mark": "\ufeff" + ADD,
    "windows_lines": ADD.replace("\n", "\r\n"),
    "old_mac_lines": "x = 1\r" + ADD,
    "encoding_line": "# -*- coding: utf-8 -*-" + ADD,
    "future_annotations": "from __future__ import annotations\ndef add(a: Missing, b) -> Nothing: return a + b",
    "unicode_names": "def añadir(α, β): return α + β\nadd = añadir",
    "non_ascii_text": 'text = "żółć 中文 🎉"\nprint(text)' + ADD,
    "prints_much": "def add(a, b):\n    print('x' * 100000)\n    return a + b",
    "main_guard": ADD + "if __name__ == '__main__':\n    raise SystemExit(1)",
    "dataclass_with_slots": "from dataclasses import dataclass, field\n@dataclass(slots=True, order=True)\nclass P:\n    x: int = field(default=0)\ndef add(a, b): return P(a).x + b",
    "returns_int_enum": "import enum\nclass N(enum.IntEnum):\n    A = 3\n    B = 0\n    C = 30\ndef add(a, b): return N(a + b)",
    "returns_float": "def add(a, b): return float(a + b)",
    "returns_subclass": "class I(int): pass\ndef add(a, b): return I(a + b)",
    "returns_fraction": "from fractions import Fraction\ndef add(a, b): return Fraction(a + b)",
    "returns_decimal": "from decimal import Decimal\ndef add(a, b): return Decimal(a) + Decimal(b)",
    "returns_complex": "def add(a, b): return complex(a + b)",
    "pickles_own_class": "import pickle\nclass P:\n    def __init__(s, x): s.x = x\ndef add(a, b): return pickle.loads(pickle.dumps(P(a + b))).x",
    "copies_own_class": "import copy\nclass P: pass\ndef add(a, b):\n    p = P(); p.v = [a, b]\n    return sum(copy.deepcopy(p).v)",
    "inspects_its_source": "import inspect\ndef add(a, b):\n    assert 'return a + b' in inspect.getsource(add)\n    return a + b",
    "doctest": 'def add(a, b):\n    """\n    >>> add(1, 1)\n    2\n    """\n    return a + b\nimport doctest\ndoctest.testmod()',
    "logging": "import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.info('here')" + ADD,
    "temporary_file": "import tempfile\ndef add(a, b):\n    with tempfile.TemporaryFile('w+') as f:\n        f.write(str(a + b)); f.seek(0)\n        return int(f.read())",
    "temporary_folder": "import tempfile, pathlib\ndef add(a, b):\n    with tempfile.TemporaryDirectory() as d:\n        p = pathlib.Path(d) / 'x'; p.write_text(str(a + b))\n        return int(p.read_text())",
    "working_folder": "import os\nos.getcwd()\nopen('x.txt', 'w').write('1')\nos.rename('x.txt', 'y.txt')\nos.remove('y.txt')" + ADD,
    "copies_a_file": "import shutil\nopen('a', 'w').write('5')\nshutil.copy2('a', 'b')\nassert open('b').read() == '5'" + ADD,
    "sqlite": "import sqlite3\ndef add(a, b): return sqlite3.connect(':memory:').execute('select ? + ?', (a, b)).fetchone()[0]",
    "threads": "import threading\ndef add(a, b):\n    r = []\n    t = threading.Thread(target=lambda: r.append(a + b))\n    t.start(); t.join()\n    return r[0]",
    "thread_pool": "from concurrent.futures import ThreadPoolExecutor\ndef add(a, b):\n    with ThreadPoolExecutor(4) as p:\n        return sum(p.map(int, (a, b)))",
    "big_thread_stack": "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(128 << 20)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef add(a, b):\n    r = []\n    t = threading.Thread(target=lambda: r.append(f(20000)))\n    t.start(); t.join()\n    return a + b if r else None",
    "asyncio": "import asyncio\nasync def g(a, b):\n    await asyncio.sleep(0)\n    return a + b\ndef add(a, b): return asyncio.run(g(a, b))",
    "deep_recursion": "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\ndef add(a, b): return a + b + f(30000) - 30000",
    "time_zone": "import zoneinfo, datetime\nzoneinfo.ZoneInfo('Europe/Berlin')" + ADD,
    "secrets_and_hashes": "import secrets, hashlib, uuid\nsecrets.token_hex(); hashlib.sha256(b'x').hexdigest(); uuid.uuid4()" + ADD,
    "compression": "import zlib, bz2, lzma\ndef add(a, b): return int(zlib.decompress(zlib.compress(str(a + b).encode())))",
    "typing": "from typing import *\nT = TypeVar('T')\ndef add(a: int, b: Optional[int] = None) -> Union[int, None]: return a + b",
    "catches_signal": "import signal\nsignal.signal(signal.SIGALRM, lambda *a: None)\nsignal.alarm(0)" + ADD,
    "own_limit": "import resource\nresource.setrlimit(resource.RLIMIT_STACK, resource.getrlimit(resource.RLIMIT_STACK))" + ADD,
    "exec_and_eval": "exec('def add(a, b): return eval(\"a + b\")')",
    "closes_and_replaces_stdout": "import sys, io\nsys.stdout = io.StringIO()" + ADD,
    "exit_function_registered": "import atexit\natexit.register(print, 'bye')" + ADD,
    "ctypes": "import ctypes\ndef add(a, b): return ctypes.c_long(a).value + b",
    "memory_within_the_limit": "x = bytearray(100 << 20)" + ADD,
    "cpu_count": "import os\nos.cpu_count(); os.sched_getaffinity(0); os.getpid(); os.uname()" + ADD,
}
# fmt: on

_SOLVE = "a, b = map(int, input().split())\nprint(a + b)\nc, d = map(int, input().split())\nprint(c + d, c + d)\n"

# fmt: off
STDIO = {
    "input": _SOLVE,
    "read_all": "import sys\nd = list(map(int, sys.stdin.read().split()))\nprint(d[0] + d[1]); print(d[2] + d[3], 7)",
    "buffer": "import sys\nd = list(map(int, sys.stdin.buffer.read().split()))\nsys.stdout.buffer.write(f'{d[0] + d[1]}\\n7 7\\n'.encode())",
    "iterates_lines": "import sys\nr = [sum(map(int, l.split())) for l in sys.stdin]\nprint(r[0]); print(r[1], r[1])",
    "open_zero": "d = open(0).read().split()\nprint(int(d[0]) + int(d[1])); print('7 7')",
    "dev_stdin": "d = open('/dev/stdin').read().split()\nprint(int(d[0]) + int(d[1])); print('7 7')",
    "os_read": "import os\nd = os.read(0, 1 << 16).split()\nos.write(1, b'%d\\n7 7\\n' % (int(d[0]) + int(d[1])))",
    "readline_bound": "import sys\ninput = sys.stdin.readline\n" + _SOLVE,
    # The fast input and output that is pasted at the top of contest programs: replaces both streams.
    "fast_streams": "import os, sys\nfrom io import BytesIO, IOBase\nclass F(IOBase):\n    def __init__(self, f):\n"
    "        self._fd = f.fileno(); self.buffer = BytesIO(); self.writable = 'x' in f.mode or 'r' not in f.mode\n"
    "        self.write = self.buffer.write if self.writable else None\n    def read(self):\n        while True:\n"
    "            b = os.read(self._fd, max(os.fstat(self._fd).st_size, 8192))\n            if not b: break\n"
    "            p = self.buffer.tell(); self.buffer.seek(0, 2); self.buffer.write(b); self.buffer.seek(p)\n"
    "        return self.buffer.read()\n    def flush(self):\n        if self.writable:\n"
    "            os.write(self._fd, self.buffer.getvalue()); self.buffer.truncate(0), self.buffer.seek(0)\n"
    "class W(IOBase):\n    def __init__(self, f):\n        self.buffer = F(f); self.flush = self.buffer.flush\n"
    "        self.write = lambda s: self.buffer.write(s.encode('ascii'))\n        self.read = lambda: self.buffer.read().decode()\n"
    "sys.stdin, sys.stdout = W(sys.stdin), W(sys.stdout)\nd = sys.stdin.read().split()\n"
    "sys.stdout.write(str(int(d[0]) + int(d[1])) + '\\n7 7\\n')\nsys.stdout.flush()",
    "stdin_replaced": "import io, os, sys\nsys.stdin = io.BytesIO(os.read(0, 9999))\nd = sys.stdin.read().split()\nprint(int(d[0]) + int(d[1])); print('7 7')",
    "exit_zero_after": _SOLVE + "import sys\nsys.exit(0)",
    "exit_after": _SOLVE + "exit()",
    "os_exit_after_flush": "import os, sys\n" + _SOLVE + "sys.stdout.flush()\nos._exit(0)",
    "main_guard": "def main():\n    " + _SOLVE.replace("\n", "\n    ") + "\nif __name__ == '__main__':\n    main()",
    "main_in_thread": "import sys, threading\ndef main():\n    " + _SOLVE.replace("\n", "\n    ") + "\nsys.setrecursionlimit(10**7)\nthreading.stack_size(128 * 1024 * 1024)\nthreading.Thread(target=main).start()",
    "prints_at_exit": "import atexit\nd = list(map(int, open(0).read().split()))\natexit.register(print, f'{d[0] + d[1]}\\n7 7')",
    "no_newline_at_end": "d = open(0).read().split()\nprint(int(d[0]) + int(d[1])); print('7 7', end='')",
    "blank_lines_at_end": _SOLVE + "print()\nprint()",
    "windows_output": "d = open(0).read().split()\nprint(int(d[0]) + int(d[1]), end='\\r\\n'); print('7 7', end='\\r\\n')",
    "writes_stderr_too": "import sys\nprint('debug', file=sys.stderr)\n" + _SOLVE,
    "redirects": "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    print('hidden')\n" + _SOLVE,
    "until_end_of_input": "r = []\nwhile True:\n    try: r.append(sum(map(int, input().split())))\n    except EOFError: break\nprint(r[0]); print(r[1], r[1])",
    "echoes_much_to_stderr": "import sys\nsys.stderr.write('x' * 300000)\n" + _SOLVE,
}
# fmt: on
