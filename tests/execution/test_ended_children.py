"""The zygote tells a child that something else ended from one that it had to kill itself."""

import ctypes
import os
import signal
import threading
import time

import pytest

from lit_rl.execution import AssertTests, Sandbox, Verdict
from lit_rl.execution.confinement.kernel import PR_SET_NO_NEW_PRIVS, has_no_memory, prctl
from lit_rl.execution.confinement.seccomp import zygote_filter
from lit_rl.execution.zygote.zygote import _has_ended

LINUX_EXIT = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
GRADED = AssertTests("for i in (1, 2):\n    assert f(i) == i + 1", timeout_seconds=1.0)


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


def test_a_child_that_goes_on_has_not_ended():
    pid = fork_child(lambda: None)
    assert not _has_ended(pid)
    end(pid)


@pytest.mark.parametrize("megabytes", [1, 64])  # memory that takes a while to give back
def test_a_child_that_was_killed_a_moment_ago_has_ended(megabytes):
    for _ in range(5):
        heard, says = os.pipe()
        pid = fork_child(lambda: (bytearray(os.urandom(1) * (megabytes << 20)), os.close(heard)))  # noqa: B023
        os.close(says)
        os.kill(pid, signal.SIGKILL)
        assert os.read(heard, 1) == b""  # its files are closed; it may not be ready to be waited for
        os.close(heard)
        assert _has_ended(pid)
        end(pid)


def test_a_child_whose_first_thread_ended_goes_on():
    pid = fork_child(end_main_thread)
    time.sleep(0.2)
    assert not _has_ended(pid)
    end(pid)


def test_the_zygotes_own_filter_lets_it_look():
    """Of a process that is kept on its way out by a thread; a filter that refused to look would say *goes on*."""
    heard, says = os.pipe()

    def look():
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        zygote_filter().install()
        leaving, staying = fork_child(end_main_thread), fork_child(lambda: None)
        time.sleep(0.2)
        os.write(says, f"{has_no_memory(leaving)} {has_no_memory(staying)}".encode())
        end(leaving)
        end(staying)
        os._exit(0)

    zygote = fork_child(look)
    os.close(says)
    assert os.read(heard, 64) == b"True False"
    os.close(heard)
    assert os.waitpid(zygote, 0)[1] == 0


def test_no_program_masks_its_row_by_ending_its_first_thread():
    source = (
        "import ctypes, os, threading, time\ndef f(x):\n    threading.Thread(target=time.sleep, args=(9,)).start()\n"
        f"    os.closerange(3, 64)\n    ctypes.CDLL(None).syscall({LINUX_EXIT}, 0)"
    )
    with Sandbox(num_workers=1) as sandbox:
        outcome = sandbox.submit(source, GRADED).result(60)
    assert outcome.verdict in (Verdict.EXCEPTION, Verdict.TIMED_OUT), outcome
