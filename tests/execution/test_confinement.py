"""Rights that a process gives up before untrusted code runs in it, checked from inside, one thing at a time."""

import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import suites
from suites import need_tier
from support.named_jobs import judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.execution import Sandbox, StdioTests, Verdict
from lit_rl.execution.confinement import landlock, limits


@pytest.fixture(scope="module", params=slow_but((1,), [0, 1]))
def sandbox(request):
    need_tier(request.param)
    with Sandbox(1, 256 << 20, tier=request.param) as sandbox:
        yield sandbox


def run(sandbox, program, stdout="", seconds=5.0, language="python"):
    return sandbox.submit(program, StdioTests((("", stdout),), language, seconds)).result(60)


def test_a_program_cannot_die_as_one_that_was_killed_for_lack_of_memory(sandbox):
    program = """
import ctypes, os, resource, signal, threading
ways = (
    lambda: os.kill(os.getpid(), signal.SIGKILL),
    lambda: signal.raise_signal(signal.SIGKILL),
    lambda: signal.pthread_kill(threading.get_ident(), signal.SIGKILL),
    lambda: os.kill(0, signal.SIGKILL),
    lambda: os.kill(-1, signal.SIGKILL),
)
for way in ways:
    try: way()
    except OSError: print('refused')
resource.setrlimit(resource.RLIMIT_CPU, (1, 1))  # the kernel kills for this one too, in the second second
began = os.times().user
while os.times().user < began + 1.3: pass
print('alive')
"""
    assert run(sandbox, program, "refused\n" * 5 + "alive").passed


OWNERS = """
import os
from lit_rl.execution import Sandbox, StdioTests
python = "import os\\nprint(os.stat('/proc/self/mem').st_uid)"
with Sandbox(1, tier=0) as sandbox:
    print(sandbox.submit(python, StdioTests((("", ""),))).result(60).stdout.strip())
    print(os.stat(f"/proc/{sandbox._workers[0]._process.pid}/mem").st_uid)
"""


def test_what_proc_shows_of_programs_and_supervisors_belongs_to_root():
    """Of a process that may be dumped it belongs to its user, who could open it from any other process."""
    done = suites.as_ordinary_user("-c", OWNERS)
    assert done.stdout.split() == ["0", "0"], done.stderr


def test_signals_to_a_whole_job_do_not_end_a_zygote(sandbox):
    judge = sandbox._workers[0]._process.pid
    before = suites.children(judge)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM, signal.SIGCONT):
        for zygote in before:  # the compiler's too, where there is one
            os.kill(zygote, number)
    assert run(sandbox, "print(1)", "1").passed
    assert suites.children(judge) == before


def test_a_program_makes_no_more_tasks_than_a_worker_may_have(sandbox):
    program = """
import threading
threading.stack_size(64 << 10)
held = threading.Event()
for made in range(2000):
    try: threading.Thread(target=held.wait).start()
    except RuntimeError: break
held.set()
print(made)
"""
    made = int(run(sandbox, program).stdout)
    tasks = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    assert 200 < made < 1000 + tasks


COMPILED = """#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int wait_for_the_end(void *unused) { for (;;) pause(); }
static void try_clone(int flags) {
  int made = clone(wait_for_the_end, (char *)malloc(65536) + 65536, flags, NULL);
  printf("%d ", made > 0 ? 1 : -errno);
}
int main() {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  timer_t timer;
  printf("%d %d %d ", raise(SIGKILL), kill(0, SIGKILL), timer_create(CLOCK_MONOTONIC, &event, &timer));
  int all = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_FILES;
  try_clone(all | CLONE_FS | CLONE_SYSVSEM); try_clone(all); try_clone(all & ~CLONE_FILES); try_clone(CLONE_FILES);
  try_clone(CLONE_VM | CLONE_SIGHAND | CLONE_FILES); try_clone(CLONE_VM | CLONE_VFORK); try_clone(0);
  for (int flags = 0; flags < 8; flags++)
    printf("%d ", syscall(SYS_close_range, 50, 60, flags) ? -errno : 0);
  fflush(stdout);
  syscall(SYS_exit_group, 0);
}"""


def test_a_compiled_program_does_not_kill_itself_and_has_one_descriptor_table(sandbox):
    """Each further table would hold 64 more sockets with the kernel's memory in them."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: install gcc")
    outcome = run(sandbox, COMPILED, language="c")
    assert outcome.stdout.split() == [*["-1"] * 3, "1", "1", *["-1"] * 5, "0", *["-1"] * 3, "0", *["-1"] * 3], outcome


KERNEL_MEMORY = {
    "shared memory": "import mmap\nmmap.mmap(-1, 4096)",
    "shared memory of a device": "import mmap, os\nmmap.mmap(os.open('/dev/zero', 0), 4096, prot=mmap.PROT_READ)",
    "descriptors in messages": "import socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [0])",
    "files without a name": "import os\nos.open('.', os.O_TMPFILE | os.O_RDWR)",
    "disk beyond a file": (
        "import ctypes, os\nf = os.open('a', os.O_RDWR | os.O_CREAT)\n"
        "fallocate = ctypes.CDLL(None, use_errno=True).fallocate\n"
        "fallocate.argtypes = [ctypes.c_int] * 2 + [ctypes.c_long] * 2\n"
        "if fallocate(f, 1, 0, 4096): raise OSError(ctypes.get_errno(), 'fallocate')"
    ),
    "longer buffers": (  # setting them is pretended
        "import socket\na, _ = socket.socketpair()\nbefore = a.getsockopt(1, socket.SO_SNDBUF)\n"
        "a.setsockopt(1, socket.SO_SNDBUF, 1 << 30)\nif a.getsockopt(1, socket.SO_SNDBUF) == before: raise OSError"
    ),
    # Past the kernel's limit for a user, the zygote could not show its children any more.
    "many descriptors in flight": (
        "import array, socket, time\na, b = socket.socketpair()\n"
        "try: a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 250))])\n"
        "finally: time.sleep(0.3)"
    ),
}


def test_a_program_holds_no_memory_that_counts_as_nobodys(sandbox):
    refused = StdioTests((("", "refused"),))
    tried = "try:\n    {}\nexcept OSError: print('refused')"
    jobs = {way: (tried.format(lines.replace("\n", "\n    ")), refused) for way, lines in KERNEL_MEMORY.items()}
    assert not_among(judge_named(sandbox, jobs), Verdict.PASSED) == {}


def test_tasks_are_limited_by_worker_only_where_the_kernel_counts_them_so(monkeypatch):
    for release, user, namespaces, alone in (
        ("6.18.44", 1000, True, True),
        ("5.14.0-503.el9", 1000, True, True),
        ("4.18.0-553.el8", 1000, True, False),  # a zygote limited there could not fork beside a large trainer
        ("5.13.0", 1000, True, False),
        ("6.18.44", 1000, False, False),
        ("4.18.0-553.el8", 0, False, True),
    ):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        monkeypatch.setattr(os, "uname", lambda release=release: SimpleNamespace(release=release))
        assert limits.are_threads_counted_alone(namespaces) is alone, (release, user, namespaces)


NAMESPACES = pytest.mark.parametrize("namespaces", [True, False])


@NAMESPACES
def test_a_build_signals_its_own_processes_where_it_can_reach_no_others(boxed_at, namespaces):
    if not namespaces and landlock.landlock_abi_version() < 6:
        pytest.skip("this kernel's Landlock does not guard signals")
    assert boxed_at("sleep 50 & kill $! && wait; echo killed", namespaces=namespaces).log.strip() == "killed"


def test_a_build_signals_nobody_where_nothing_but_the_filter_guards_others(boxed_at):
    command = "sleep 0.1 & kill $! 2>/dev/null || echo refused; wait"
    assert boxed_at(command, namespaces=False, landlock_version=5).log.strip() == "refused"


PYTHON = "/usr/bin/python3 -c"
REACHES = (
    "import fcntl, os; fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, 10, 9)",
    "import fcntl, os; fcntl.fcntl(os.open('.', 0), 1026, 1)",
    "import os; os.sched_setaffinity(os.getppid(), {0})",
    "import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "import os; os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))",
    "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "import ctypes; assert ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0) > 0",
    "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "import os; os.pidfd_open(os.getppid())",
    "import ctypes, os; assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
    "import os; os.open('/usr/bin/python3', os.O_RDONLY | os.O_TRUNC)",
    "import os; os.open('.', os.O_TMPFILE | os.O_RDWR)",
    "import ctypes; assert ctypes.CDLL(None).close_range(50, 60, 2) == 0",
)


@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="no Python among the toolchain")
@NAMESPACES
def test_a_build_reaches_no_other_process_and_no_namespace(boxed_at, namespaces):
    assert boxed_at(f'{PYTHON} "import os; os.getpid()"', namespaces=namespaces, landlock_version=1).status == 0
    for code in REACHES:
        report = boxed_at(f'{PYTHON} "{code}"', namespaces=namespaces, landlock_version=1)
        assert report.status == 1 and "Error" in report.log, code


HONEST_BUILD = """
set -e
printf 'all: a b\\na:\\n\\ttouch a; chmod 640 a; touch -d 2001-1-1 a\\nb: a\\n\\tcp -p a b; nice true\\n' > Makefile
make -j4 >/dev/null
mkdir -p x/y; mv a x/y/; ln -s y x/z; tar cf t.tar x; rm -r x; tar xf t.tar; ls x/z/a
(ulimit -t 5; timeout 5 true); trap 'echo trapped' USR1
echo 'int main(){return 0;}' | gcc -x c - -o c && ./c
find . -name t.tar | xargs -n1 basename
ar rc l.a Makefile; truncate -s 4 Makefile
"""


@pytest.mark.skipif(shutil.which("make") is None or shutil.which("gcc") is None, reason="no make or gcc")
@NAMESPACES
def test_a_build_does_what_builds_do(boxed_at, namespaces):
    report = boxed_at(HONEST_BUILD, namespaces=namespaces)
    assert (report.status, report.log.split()) == (0, ["x/z/a", "t.tar"])
