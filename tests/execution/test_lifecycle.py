"""Workers die, batches are late, trainers end: nothing hangs, nothing is lost, nothing is left over."""

import copy
import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import suites
from suites import state
from support.slow_cases import slow_but

from lit_rl.execution import AssertTests, Sandbox, SandboxError, StdioTests, Verdict
from lit_rl.execution import sandbox as sandbox_module
from lit_rl.execution.confinement.box import BoxLimits, run_boxed
from lit_rl.execution.languages import LANGUAGES

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
HELLO = ("print('hello')", StdioTests((("", "hello"),)))
BUSY = ("while True: pass", StdioTests((("", ""),), timeout_seconds=60))
# Long enough to be killed in the middle of, short enough to wait for.
SLOW = ("import time\ntime.sleep(0.4)\nprint('hello')", StdioTests((("", "hello"),), timeout_seconds=2))


def eventually(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def processes_of(folder):
    return suites.processes_with(str(folder))


def worker_pid(sandbox):
    return sandbox._workers[0]._process.pid


def started(future):
    return eventually(future.running)


@pytest.mark.parametrize(("tier", "killed"), [(None, "worker"), (0, "zygote")])
def test_a_worker_or_zygote_that_is_killed_is_replaced_and_its_program_tried_again(tmp_path, tier, killed):
    with Sandbox(num_workers=1, tier=tier, temporary_folder=str(tmp_path)) as sandbox:
        future = sandbox.submit(*SLOW)
        assert started(future)
        time.sleep(0.1)
        for pid in [worker_pid(sandbox)] if killed == "worker" else processes_of(tmp_path):
            os.kill(int(pid), signal.SIGKILL)
        assert future.result(30).passed
        assert sandbox.submit(*HELLO).result(30).passed
    assert (processes_of(tmp_path), os.listdir(tmp_path)) == ([], [])


def test_a_program_whose_worker_is_lost_again_and_again_beside_a_known_good_one_has_failed():
    """Item 61: nothing waits without an end."""

    def runs_the_program():  # not the known good one, which ends within a moment
        pid = sandbox._workers[0] and worker_pid(sandbox)
        time.sleep(0.7)
        return pid is not None and pid == (sandbox._workers[0] and worker_pid(sandbox)) and pid

    with Sandbox(num_workers=1, memory_bytes=64 << 20) as sandbox:
        future, behind = sandbox.submit(*BUSY), sandbox.submit(*HELLO)
        assert started(future)
        while not future.done():
            pid = runs_the_program()
            if pid and not future.done():
                os.kill(pid, signal.SIGKILL)
        outcome = future.result(30)
        assert (outcome.verdict, "known good program passed" in outcome.stderr) == (Verdict.EXCEPTION, True)
        assert behind.result(30).passed


def test_a_machine_that_runs_no_known_good_program_stops_the_run_and_judges_nobody(monkeypatch):
    monkeypatch.setattr(sandbox_module, "_PAUSES", (0.01, 0.02))
    monkeypatch.setitem(LANGUAGES, "python", replace(LANGUAGES["python"], good="raise OSError{num_bytes}"))
    with Sandbox(num_workers=1) as sandbox:
        future = sandbox.submit(*BUSY)
        assert started(future)
        time.sleep(0.1)
        os.kill(worker_pid(sandbox), signal.SIGKILL)
        with pytest.raises(SandboxError, match="machine"):
            future.result(30)
        assert sandbox.submit(*HELLO).result(30).passed


def test_closing_ends_what_runs_and_answers_what_waits(tmp_path):
    sandbox = Sandbox(num_workers=1, temporary_folder=str(tmp_path))
    futures = [sandbox.submit(*BUSY) for _ in range(3)]
    assert started(futures[0])
    begun = time.monotonic()
    sandbox.close()
    assert time.monotonic() - begun < 5.0
    for future in futures:
        with pytest.raises(SandboxError, match="closed"):
            future.result(1)
    assert (processes_of(tmp_path), os.listdir(tmp_path)) == ([], [])
    with pytest.raises(SandboxError, match="closed"):
        sandbox.submit(*HELLO)


def test_descriptors_do_not_grow():
    with Sandbox(num_workers=1) as sandbox:
        sandbox.judge_many([HELLO] * 5)
        pid = worker_pid(sandbox)
        before = len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{pid}/fd"))
        graded = AssertTests("def check(c):\n    for i in range(3):\n        assert c(i) == i\n", "f")
        sandbox.judge_many([HELLO, ("def f(x): return x", graded)] * 20)
        assert (len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{pid}/fd"))) == before


def test_a_sandbox_is_only_its_arguments_until_its_first_program(tmp_path):
    before = state(str(tmp_path))
    made = Sandbox(num_workers=1, tier=0, packages=[], temporary_folder=str(tmp_path))
    assert state(str(tmp_path)) == before
    for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
        assert copied.judge_many([HELLO])[0].passed
        assert copied.tier == 0
        again = pickle.loads(pickle.dumps(copied))
        assert not again.is_running and copied.is_running, "a copy of a running sandbox has workers of its own"
        copied.close()
        with pytest.raises(SandboxError, match="closed"):
            copied.start()
    made.close()  # that never started
    assert state(str(tmp_path)) == before


def test_many_threads_start_a_sandbox_once_and_may_end_before_their_programs(tmp_path):
    sandbox, futures = Sandbox(num_workers=2, temporary_folder=str(tmp_path)), []
    threads = [threading.Thread(target=lambda: futures.append(sandbox.submit(*SLOW))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sandbox._workers) == len(sandbox._threads) == 2
    assert all(future.result(30).passed for future in futures)
    sandbox.close()


SHORT = """
import logging, resource, sys
logging.basicConfig(level=logging.WARNING, format='%(message)s')
from lit_rl.execution import Sandbox, SandboxError
Sandbox(1, tier=0, temporary_folder=sys.argv[1]).start().close()
for number in {numbers}:
    resource.setrlimit(resource.{limit}, (number, number))
    try: Sandbox(2, tier=0, temporary_folder=sys.argv[1]).start()
    except SandboxError as error: print(error)
"""


def test_the_tier_and_too_few_descriptors_are_told_at_start(tmp_path):
    code = SHORT.format(limit="RLIMIT_NOFILE", numbers=(60, 20))
    done = subprocess.run([sys.executable, "-c", code, tmp_path], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stderr.startswith("sandbox: 1 workers, tier 0: ")
    assert [("ulimit -n 96" in line) for line in done.stdout.splitlines()] == [True, True], done.stderr
    assert os.listdir(tmp_path) == []


def test_too_few_processes_are_an_error_at_start_that_says_what_to_do(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/tmp") and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    tmp_path.chmod(0o777)
    done = suites.as_ordinary_user("-c", SHORT.format(limit="RLIMIT_NPROC", numbers=(5, 3, 0)), tmp_path)
    assert [("ulimit -u" in line) for line in done.stdout.splitlines()] == [True] * 3, done.stderr
    assert os.listdir(tmp_path) == []


@pytest.fixture
def stress(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("sandbox_stress")


@pytest.mark.slow
@pytest.mark.parametrize("tier", [None, 0])
def test_chaos_makes_no_verdict_wrong_and_leaves_nothing(tier, stress):
    found = stress.run("kills", 3, 10.0, num_workers=4, tier=tier, max_rounds=1)
    assert found.faults == [] and found.verdicts.total() == 200


def test_a_programs_garbage_hurts_no_other_program(stress):
    found = stress.run("garbage", 0, 10.0, num_workers=1, max_rounds=2)
    assert (found.rounds, found.faults) == (2, [])
    assert 0 < found.peak < stress.MAX_MEGABYTES
    assert found.verdicts.total() == 2 * 40 and found.verdicts["passed: passed"] > 0
    assert not found.verdicts["wrong: passed"] and any(name.startswith("wrong: ") for name in found.verdicts)


TRAINER = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job begins without
from lit_rl.execution import Sandbox, StdioTests
with Sandbox(num_workers=2, tier=eval(sys.argv[2]), temporary_folder=sys.argv[1]) as sandbox:
    busy = ("open('x', 'w').write('y')\\nwhile True: pass", StdioTests((("", ""),), timeout_seconds=60))
    futures = [sandbox.submit(*busy) for _ in range(4)]
    while not futures[1].running(): pass
    print("started", flush=True)
    futures[3].result()
"""


def begun(code, *arguments, **options):
    """A process that runs this code, once it says that it has started."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT, **options)
    assert trainer.stdout.readline() == b"started\n"
    return trainer


def require_gone(trainer, folder, seconds):
    trainer.wait(20)
    trainer.stdout.close()
    assert eventually(lambda: not [p for p in processes_of(folder) if p != str(trainer.pid)], seconds)
    assert eventually(lambda: os.listdir(folder) == [], seconds)


ENDS = [(signal.SIGKILL, None), (signal.SIGKILL, 0), (signal.SIGINT, None), (signal.SIGTERM, None)]


@pytest.mark.parametrize(("number", "tier"), slow_but(ENDS[1:3], ENDS))
def test_a_trainer_that_ends_in_any_way_leaves_nothing(tmp_path, number, tier):
    """Item 61: no process and no file stays behind."""
    trainer = begun(TRAINER, tmp_path, tier, start_new_session=True)
    time.sleep(0.2)
    assert processes_of(tmp_path)
    # Ctrl-C at a terminal reaches the whole group.
    os.killpg(trainer.pid, number) if number == signal.SIGINT else trainer.send_signal(number)
    require_gone(trainer, tmp_path, 10.0)


HOLDING = """
import json, sys
from lit_rl.data.robots.robot_checks import InventedWorlds, RobotTest, RobotWorlds
from lit_rl.execution import Sandbox
programs = json.loads(sys.argv[2])
slow = "(a+)+$"  # the world, or the check, that has such a pattern needs hours for the programs' texts
state = {"locations": ["a"], "objects": {"a": [slow]}, "agents": {}, "robot_location": "a"}
given = RobotWorlds((RobotTest(state, False, ["exists", "trace", ["Say", slow]]),), timeout_seconds=60)
with Sandbox(num_workers=len(programs), temporary_folder=sys.argv[1]) as sandbox:
    invented = InventedWorlds(num_worlds=9, timeout_seconds=60)
    futures = [
        sandbox.submit("def task_program():\\n    " + program, given if "aaaa" in program else invented)
        for program in programs
    ]
    while not all(future.running() or future.done() for future in futures): pass
    print("started", flush=True)
    futures[-1].result()
"""
URGENT = "import socket, threading; s = socket.socket(fileno=4); s.send(b'x', socket.MSG_OOB); "
HOLDS = [
    URGENT + "threading.Event().wait()",
    URGENT.replace("b'x'", "b'['") + "say('a'); threading.Event().wait()",
    'import os\n    while True: os.write(4, b\'["call","get_all_rooms",["t"],["d"]]\\n\')',
    "is_in_room('" + "a" * 60 + "!')",
    "say('" + "a" * 60 + "!')",
]


def test_a_killed_trainer_leaves_nothing_whatever_its_programs_do_to_their_judges(tmp_path):
    trainer = begun(HOLDING, tmp_path, json.dumps(HOLDS))
    time.sleep(0.5)
    trainer.kill()
    require_gone(trainer, tmp_path, 3.0)


def test_a_supervisor_whose_trainer_ended_runs_no_further_command(tmp_path, monkeypatch):
    parents = iter([1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 2))
    with pytest.raises(SystemExit):
        run_boxed("sleep 60", tmp_path, BoxLimits(60))
