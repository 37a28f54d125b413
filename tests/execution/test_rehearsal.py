# ruff: noqa: E501 - one case a line
"""Sound tests stay sound when they are tried once without a program, and no program decides how the next ones are.

The tests here catch whatever their first use of the program raises, use it where nothing hears of it, or leave things
behind. A right program passes each, and a wrong one fails it without being masked.
"""

import pytest
from support.named_jobs import among, judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, Sandbox, Verdict

RIGHT, WRONG = "def f(x): return x + 1", "def f(x): return 0"
NODE = "class Node:\n    def __init__(self, val=0, next=None):\n        self.val, self.next = val, next\n    def total(self): return {}\n"
NODES = NODE.format("self.val + (self.next.total() if self.next else 0)"), NODE.format("-1")

# Tests of ``f``, which adds 1.
OF_F = {
    "bare_handler": "try:\n    got = f(1)\nexcept:\n    got = {}['x']\nassert got == 2\n",
    "finally_that_uses_the_value": "try:\n    got = f(1)\nfinally:\n    twice = got * 2\nassert twice == 4\n",
    "thread_that_catches": "import threading\nout = []\ndef work():\n    try:\n        out.append(f(1))\n    except BaseException:\n        out.append({}['x'])\nt = threading.Thread(target=work)\nt.start()\nt.join()\nassert out[0] == 2\n",
    "pool_whose_errors_are_kept": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as p:\n    r = p.submit(f, 1)\nrow = {None: 1}[r.exception()]\nassert row == 1 and f(1) == 2\n",
    "generator": "def gen():\n    try:\n        yield f(1)\n    finally:\n        kept.append(1)\nkept = []\nrow = next(gen(), None) + 1\nassert row == 3\n",
    "finalizer": "class A:\n    def __del__(self): out.append(f(1))\nout = []\na = A()\ndel a\nrow = out[0]\nassert row == 2\n",
    "key_of_a_dict": "names = {f: 'f'}\nassert names[f] == 'f' and f(1) == 2\n",
    "name_of_the_function": "text = f.__name__\nassert text == 'f' and f(1) == 2\n",
    "folder_made": "import os\nos.mkdir('d')\nwith open('d/a', 'x') as h:\n    h.write('1')\nassert f(1) == 2\n",
    "working_folder": "import os\nassert os.listdir('.') == []\nassert f(1) == 2\n",
    "module_changed": "import math\nassert math.floor(1.5) == 1\nmath.floor = lambda v: 7\nassert f(1) == 2\n",
    "alarm": "import signal\ndef late(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\nsignal.alarm(5)\nassert f(1) == 2\nsignal.alarm(0)\n",
    "output_closed": "import sys\nsys.stdout.close()\nassert f(1) == 2\n",
    "memory": "rows = bytearray(64 << 20)\nassert f(1) == 2\n",
    "guarded_import": "try:\n    import no_such_module\nexcept ImportError:\n    no_such_module = None\nassert f(1) == 2 and no_such_module is None\n",
    "state_between_functions": "seen = []\ndef test_a():\n    seen.append(f(1))\n    assert seen == [2]\ndef test_b():\n    assert seen[0] == 2\n",
    "unit_set_up_class": "import unittest\nclass T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls): cls.row = f(1)\n    @classmethod\n    def tearDownClass(cls): del cls.row\n    def test_a(self): self.assertEqual(self.row, 2)\n",
    "unit_skip": "import unittest\nclass T(unittest.TestCase):\n    @unittest.skipIf(not callable(f), 'no f')\n    def test_a(self): self.assertEqual(f(1), 2)\n",
    "output_of_the_tests": "import contextlib, io\nb = io.StringIO()\nwith contextlib.redirect_stdout(b):\n    print(f(1))\nassert b.getvalue() == '2\\n'\n",
}
# Tests of ``Node``, which they name in all places where a class can be named.
OF_NODES = {
    "annotation": "def total(n: Node) -> int: return n.total()\nassert total(Node(1)) == 1\n",
    "annotated_field": "from dataclasses import dataclass\n@dataclass\nclass Row:\n    node: Node\n    n: int = 0\nassert Row(Node(1)).node.total() == 1\n",
    "base_with_super": "class Mine(Node):\n    def __init__(self):\n        super().__init__(5)\n        self.more = self.val + 1\nm = Mine()\nassert m.more == 6 and m.total() == 5\n",
    "instance": "n = Node(1)\nassert isinstance(n, Node) and issubclass(Node, Node) and n.total() == 1\n",
    "static": "class Maker:\n    kind = Node\n    def make(self, v): return self.kind(v)\nassert Maker().make(3).total() == 3\n",
}
HOSTILE = {
    "folder": "import os\nos.makedirs('a.txt/b')\nos.makedirs('once.txt')",
    "file": "open('a.txt', 'w').write('x')\nopen('d', 'w').write('x')",
    "module": "open('math.py', 'w').write('raise ImportError')\nopen('heapq.py', 'w').write('import os; os._exit(41)')",
    "full_disk": "try:\n    for i in range(999):\n        with open(f'b{i}', 'wb') as h: h.write(bytes(1 << 20))\nexcept OSError: pass",
    "locked_folder": "import os\nos.mkdir('e')\ntry: os.chmod('e', 0); os.chmod('.', 0)\nexcept OSError: pass",
    "memory": "rows = []\nwhile True: rows.append(bytearray(1 << 20))",
    "stop": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "environment": "import os\nos.environ['LIT_RL_ONCE'] = '1'\nos.umask(0o777)",
    "descriptors": "import os\nfor d in range(64):\n    try: os.write(d, b'x\\n')\n    except OSError: pass\nos.closerange(0, 64)",
}


def check(test, seconds=2.0):
    return AssertTests(test, "f" if "def check" in test else None, seconds)


@pytest.mark.parametrize(("right", "wrong", "tests"), [(RIGHT, WRONG, OF_F), (*NODES, OF_NODES)], ids=["f", "Node"])
def test_sound_tests_stay_sound(either_sandbox, right, wrong, tests):
    """Wrong programs first and between: the verdict does not depend on which program a test is first tried with."""
    for program in (wrong, right, "import os\nos._exit(0)", right):
        outcomes = judge_named(either_sandbox, {name: (program, check(test)) for name, test in tests.items()})
        if program == right:
            assert not_among(outcomes, "passed") == {}
        else:
            assert among(outcomes, "passed", "infrastructure_failure") == {}


@pytest.mark.parametrize("name", slow_but(list(HOSTILE)[:3], HOSTILE))
def test_no_program_decides_how_the_next_tests_are_tried(either_sandbox, name):
    """Each test is new to the worker, which has just judged a hostile program by it, or by another."""
    left = "import math, heapq, os\nopen('a.txt', 'w').close()\nopen('once.txt', 'x').close()\n"
    with Sandbox(num_workers=1, tier=either_sandbox.tier) as alone:
        for number, before in enumerate(("", left)):
            test = f"{before}limit = {number}\nfor x in (1, 2):\n    got = f(x)\n    assert got == x + 1\n"
            other = check(test.replace("limit", "other"))
            hostile, *rest = alone.judge_many(
                [(f"{HOSTILE[name]}\n{WRONG}", check(test, 0.5)), (RIGHT, check(test)), (RIGHT, other), (WRONG, other)]
            )
            assert hostile.verdict not in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE), hostile
            assert [outcome.verdict for outcome in rest] == ["passed", "passed", "wrong_answer"]
