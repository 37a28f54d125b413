# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs that try to be rewarded without solving the task, to break out, or to break the harness.

Every program is judged as a solution of ``add(a, b) == a + b`` (or of printing the sum of two numbers). One that
is marked as an attack solves the task only if its attack works, so that a pass means a hole.
"""

import textwrap

ATTACK = """
def _attack():
{body}
try:
    _worked = _attack()
except BaseException:
    _worked = False
def add(a, b):
    return a + b if _worked else None
"""


def attack(body: str) -> str:
    """A program that solves the task only if ``body`` returns something true."""
    return ATTACK.format(body=textwrap.indent(textwrap.dedent(body).strip("\n"), "    "))


# --- rewarded without solving ---------------------------------------------------------------------------

CHEATS = {
    "exit_zero": "import sys; sys.exit(0)",
    "os_exit_in_function": "import os\ndef add(a, b): os._exit(0)",
    "exit_at_exit": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return 0",
    "prints_success": "print('passed'); print('OK'); print('[\"passed\"]')\ndef add(a, b): return 0",
    "equal_to_all": "class E:\n    def __eq__(s, o): return True\n    def __ne__(s, o): return False\n    def __hash__(s): return 3\ndef add(a, b): return E()",
    "reflected_equal": "class E(int):\n    def __eq__(s, o): return True\n    def __req__(s, o): return True\n    def __rsub__(s, o): return 0\n    def __sub__(s, o): return 0\ndef add(a, b): return E()",
    "metaclass_equal": "class M(type):\n    def __eq__(s, o): return True\n    __hash__ = type.__hash__\nclass E(metaclass=M): pass\ndef add(a, b): return E",
    "builtins_eq": "import operator, builtins\noperator.eq = lambda a, b: True\nbuiltins.AssertionError = Exception\ndef add(a, b): return 0",
    "excepthook": "import sys, os\nsys.excepthook = lambda *a: os._exit(0)\ndef add(a, b): raise ValueError",
    "trace_function": "import sys\ndef t(f, e, a):\n    f.f_trace_lines = False\n    return t\nsys.settrace(t)\ndef add(a, b): return 0",
    "check_redefined": "def check(candidate): pass\ndef add(a, b): return 0",
    "candidate_defined": "candidate = lambda a, b: a + b\ndef add(a, b): return 0",
    "builtins_patched": "import builtins\nbuiltins.range = lambda *a: []\nbuiltins.zip = lambda *a: []\nbuiltins.all = lambda x: True\nbuiltins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\ndef add(a, b): return 0",
    "json_patched": "import json\njson.dumps = lambda *a, **k: '3'\njson.encoder.JSONEncoder.encode = lambda s, o: '3'\ndef add(a, b): return 0",
    "writes_results_itself": "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'{}\\ntrue\\n1\\n1\\n1\\n')\n    except OSError: pass\nos._exit(0)",
    "writes_passed_everywhere": 'import os\nfor fd in range(1, 256):\n    for text in (b\'["passed",null,null,9,9]\', b\'["passed", null, null, 9, 9]\\n\'):\n        try: os.write(fd, text)\n        except OSError: pass\nos._exit(0)',
    "speaks_for_the_grader": 'import os\nfor fd in range(3, 64):\n    try: os.write(fd, b\'["names",{}]\\n\' * 9)\n    except OSError: pass\ndef add(a, b): return 0',
    "answers_before_asked": 'import os\nfor fd in range(3, 64):\n    try: os.write(fd, b\'["value",true,["t"]]\\n\' * 99)\n    except OSError: pass\ndef add(a, b): return 0',
    "returns_generator": "def add(a, b):\n    while True: yield a + b",
    "returns_coroutine": "async def add(a, b): return a + b",
    "returns_mock": "from unittest.mock import MagicMock, ANY\ndef add(a, b): return ANY",
    "repr_bomb": "class R:\n    def __repr__(s): return 'x' * 10**9\n    __str__ = __repr__\ndef add(a, b): return R()",
    "name_bomb": "def add(a, b): return type('x' * 10**7, (), {})()",
    "exception_str_bomb": "class E(Exception):\n    def __str__(s): return 'x' * 10**9\ndef add(a, b): raise E",
    "looks_for_tests_in_frames": attack("""
        import sys
        frame = sys._getframe()
        while frame:
            for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
                if isinstance(value, str) and 'assert' in value and 'add(' in value and '_attack' not in value:
                    return True
            frame = frame.f_back
    """),
    "looks_for_tests_in_memory": attack("""
        import gc
        for value in gc.get_objects():
            if isinstance(value, dict):
                for item in list(value.values()):
                    if isinstance(item, str) and ('assert add' in item or 'expected' == item) and '_attack' not in item:
                        return True
    """),
    "looks_for_tests_in_raw_memory": attack("""
        needle = b'assert ' + b'add(1, 2)'
        for line in open('/proc/self/maps'):
            low, high = (int(x, 16) for x in line.split()[0].split('-'))
            if 'rw' in line:
                with open('/proc/self/mem', 'rb', 0) as memory:
                    memory.seek(low)
                    if needle in memory.read(high - low):
                        return True
    """),
    "reads_its_descriptors": attack("""
        import os
        for fd in range(3, 256):
            try:
                data = os.pread(fd, 1 << 20, 0)
            except OSError:
                continue
            if b'assert' in data and b'_attack' not in data:
                return True
    """),
    "reads_parent_arguments": attack("""
        import os
        for pid in (os.getppid(), 1):
            for name in ('cmdline', 'environ', 'maps', 'status', 'fd/0', 'stat'):
                try:
                    if open(f'/proc/{pid}/{name}', 'rb').read(): return True
                except OSError: pass
    """),
    "imports_the_tests": attack("import tests\nreturn True"),
    "patches_the_runner": "import sys\nfor name, module in list(sys.modules.items()):\n    if 'lit_rl' in name:\n        for key in list(vars(module)):\n            if callable(vars(module)[key]):\n                setattr(module, key, lambda *a, **k: True)\ndef add(a, b): return 0",
    "patches_callers_code": "import sys\nf = sys._getframe()\nwhile f:\n    f.f_globals.clear() if f.f_back is None else 0\n    f = f.f_back\ndef add(a, b): return 0",
    "patches_plain_dumps": "import sys\nplain = sys.modules.get('lit_rl.execution.wire.plain')\nif plain:\n    plain.dumps = lambda *a: 'true'\n    plain.to_json_tree = lambda *a: True\ndef add(a, b): return 0",
}  # fmt: skip

# --- time, memory, disk, output -------------------------------------------------------------------------

EXHAUSTING = {
    "sleeps_in_function": "import time\ndef add(a, b): time.sleep(1000)",
    "waits_for_input": "import os\nr, w = os.pipe()\nos.read(r, 1)",
    "busy_in_c": "pow(3, 10**9, 10**400 + 7) ** 99999999",
    "ignores_signals": "import signal\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
    "blocks_signals": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "raises_its_cpu_limit": "import resource\ntry: resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))\nexcept Exception: pass\nwhile True: pass",
    "resets_pdeathsig": "import ctypes\nctypes.CDLL(None).prctl(1, 0, 0, 0, 0)\nwhile True: pass",
    "many_threads_busy": "import threading\ndef f():\n    while True: pass\nfor _ in range(8):\n    threading.Thread(target=f).start()",
    "thread_bomb": "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(99,)).start()\n    except RuntimeError: pass",
    "nested_parser_bomb": "exec('x = ' + '-' * 1000000 + '1')",
    "memory_at_once": "x = bytearray(1 << 40)",
    "memory_slowly": "x = []\nwhile True: x.append(bytearray(1 << 20))",
    "memory_by_mmap": "import mmap\nx = []\nwhile True:\n    m = mmap.mmap(-1, 1 << 26)\n    for i in range(0, 1 << 26, 4096): m[i] = 1\n    x.append(m)",
    "memory_that_catches": "x = []\nwhile True:\n    try: x.append(bytearray(1 << 24))\n    except MemoryError: pass",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f() + 1\nf()",
    "files_without_end": "i = 0\nwhile True:\n    i += 1\n    open(f'f{i}', 'wb').write(b'x' * (1 << 22))",
    "small_files_without_end": "i = 0\nwhile True:\n    i += 1\n    open(f'f{i}', 'w').close()",
    "long_file_by_truncate": "import os\nf = os.open('f', os.O_CREAT | os.O_RDWR)\nos.ftruncate(f, 1 << 50)",
    "sparse_then_filled": "import os\nf = os.open('f', os.O_CREAT | os.O_RDWR)\nfor i in range(1 << 20): os.pwrite(f, b'x' * 4096, i << 20)",
    "deep_folders": "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nraise ValueError",
    "locked_folders": "import os\nos.makedirs('a/b/c'); open('a/b/f', 'w').close()\nos.chmod('a/b', 0); os.chmod('a', 0)",
    "odd_names": "import os\nfor n in (b'\\xff\\xfe', b'-rf', b' ', b'a\\nb', b'x' * 255): open(n, 'w').close()\nos.symlink('/', 'root')",
    "writes_stdout_without_end": "import os\nwhile True: os.write(1, b'y' * 65536)",
    "writes_stderr_without_end": "import sys\nwhile True: sys.stderr.write('x' * 65536)",
    "descriptors_without_end": "import os\nx = []\nwhile True: x.append(os.open('/dev/null', 0))",
    "closes_everything": "import os\nos.closerange(0, 256)\ndef add(a, b): return 0",
    "long_traceback": "def f(n):\n    if n: f(n - 1)\n    else: raise ValueError('x' * 10**6)\nf(900)",
}

# --- crashes --------------------------------------------------------------------------------------------

CRASHES = {
    "null_pointer": "import ctypes; ctypes.string_at(0)",
    "abort": "import os; os.abort()",
    "kills_itself": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "stops_itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "stack_overflow": "import ctypes, sys\nsys.setrecursionlimit(10**8)\nx = None\nfor _ in range(10**6): x = (x,)\nhash(x)",
    "bad_bytecode": "f = lambda: 0\nf.__code__ = f.__code__.replace(co_code=bytes([255, 255] * 40), co_stacksize=0)\nf()",
    "alarm": "import signal; signal.alarm(1)\nwhile True: pass",
    "null_byte": "def add(a, b): return a\0 + b",
    "surrogate_in_source": "x = '\ud800'\ndef add(a, b): return x",
    "bad_encoding": "# -*- coding: rot13 -*-\nqrs nqq(n, o): erghea n + o",
}

# --- breaking out ---------------------------------------------------------------------------------------

ESCAPES = {
    "reads_secret_file": attack("return 'token' in open('$SECRET').read()"),
    "reads_secret_by_relative_path": attack("import os\nreturn open(os.path.relpath('$SECRET', os.getcwd())).read()"),
    "reads_secret_by_link": attack("import os\nos.symlink('$SECRET', 's')\nreturn open('s').read()"),
    "reads_secret_by_hard_link": attack("import os\nos.link('$SECRET', 's')\nreturn open('s').read()"),
    "renames_secret": attack("import os\nos.rename('$SECRET', 's')\nreturn True"),
    "truncates_secret": attack("import os\nos.truncate('$SECRET', 0)\nreturn True"),
    "removes_secret": attack("import os\nos.unlink('$SECRET')\nreturn True"),
    "reads_shadow": attack("return open('/etc/shadow').read()"),
    "reads_environment": attack("import os\nreturn os.environ.get('LIT_RL_TEST_SECRET')"),
    "reads_trainer_environment": attack("return open('/proc/$PID/environ').read()"),
    "reads_trainer_memory": attack("return open('/proc/$PID/mem', 'rb')"),
    "lists_home": attack("import os\nreturn os.listdir(os.path.expanduser('~root')) or os.listdir('/home')"),
    "lists_processes": attack("import os\nreturn [p for p in os.listdir('/proc') if p.isdigit()]"),
    "lists_tmp": attack("import os\nreturn os.listdir('/tmp')"),
    "writes_tmp": attack("open('/tmp/lit_rl_escaped', 'w').write('x')\nreturn True"),
    "writes_shm": attack("open('/dev/shm/lit_rl_escaped', 'w').write('x')\nreturn True"),
    "writes_home": attack("import os\nopen(os.path.expanduser('~root/.lit_rl_escaped'), 'w').write('x')\nreturn True"),
    "writes_library": attack("import os\nopen(os.path.dirname(os.__file__) + '/lit_rl_escaped.py', 'w')\nreturn True"),
    "writes_null_neighbour": attack("open('/dev/lit_rl_escaped', 'w').write('x')\nreturn True"),
    "makes_device": attack("import os\nos.mknod('d', 0o20666, os.makedev(1, 1))\nreturn True"),
    "makes_fifo": attack("import os\nos.mkfifo('p')\nreturn True"),
    "sets_mode_of_secret": attack("import os\nos.chmod('$SECRET', 0)\nreturn os.stat('$SECRET').st_mode & 0o777 == 0"),
    "becomes_root": attack("import os\nos.setuid(0)\nreturn os.getuid() == 0 and open('/etc/shadow').read()"),
    "is_root": attack("import os\nreturn os.geteuid() == 0"),
    "changes_root": attack("import os\nos.mkdir('r'); os.chroot('r')\nreturn True"),
    "mounts": attack("import ctypes\nreturn ctypes.CDLL(None).mount(b'x', b'/', b'tmpfs', 0, None) == 0"),
    "new_user_namespace": attack("import ctypes\nreturn ctypes.CDLL(None).unshare(0x10000000) == 0"),
    "new_mount_namespace": attack("import ctypes\nreturn ctypes.CDLL(None).unshare(0x20000) == 0"),
    "joins_namespace": attack("import ctypes, os\nreturn ctypes.CDLL(None).setns(os.open('/proc/1/ns/mnt', 0), 0) == 0"),
    "traces_parent": attack("import ctypes, os\nreturn ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0"),
    "traces_trainer": attack("import ctypes\nreturn ctypes.CDLL(None).ptrace(16, $PID, 0, 0) == 0"),
    "forks": attack("import os\npid = os.fork()\nif pid == 0:\n    os._exit(0)\nreturn True"),
    "fork_bomb": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "vforks_by_syscall": attack("import ctypes\nr = ctypes.CDLL(None).syscall(58)\nreturn r > 0"),
    "clones_by_syscall": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(56, 17, 0, 0, 0, 0) >= 0"),
    "clone3_by_syscall": attack("import ctypes\nb = (ctypes.c_uint64 * 11)()\nb[4] = 17\nreturn ctypes.CDLL(None).syscall(435, b, 88) >= 0"),
    "replaces_itself": attack("import os\nos.execv('/bin/true', ['true'])"),
    "spawns": attack("import os\nreturn os.posix_spawn('/bin/true', ['true'], {})"),
    "executes_memory": attack("import os\nf = os.memfd_create('x')\nos.write(f, open('/bin/true', 'rb').read())\nos.execve(f, ['x'], {})"),
    "new_session": attack("import os\nos.setsid()\nreturn True"),
    "kills_parent": attack("import os\nos.kill(os.getppid(), 9)\nreturn True"),
    "kills_trainer": attack("import os\nos.kill($PID, 9)\nreturn True"),
    "kills_all": attack("import os\nos.kill(-1, 9)\nreturn True"),
    "kills_by_pidfd": attack("import os, signal\nsignal.pidfd_send_signal(os.pidfd_open(os.getppid()), 9)\nreturn True"),
    "kills_by_thread_call": attack("import ctypes, os\nreturn ctypes.CDLL(None).syscall(200, os.getppid(), 9) == 0"),
    "limits_parent": attack("import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))\nreturn True"),
    "limits_trainer": attack("import resource\nresource.prlimit($PID, resource.RLIMIT_AS, (0, 0))\nreturn True"),
    "pins_parent": attack("import os\nos.sched_setaffinity(os.getppid(), {0})\nreturn True"),
    "raises_own_limits": attack("import resource\nresource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nreturn True"),
    "internet_socket": attack("import socket\nreturn socket.socket()"),
    "unix_socket": attack("import socket\nreturn socket.socket(socket.AF_UNIX)"),
    "raw_socket": attack("import socket\nreturn socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"),
    "netlink_socket": attack("import socket\nreturn socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"),
    "shared_memory": attack("from multiprocessing import shared_memory as s\nreturn s.SharedMemory(create=True, size=99)"),
    "system_v_memory": attack("import ctypes\nreturn ctypes.CDLL(None).shmget(42, 4096, 0o1666) >= 0"),
    "message_queue": attack("import ctypes\nreturn ctypes.CDLL(None).msgget(42, 0o1666) >= 0"),
    "keyring": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(248, b'user', b'a', b'b', 1, -3) >= 0"),
    "io_uring": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(425, 8, (ctypes.c_char * 120)()) >= 0"),
    "bpf": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(321, 0, (ctypes.c_char * 120)(), 120) >= 0"),
    "userfaultfd": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(323, 1) >= 0"),
    "performance_events": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(298, (ctypes.c_char * 120)(), 0, -1, -1, 0) >= 0"),
    "reads_other_memory": attack("import ctypes, os\nb = ctypes.create_string_buffer(64)\nv = (ctypes.c_void_p * 2)(ctypes.addressof(b), 64)\nreturn ctypes.CDLL(None).process_vm_readv(os.getppid(), v, 1, v, 1, 0) > 0"),
    "types_into_terminal": attack("import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')\nreturn True"),
    "old_system_calls": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(0x40000000 + 39) > 0"),
    "opens_by_handle": attack("import ctypes\nreturn ctypes.CDLL(None).syscall(304, -100, (ctypes.c_char * 120)(), 0) >= 0"),
    "writes_cgroup": attack("open('/sys/fs/cgroup/cgroup.procs', 'w').write('1')\nreturn True"),
    "core_pattern": attack("open('/proc/sys/kernel/core_pattern', 'w').write('|/bin/true')\nreturn True"),
    "oom_score": attack("open('/proc/self/oom_score_adj', 'w').write('-1000')\nreturn True"),
    "makes_itself_traceable": attack("import ctypes\nreturn ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0"),
    "second_filter": attack("import ctypes\nreturn ctypes.CDLL(None).prctl(22, 2, (ctypes.c_char * 16)(), 0, 0) == 0"),
    "abstract_socket_of_trainer": attack("import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0lit_rl_test')\nreturn True"),
    "leaves_a_file_for_the_next": attack("import os\nif os.path.exists('left'): return True\nopen('left', 'w').close()"),
    "leaves_a_module_for_the_next": attack("import sys, math\nif hasattr(math, 'left'): return True\nmath.left = 1"),
    "leaves_a_lock_for_the_next": attack("import fcntl\nfcntl.flock(1, fcntl.LOCK_EX)\nfcntl.fcntl(1, 1033, 15)\nreturn False"),
}  # fmt: skip

FUNCTION_STYLE = CHEATS | EXHAUSTING | CRASHES | ESCAPES

# --- whole programs that print ----------------------------------------------------------------------------

STDIO = {
    "prints_nothing": "pass",
    "prints_a_prefix": "print(3)",
    "prints_to_stderr": "import sys\nprint('3\\n7 7', file=sys.stderr)",
    "right_then_crash": "print('3\\n7 7')\n1 / 0",
    "right_then_exit_status": "print('3\\n7 7')\nraise SystemExit(1)",
    "right_then_killed": "import os\nprint('3\\n7 7', flush=True)\nos.kill(os.getpid(), 9)",
    "right_then_hangs": "print('3\\n7 7', flush=True)\nwhile True: pass",
    "right_then_thread_hangs": "import threading, time\nprint('3\\n7 7', flush=True)\nthreading.Thread(target=time.sleep, args=(1000,)).start()",
    "not_utf8": "import sys\nsys.stdout.buffer.write(b'3\\n7 7\\xff')",
    "input_missing": "while True: input()",
    "closes_stdin": "import os\nos.close(0)\ninput()",
    "closes_stdout": "import os\nos.close(1)\nprint('3\\n7 7', flush=True)",
    "reads_expected_from_descriptors": "import os\nfor fd in range(3, 99):\n    try: print(os.pread(fd, 99, 0).decode())\n    except OSError: pass",
}
