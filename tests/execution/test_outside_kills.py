"""A kill from outside says nothing about a program; no program ends the supervisor for long."""

import contextlib
import ctypes
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from suites import children, descendants, told_of
from support.named_jobs import judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests, Verdict
from lit_rl.execution.confinement.kernel import PR_SET_NO_NEW_PRIVS, has_released_memory, prctl
from lit_rl.execution.confinement.seccomp import zygote_seccomp_filter
from lit_rl.execution.judging.supervising.child_files import ChildFiles
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.spawning import ZygoteSettings
from lit_rl.execution.zygote.zygote import _has_ended

ROOT = Path(__file__).parent.parent.parent
WAIT = "import time\ntime.sleep(0.4)\n"
FUNCTION = "def f(x): return x + 1"
KINDS = {
    "stdio": (WAIT + "print(1)", StdioTests((("", "1"),))),
    "calls": (WAIT + FUNCTION, CallTests((((1,), 2),), "f")),
    "literal": (WAIT + FUNCTION, AssertTests("assert f(1) == 2")),
    "graded": (WAIT + FUNCTION, AssertTests("for i in (1, 2):\n    assert f(i) == i + 1")),
}


def kill_one_program_of(worker):
    """Kill what a zygote runs; the zygote itself has nothing below it between two jobs."""
    for _ in range(500):
        time.sleep(0.02)
        for pid in set(descendants(worker)) - set(children(worker)):
            if not children(pid) and "zygote" in told_of(pid, "comm"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return
    pytest.fail("no program of the sandbox was found")


@pytest.mark.parametrize("tier", slow_but((2,), [0, 2]))
def test_a_program_that_is_killed_once_is_run_again(tier):
    with Sandbox(num_workers=1, tier=tier) as sandbox:
        sandbox.judge_many([("print(1)", StdioTests((("", "1"),)))])
        for kind, (program, check) in KINDS.items():
            future = sandbox.submit(program, check)
            kill_one_program_of(sandbox._workers[0].pid)
            outcome = future.result(60)
            assert outcome.verdict is Verdict.PASSED, (kind, outcome)


HELD = """
import sys
from lit_rl.execution import Sandbox, SandboxError, StdioTests
from lit_rl.execution import sandbox as sandbox_module
sandbox_module._PAUSES = (0.1, 0.2)
sandbox = Sandbox(1, 512 << 20, tier=1, temporary_folder=sys.argv[1]).start()
held = bytearray(260 << 20)
held[::4096] = b"1" * len(held[::4096])
program = "x = bytearray(300 << 20)\\nx[::4096] = b'1' * len(x[::4096])\\nprint(1)"
for source in (program, "print(1)"):
    try:
        print(sandbox.submit(source, StdioTests((("", "1"),))).result(100).verdict)
    except SandboxError:
        print("machine")
sandbox.close()
"""


@pytest.fixture
def small_group():
    """A control group of 480 MiB, as that of a job whose trainer holds most of its memory."""
    version_1 = Path("/sys/fs/cgroup/memory")
    folder = (version_1 if version_1.is_dir() else Path("/sys/fs/cgroup")) / f"test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if version_1.is_dir() else "memory.max"
    try:
        folder.mkdir()
        (folder / limit).write_text(str(480 << 20))
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield folder
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.1)


def test_memory_that_the_trainer_takes_is_not_the_programs_fault(small_group, tmp_path):
    join = f"open('{small_group}/cgroup.procs', 'w').write('0')\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", join + HELD, tmp_path], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout.split() == ["machine", "passed"], done.stderr


READERS = """
from dataclasses import dataclass
from typing import ClassVar
from lit_rl.execution.checks import Check
from lit_rl.execution.interface import FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.supervising import own_limits
from lit_rl.execution.judging.supervising.child_files import ChildFiles


@dataclass(frozen=True)
class Reads(Check):
    judged_by: ClassVar[str] = "readers:judge"
    way: str = ""
    timeout_seconds: float = 1.0


def judge(client, program, check):
    own_limits._CPU_SECONDS, own_limits._GRACE_SECONDS = 0.3, 0.3
    if check.way == "our memory":
        raise MemoryError
    if check.way == "faulty":
        raise FaultyCheck("no program can be judged")
    with ChildFiles({"mode": "stdio", "source": program}) as child:
        client.run([child], 1.0)
        if check.way == "memory":
            bytearray(1 << 30)
        while check.way == "time":
            pass
        if check.way == "one operation":
            sum(range(10**12))
    if check.way == "raises":
        raise KeyError("a word of the program")
    return Outcome(Verdict.PASSED)
"""


@pytest.fixture
def reads(tmp_path, monkeypatch):
    """Makes a check whose judge goes wrong in the way that is asked for."""
    (tmp_path / "readers.py").write_text(READERS)
    monkeypatch.syspath_prepend(tmp_path)
    readers = importlib.import_module("readers")
    yield lambda way: readers.Reads(way=way)
    del sys.modules["readers"]


def test_no_judge_masks_a_row_for_what_a_program_wrote(reads):
    good = ("print(1)", StdioTests((("", "1"),)))
    ways = ["memory", "time", "one operation", "our memory"]
    with Sandbox(num_workers=1, memory_bytes=64 << 20) as sandbox:
        outcomes = sandbox.judge_many([item for way in ways for item in (("print(1)", reads(way)), good)])
        # Else a program could choose to have a row with large tests left out: by printing little.
        silent = sandbox.judge_many([("pass", reads(way)) for way in ways[:2]])
        raised, faulty = sandbox.judge_many([("pass", reads(way)) for way in ("raises", "faulty")])
    found = [outcome.verdict for outcome in outcomes]
    assert found[::2] == [Verdict.OUTPUT_LIMIT] * 3 + [Verdict.INFRASTRUCTURE_FAILURE]
    assert found[1::2] == [Verdict.PASSED] * 4
    assert [outcome.verdict for outcome in silent] == [Verdict.OUTPUT_LIMIT] * 2
    # A judge that raises masks no row unless it says that the check is faulty.
    assert (raised.verdict, "a word of the program" in raised.stderr) == (Verdict.EXCEPTION, True)
    assert (faulty.verdict, faulty.stderr) == (Verdict.INFRASTRUCTURE_FAILURE, "no program can be judged")


def test_the_supervisor_goes_before_the_trainer_when_memory_runs_out_and_after_programs():
    with Sandbox(num_workers=1, tier=0) as sandbox:
        judge = sandbox._workers[0]._process.pid
        ours, judges, zygotes = (int(told_of(pid, "oom_score_adj")) for pid in ("self", judge, *children(judge)))
    assert ours < judges < zygotes


SOCKET = "import os, socket, threading\ns = socket.socket(fileno=4)\n"
URGENT = "s.send(b'x', socket.MSG_OOB)"
TO_THE_GRADER = {
    "before it is asked": f"{SOCKET}{URGENT}\nthreading.Event().wait()",
    "and waits": f"{SOCKET}def f(x):\n    {URGENT}\n    threading.Event().wait()",
    "again and again": f"{SOCKET}def f(x):\n    while True: {URGENT}",
    "from a thread": f"{SOCKET}def g():\n    while True: {URGENT}\nthreading.Thread(target=g).start()\nf = abs",
    "after half an answer": f"{SOCKET}def f(x):\n    s.send(b'[')\n    {URGENT}\n    threading.Event().wait()",
}


@pytest.mark.parametrize("tier", slow_but((1,), [0, 1]))
def test_urgent_bytes_to_the_grader_mask_no_row(tier):
    loop = AssertTests("def check(c):\n    for i in range(9):\n        assert c(i) == i + 1\n", "f", 0.3)
    jobs = {}
    for name, source in TO_THE_GRADER.items():
        jobs |= {name: (source, loop), f"after {name}": (FUNCTION, loop)}
    with Sandbox(num_workers=2, tier=tier) as sandbox:
        outcomes = judge_named(sandbox, jobs)
    failed = {name: outcomes.pop(name) for name in TO_THE_GRADER}
    assert not_among(failed, "timed_out", "exception", "wrong_answer") == {}
    assert not_among(outcomes, Verdict.PASSED) == {}


def test_an_order_that_comes_as_the_zygote_ends_loses_no_report():
    """It used its folder in memory, so this zygote ends with it; closing a socket with an unread packet resets it."""
    ours, theirs = socket.socketpair()
    client = ZygoteClient(ZygoteSettings(256 << 20, 1 << 20, tier=1), ours.fileno(), ours.fileno())
    (inner,) = children(client._zygote._process.pid)
    try:
        with ChildFiles({"mode": "stdio", "source": "import time\nopen('a', 'w')\ntime.sleep(0.3)"}) as child:
            client.start([child], 5.0)
            time.sleep(0.1)
            os.kill(inner, signal.SIGSTOP)
            time.sleep(0.6)
            client.stop()
            os.kill(inner, signal.SIGCONT)
            assert client.wait_for_report().children[0].status == 0
    finally:
        ours.close()
        theirs.close()
        client.close()


JUDGE = """
from lit_rl.execution import Sandbox, StdioTests
PROGRAM = '''
import signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
    print(signal.getsignal(number) == signal.SIG_DFL)
'''
with Sandbox(num_workers=1) as sandbox:
    outcome = sandbox.submit(PROGRAM, StdioTests((("", "True\\n" * 5),))).result(60)
    print(outcome.verdict)
"""


def ignore_much():
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def test_programs_hear_what_the_trainer_ignores():
    run = subprocess.run([sys.executable, "-c", JUDGE], capture_output=True, text=True, preexec_fn=ignore_much)
    assert run.stdout.strip() == "passed", run.stdout + run.stderr


LINUX_EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]


def fork_child(run):
    pid = os.fork()
    if not pid:
        try:
            run()
            time.sleep(30)
        finally:
            os._exit(1)
    return pid


def end_main_thread():
    threading.Thread(target=time.sleep, args=(30,)).start()
    ctypes.CDLL(None).syscall(LINUX_EXIT, 0)


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_child_has_ended_once_its_files_are_closed_and_not_with_its_first_thread():
    for run in (lambda: None, end_main_thread):
        pid = fork_child(run)
        time.sleep(0.2)
        assert not _has_ended(pid)
        end(pid)
    for megabytes in (1, 64):  # memory that takes a while to give back
        heard, says = os.pipe()
        pid = fork_child(lambda: (bytearray(os.urandom(1) * (megabytes << 20)), os.close(heard)))  # noqa: B023
        os.close(says)
        os.kill(pid, signal.SIGKILL)
        assert os.read(heard, 1) == b""  # its files are closed; it may not be ready to be waited for
        os.close(heard)
        assert _has_ended(pid)
        end(pid)


def test_the_zygotes_own_filter_lets_it_look():
    """Of a process that is kept on its way out by a thread; a filter that refused to look would say *goes on*."""
    heard, says = os.pipe()

    def look():
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        zygote_seccomp_filter().install()
        leaving, staying = fork_child(end_main_thread), fork_child(lambda: None)
        time.sleep(0.2)
        os.write(says, f"{has_released_memory(leaving)} {has_released_memory(staying)}".encode())
        end(leaving)
        end(staying)
        os._exit(0)

    zygote = fork_child(look)
    os.close(says)
    assert os.read(heard, 64) == b"True False"
    os.close(heard)
    assert os.waitpid(zygote, 0)[1] == 0
