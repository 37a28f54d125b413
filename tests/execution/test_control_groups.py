"""Groups that a worker makes in tier 2 go with it, however it ends, even if root only delegated its own group."""

import os
import time
from pathlib import Path

import pytest
import suites

KINDS = ("memory", "pids")
ROOT = Path("/sys/fs/cgroup")


def own_group(kind):
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kinds, path = line.split(":", 2)
        if kind in kinds.split(","):
            return ROOT / kind / path.strip("/")
    pytest.skip("no control groups of version 1 here")


@pytest.fixture
def delegated():
    """Groups of an ordinary user, in which it may make others."""
    if os.geteuid() != 0 or not all(os.access(ROOT / kind, os.W_OK) for kind in KINDS):
        pytest.skip("nobody delegates control groups here: not root, or not of version 1")
    folders = [own_group(kind) / f"test-{os.getpid()}-{os.urandom(4).hex()}" for kind in KINDS]
    try:
        for folder in folders:
            folder.mkdir()
            for path in (folder, *folder.iterdir()):
                os.chown(path, suites.ORDINARY_USER, suites.ORDINARY_USER)
        yield folders
    finally:
        for folder in folders:
            for group in [*folder.glob("lit_rl-*"), folder]:
                wait_until_empty(group)
                group.rmdir()


def wait_until_empty(group):
    for _ in range(200):
        if not (group / "cgroup.procs").read_text():
            return
        time.sleep(0.05)


BEGIN = """
import os, signal, sys, time
from lit_rl.execution import Sandbox, StdioTests
slow = ("import time\\ntime.sleep(0.5)\\nprint('hello')", StdioTests((("", "hello"),)))
sandbox = Sandbox(1, tier=2)
future = sandbox.submit(*slow)
while not future.running(): time.sleep(0.01)
time.sleep(0.2)
judge = sandbox._workers[0]._process.pid
os.kill(judge, signal.SIGKILL)
"""
PASSES = "assert future.result(30).passed\nprint('passed')\nsandbox.close()"


def run(delegated, code):
    def join():
        for folder in delegated:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    done = suites.as_ordinary_user("-c", BEGIN + code, before=join)
    assert done.returncode in (0, -9), done.stderr
    return done.stdout


def left(delegated):
    return [group.name for folder in delegated for group in folder.glob("lit_rl-*")]


def test_groups_of_a_judge_that_was_killed_are_removed(delegated):
    assert run(delegated, PASSES) == "passed\n"
    assert left(delegated) == []


def test_groups_of_a_judge_that_was_killed_with_its_trainer_go_with_the_next(delegated):
    run(delegated, "os.kill(os.getpid(), signal.SIGKILL)")
    assert len(left(delegated)) == len(KINDS)
    for folder in delegated:
        for group in folder.glob("lit_rl-*"):
            wait_until_empty(group)
    assert run(delegated, PASSES) == "passed\n"
    assert left(delegated) == []
