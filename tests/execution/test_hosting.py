"""Programs that call an object which lives outside their process."""

import contextlib
import re
import socket
import sys
import threading
import time

import pytest
from support.slow_cases import slow_but

from lit_rl.execution import Verdict
from lit_rl.execution.judging.hosting import run_hosted
from lit_rl.execution.judging.supervising.child_files import ChildFiles, read_tail
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.spawning import ZygoteSettings


class RobotGoToError(Exception):
    pass


class World:
    functions = ("go_to", "ask")

    def __init__(self):
        self.trace = []

    def call(self, name, args, kwargs):
        self.trace.append([name, *args])
        if args == ("nowhere",):
            raise RobotGoToError("RobotGoToError: no such place")
        return {"go_to": None, "ask": ["yes", ("no", 3)]}[name]


@pytest.fixture(scope="module")
def client():
    reader, writer = socket.socketpair()
    with reader, writer, contextlib.closing(client_of(reader)) as client:
        yield client


def client_of(trainer):
    return ZygoteClient(ZygoteSettings(256 << 20, 1 << 20), trainer.fileno(), trainer.fileno())


def run(client, body, **options):
    world = World()
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    options = {"entry_point": "task_program", "timeout_seconds": 0.5, **options}
    return run_hosted(client, f"def task_program():\n{lines}", world, **options), world.trace


def test_calls_reach_the_object_and_answers_come_back_and_a_time_out_keeps_the_trace(client):
    result, trace = run(client, "x = ask('a', options=[])\nassert x == ['yes', ('no', 3)]\ngo_to('kitchen')")
    assert result.verdict is Verdict.PASSED
    assert trace == [["ask", "a"], ["go_to", "kitchen"]]
    result, trace = run(client, "go_to('a')\ngo_to('b')\nwhile True: pass")
    assert (result.verdict, trace) == (Verdict.TIMED_OUT, [["go_to", "a"], ["go_to", "b"]])


ABUSES = {
    "not a call": "import os\nos.write(4, b'[1]\\n')\nwhile True: pass",
    "closed channel": "import os\nos.close(4)\ngo_to('a')",
    "silent exit": "import os\nos._exit(0)",
    "never reads": 'import os\nwhile True: os.write(4, b\'["call","ask",["t"],["d"]]\\n\')',
    "object": "go_to(go_to)\nraise ValueError",
}
MALFORMED = {
    "no JSON": b"\xff\xfe{",
    "no such function": b'["call","fly",["t"],["d"]]',
    "names that are numbers": b'["call","ask",["t"],["d",1,2]]',
    "nested for ever": b'["call","ask",' + b"[" * 5000 + b"]" * 5000 + b',["d"]]',
    "an end of types that are lists": b'["end",{"types":[[[]]],"line":[],"message":{}}]',
}


def test_a_malformed_message_is_the_programs_fault_and_the_next_program_is_judged_for_itself(client):
    """A report that is left unread would be taken for that of the next one."""
    malformed = {name: f"import os\nos.write(4, {line!r} + b'\\n')\nos.read(4, 1)" for name, line in MALFORMED.items()}
    for name, body in (ABUSES | malformed).items():
        result, _ = run(client, body)
        assert result.verdict in (Verdict.EXCEPTION, Verdict.TIMED_OUT), name
        assert run(client, "go_to('a')")[0].verdict is Verdict.PASSED, name
        assert run(client, "raise ValueError")[0].outcome.exception_type == "ValueError", name


def test_a_job_whose_report_nobody_took_is_not_the_next_jobs(client):
    left = {"mode": "stdio", "source": "while True: pass"}
    with ChildFiles(left) as child:
        client.start([child], 0.3)
    with ChildFiles({"mode": "stdio", "source": "print('hi')"}) as child:
        report = client.run([child], 5.0)
        assert (report.timed_out, report.children[0].status) == (False, 0)
        assert read_tail(child.stdout) == "hi\n"


def test_a_call_too_long_to_be_read_ends_the_program_at_once(client):
    """Else it would stand there, writing, until its wall limit: ``timed_out``."""
    result, trace = run(client, "go_to('a')\ngo_to('x' * (4 << 20))")
    assert (result.verdict, result.outcome.exception_type) == (Verdict.WRONG_ANSWER, "NotCarried")
    assert result.message == "a value that cannot be carried: more than 1048576 bytes"
    assert trace == [["go_to", "a"]]


URGENT = "import socket, threading\ns = socket.socket(fileno=4)\ns.send(b'x', socket.MSG_OOB)\n"
UNREAD = 'import os\nfor _ in range(9_000): os.write(4, b\'["call","ask",["t"],["d"]]\\n\')\n'
STALLING = {
    "urgent, then waits": URGENT + "threading.Event().wait()",
    "urgent, again and again": URGENT + "while True: s.send(b'x', socket.MSG_OOB)",
    "urgent before a call": URGENT + "go_to('a')\nthreading.Event().wait()",
    "half a call": "import os, threading\nos.write(4, b'[\"call\",')\nthreading.Event().wait()",
    "reads no answer and waits": UNREAD + "import threading\nthreading.Event().wait()",
    "reads no answer and works": UNREAD + "while True: pass",
    "sends its own end of the channel": (
        "import array, socket, threading\ns = socket.socket(fileno=4)\n"
        "s.sendmsg([b'['], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [4]))])\n"
        "threading.Event().wait()"
    ),
    "reads nothing any more": "import socket\nsocket.socket(fileno=4).shutdown(0)\nwhile True: go_to('a')",
}


@pytest.mark.parametrize("name", slow_but(list(STALLING)[1::2], STALLING))
def test_no_program_makes_the_supervisor_wait_or_spin(client, name):
    """The wall limit of these is 1.6 s; a supervisor that waits for one of them hangs, one that spins takes as much."""
    used = time.process_time()
    assert run(client, STALLING[name], timeout_seconds=0.2)[0].verdict in (Verdict.EXCEPTION, Verdict.TIMED_OUT)
    assert time.process_time() - used < 0.8
    assert run(client, "go_to('a')")[0].verdict is Verdict.PASSED


@pytest.mark.parametrize("name", slow_but(("urgent, then waits", "reads no answer and works"), STALLING))
def test_a_trainer_that_hangs_up_is_noticed_whatever_the_program_does(name):
    reader, writer = socket.socketpair()
    with reader, contextlib.closing(client_of(reader)) as own:
        hang_up = threading.Timer(0.3, writer.close)
        hang_up.start()
        began = time.monotonic()
        try:
            result, _ = run(own, STALLING[name], timeout_seconds=30.0)
        except SystemExit:
            assert time.monotonic() - began < 10
        else:
            assert result.verdict is Verdict.EXCEPTION  # ended as soon as it sent what no honest program does
        hang_up.join()


def spend(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


class Slow(World):
    def call(self, name, args, kwargs):
        super().call(name, args, kwargs)
        if args[0] == "for ever":
            while True:
                pass
        if args[0] == "in one search":
            re.search("(a+)+$", "a" * 60 + "!")
        spend(0.01)


@pytest.mark.parametrize("body", ["go_to('for ever')", "go_to('in one search')", "for _ in range(500): go_to('a')"])
def test_the_hosts_cpu_seconds_count_as_the_programs(client, monkeypatch, body):
    monkeypatch.setattr(sys.modules[__name__], "World", Slow)
    used = time.process_time()
    result, trace = run(client, body)
    assert result.verdict is Verdict.TIMED_OUT and 1 <= len(trace) < 500
    assert time.process_time() - used < 2.0
    assert run(client, "go_to('a')")[0].verdict is Verdict.PASSED


def test_seconds_of_the_host_and_of_the_program_are_added_up(client, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "World", Slow)
    work = "import time\nfor i in range(35):\n    go_to('a')\n    while time.process_time() < 0.01 * i: pass"
    result, trace = run(client, work, timeout_seconds=0.5)
    assert result.verdict is Verdict.TIMED_OUT and len(trace) < 35
    assert run(client, work, timeout_seconds=10.0)[0].verdict is Verdict.PASSED


def test_an_argument_that_cannot_be_carried_is_a_wrong_answer_though_the_program_catches_all(client):
    result, trace = run(client, "try:\n    go_to(range(10**7))\nexcept BaseException:\n    pass\n")
    assert (result.verdict, result.outcome.exception_type, trace) == (Verdict.WRONG_ANSWER, "NotCarried", [])
