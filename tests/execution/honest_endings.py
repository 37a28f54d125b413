# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Ways in which a program may print and end. Each is to print the lines ``main`` and ``last``, whatever else it does."""

from __future__ import annotations

ENDINGS = {
    "runs_off_the_end": "print('main')\nprint('last')",
    "sys_exit": "import sys\nprint('main')\nprint('last')\nsys.exit()",
    "exit_and_help_names": "print('main')\nprint('last')\nassert help and copyright and license and credits\nexit()",
    "exit_function": "import atexit\natexit.register(print, 'last')\nprint('main')",
    "thread_that_outlives_main": "import threading\nprinted = threading.Event()\nthreading.Thread(target=lambda: (printed.wait(), print('last'))).start()\nprint('main')\nprinted.set()",
    "pool_not_shut_down": "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\nprint('main')\npool.submit(print, 'last')",
    "thread_pool_of_multiprocessing": "from multiprocessing.dummy import Pool\nprint('main')\nwith Pool(2) as pool: print(*pool.map(str, ['last']))",
    "lock_and_value_of_multiprocessing": "import multiprocessing as mp\nlock = mp.RLock()\nwith lock:\n    with lock: print('main')\nprint('last')",
    "open_one_left_open": "out = open(1, 'w')\nprint('main', file=out)\nprint('last', file=out)",
    "own_text_wrapper": "import io, sys\nout = io.TextIOWrapper(sys.stdout.buffer)\nout.write('main\\nlast\\n')",
    "detached_stdout": "import sys\nout = sys.stdout.detach()\nout.write(b'main\\nlast\\n')",
    "stdout_set_to_nothing": "import sys\nprint('main\\nlast')\nsys.stdout.flush()\nsys.stdout = None",
    "stdout_replaced_by_string_and_printed": "import io, sys\nold, sys.stdout = sys.stdout, io.StringIO()\nprint('main\\nlast')\nold.write(sys.stdout.getvalue())",
    "file_in_a_cycle": "class Node: pass\nnode = Node()\nnode.me, node.out = node, open(1, 'w')\nnode.out.write('main\\nlast\\n')",
    "file_held_by_a_daemon": "import threading, time\ndef run():\n    out = open(1, 'w')\n    out.write('main\\nlast\\n')\n    ready.set()\n    time.sleep(60)\nready = threading.Event()\nthreading.Thread(target=run, daemon=True).start()\nready.wait()",
    "deleter_in_a_cycle": "class D:\n    def __del__(self): print(word)\nword = 'last'\nd = D()\nd.me = d\nprint('main')",
    "weak_finalizer": "import weakref\nclass D: pass\nd = D()\nweakref.finalize(d, print, 'last')\nprint('main')",
    "generator_closed_at_the_end": "def g():\n    try: yield\n    finally: print('last')\nx = g(); next(x)\nprint('main')",
    "logging_shutdown": "import logging, logging.handlers, sys\nh = logging.StreamHandler(sys.stdout)\nm = logging.handlers.MemoryHandler(99, target=h)\nlogging.getLogger().addHandler(m)\nlogging.error('main'); logging.error('last')",
    "exception_in_a_thread": "import threading\nthreading.excepthook = lambda a: print('last')\ndef f(): raise ValueError\nprint('main')\nthreading.Thread(target=f).start()",
    "stack_of_one_gib": "import sys, threading\nsys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 30)\ndef f(n): return n and 1 + f(n - 1)\ndef run():\n    print('main')\n    assert f(50000) == 50000\n    print('last')\nt = threading.Thread(target=run)\nt.start(); t.join()",
    "os_exit_after_flush": "import os\nprint('main\\nlast', flush=True)\nos._exit(0)",
    "collector_switched_off": "import gc\ngc.disable()\nclass N: pass\nn = N(); n.n = n; n.f = open(1, 'w'); n.f.write('main\\nlast\\n')\ndel n",
}
