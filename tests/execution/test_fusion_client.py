"""The client of a Sandbox Fusion server, against recorded answers and a server that runs the shim."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from uuid import UUID

import pytest
from support.http_server import answering

from lit_rl.data.robots.robot_checks import InventedWorlds
from lit_rl.execution import (
    AssertTests,
    CallTests,
    Checker,
    Sandbox,
    SandboxError,
    SandboxFusionClient,
    StdioTests,
    Verdict,
)

ADD = "def add(a, b):\n    return a + b\n"
ADDS = CallTests((((1, 2), 3), (([1], [2]), [1, 2])), "add")
SORTS = "def put(xs):\n    xs.sort()\n"
HELLO = StdioTests((("", "hello\n"),))


def finished(stdout="", stderr="", code=0, status="Finished"):
    result = {"status": status, "return_code": code, "stdout": stdout, "stderr": stderr, "execution_time": 0.01}
    good = status == "Finished" and code == 0
    return {"status": "Success" if good else "Failed", "compile_result": None, "run_result": result}


def run_for_real(request):
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", request["code"]], input=request["stdin"], text=True,
                capture_output=True, timeout=request["run_timeout"], cwd=folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return finished(status="TimeLimitExceeded", code=None)
    return finished(done.stdout, done.stderr, done.returncode)


class FusionServer:
    """Answers as a Sandbox Fusion server; ``answers`` come first, one a request: a status number or a content."""

    def __init__(self, answers=(), answer=run_for_real):
        self.requests, self.answers, self.answer = [], list(answers), answer
        self.busy = self.max_busy = 0
        self.lock = threading.Lock()
        self.serving = answering(self.reply)

    def reply(self, path, headers, request):
        with self.lock:
            self.requests.append(request)
            self.busy += 1
            self.max_busy = max(self.max_busy, self.busy)
            content = self.answers.pop(0) if self.answers else None
        try:
            content = self.answer(request) if content is None else content
        finally:
            with self.lock:
                self.busy -= 1
        if content == "hang up":
            return None
        status = content if isinstance(content, int) else 200
        return status, content if isinstance(content, bytes) else json.dumps(content).encode()

    def __enter__(self):
        self.url = self.serving.__enter__()
        return self

    def __exit__(self, *error):
        self.serving.__exit__(*error)


def client_of(server, **options):
    return SandboxFusionClient(server.url, **{"max_concurrency": 2, "request_seconds": 5.0, **options})


VERDICTS = (
    (ADD, ADDS, "passed"),
    (SORTS, CallTests(((([2, 1],), [1, 2]),), "put", in_place=True), "passed"),
    (SORTS, CallTests(((([2, 1],), [1, 2]),), "put"), "wrong_answer"),
    (ADD, AssertTests("assert add(1, 2) == 3\nassert add((), ()) == ()"), "passed"),
    ("class Solution:\n    def add(self, a, b): return a + b", ADDS, "passed"),
    ("print(input()[::-1])", StdioTests((("olleh", "hello"),)), "passed"),
    ("def add(a, b): return 3", ADDS, "wrong_answer"),
    ("def add(a, b):\n    print('x' * 200000)\n    return a + b", ADDS, "passed"),
    ("def add(a, b): return 'x' * 200000", ADDS, "output_limit"),
    ("class E:\n    def __eq__(s, o): return True\ndef add(a, b): return E()", ADDS, "wrong_answer"),
    ("import os\nos._exit(0)", ADDS, "exception"),
    ("raise SystemExit(0)", ADDS, "exception"),
    ("def add(a, b): return a / 0", ADDS, "exception"),
    ("def add(a, b) return a", ADDS, "syntax_error"),
    ("while True: pass", CallTests(ADDS.cases, "add", timeout_seconds=0.2), "timed_out"),
    ("print('hello')\nraise SystemExit(1)", HELLO, "exception"),
    ("", HELLO, "no_program"),
)


def test_verdicts_of_a_server_that_runs_the_shim():
    with FusionServer() as server, client_of(server) as client:
        outcomes = client.judge_many([(program, check) for program, check, _ in VERDICTS])
    assert [row for row, outcome in zip(VERDICTS, outcomes, strict=True) if outcome.verdict != row[2]] == []


def test_an_argument_that_cannot_cross_is_a_fault_of_ours():
    with FusionServer() as server, client_of(server) as client:
        outcome = client.submit(ADD, CallTests((((UUID(int=1), 1), 1),), "add")).result(30)
    assert (outcome.verdict, server.requests) == (Verdict.INFRASTRUCTURE_FAILURE, [])


def test_expected_values_are_never_sent():
    checks = (
        CallTests((((1, 2), 77003), ((3, 4), "secret answer")), "add"),
        AssertTests("assert add(1, 2) == 77003"),
        StdioTests((("", "secret answer 77003"),)),
    )
    with FusionServer() as server, client_of(server) as client:
        client.judge_many([(ADD, check) for check in checks])
    sent = json.dumps(server.requests)
    assert "add" in sent
    assert "77003" not in sent and "secret answer" not in sent


PRINTS = "print('hello')"
HELLO_IN_CPP = StdioTests((("", "hello"),), language="cpp")
NO_SYNTAX = finished("", '  File "x", line 1\nSyntaxError: invalid syntax', 1)
NOT_COMPILED = {"status": "Failed", "run_result": None, "compile_result": {"status": "Finished", "return_code": 1}}
# A server compiles once more what is said not to compile.
RECORDED = [
    (PRINTS, HELLO, finished("hello\n"), "passed", 1),
    (PRINTS, HELLO, finished("hello\nmore\n\x1b[2J", "\x1b"), "wrong_answer", 1),
    (PRINTS, HELLO, finished("hello\n", "Traceback\nValueError: x", 1), "exception", 1),
    (PRINTS, HELLO, finished("", "Traceback\nMemoryError", 1), "out_of_memory", 1),
    (PRINTS, HELLO, finished("hello\n", status="TimeLimitExceeded", code=None), "timed_out", 1),
    (PRINTS, HELLO, {"status": "Failed", "compile_result": {"status": "TimeLimitExceeded"}}, "timed_out", 1),
    (PRINTS, HELLO, NO_SYNTAX, "exception", 2),
    ("print('hello'", HELLO, NO_SYNTAX, "syntax_error", 2),
    ("int main() {", HELLO_IN_CPP, NOT_COMPILED, "syntax_error", 1),
]


def test_recorded_answers():
    for program, check, answer, verdict, num_requests in RECORDED:
        with FusionServer([answer]) as server, client_of(server) as client:
            outcome = client.submit(program, check).result(30)
            assert (outcome.verdict, len(server.requests)) == (verdict, num_requests), (program, answer)
            assert "\x1b" not in outcome.stdout + outcome.stderr


FAILURES = [429, 500, "hang up", {"status": "SandboxError"}, {"status": "Failed", "run_result": {"status": "Error"}},
            b"[" * 100_000, {"status": "Success", "run_result": {"status": "Finished", "stdout": [1]}}]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES, ids=str)
def test_a_failure_of_the_server_is_tried_again_and_then_never_a_zero(failure):
    with FusionServer([failure]) as server, client_of(server) as client:
        assert client.submit("print('hello')", HELLO).result(30).passed
        assert len(server.requests) == 2
    with FusionServer([failure] * 4) as server, client_of(server, num_tries=2) as client:
        with pytest.raises(SandboxError, match="known good"):
            client.submit("print('hello')", HELLO).result(30)
        assert len(server.requests) == 4


def test_a_program_at_which_a_working_server_fails_each_time_has_failed():
    def fails_at_one(request):
        return 500 if "boom" in request["code"] else run_for_real(request)

    with FusionServer(answer=fails_at_one) as server, client_of(server, num_tries=1) as client:
        outcome = client.submit("print('boom')", HELLO).result(30)
    assert (outcome.verdict, "known good" in outcome.stderr) == (Verdict.EXCEPTION, True)


def test_a_program_cannot_mask_its_row_by_what_it_prints():
    """Long output is read no further; a shim's answer that is no plain data is a wrong answer."""
    with FusionServer([finished("hello\n" * (1 << 20))]) as server, client_of(server) as client:
        assert client.submit("print('hello')", HELLO).result(30).verdict is Verdict.OUTPUT_LIMIT
    for line in ('["b",5]', '["Fraction","0x1","0x0"]', "[" * 2000, "\ud800", '{"types":[[]]}', "[[],[]]", "", "\x00"):
        answer = finished("{}\n" + f"{line}\n" * 3)
        with FusionServer([answer]) as server, client_of(server) as client:
            outcome = client.submit(ADD, CallTests((((1, 2), 3),), "add")).result(30)
            assert outcome.verdict in (Verdict.WRONG_ANSWER, Verdict.EXCEPTION), (line, outcome)


def test_no_server_and_one_that_does_not_answer_stop_the_run():
    def slow(request):
        time.sleep(1.0)
        return finished("hello")

    with FusionServer(answer=slow) as server:
        nobody = SandboxFusionClient("http://127.0.0.1:9", num_tries=2)
        for made in (nobody, client_of(server, request_seconds=0.1, wall_factor=0.01, num_tries=1)):
            with made as client, pytest.raises(SandboxError, match="known good"):
                client.submit("x = 1", HELLO).result(30)


def test_no_more_requests_than_allowed_run_at_once_and_order_is_kept():
    def slow(request):
        time.sleep(0.02)
        return finished(request["code"])

    programs = [(str(i), StdioTests((("", str(i)),))) for i in range(40)]
    with FusionServer(answer=slow) as server, client_of(server, max_concurrency=3) as client:
        outcomes = client.judge_many(programs)
    assert [outcome.stdout for outcome in outcomes] == [str(i) for i in range(40)]
    assert all(outcome.passed for outcome in outcomes)
    assert server.max_busy == 3


def test_environment_gives_address_and_concurrency(monkeypatch):
    monkeypatch.delenv("SANDBOX_URL", raising=False)
    with pytest.raises(ValueError, match="SANDBOX_URL"):
        SandboxFusionClient()
    monkeypatch.setenv("SANDBOX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("SANDBOX_MAX_CONCURRENCY", "5")
    with SandboxFusionClient() as client:
        assert (client.url, client._pool._max_workers) == ("http://127.0.0.1:9", 5)


def test_outcomes_say_what_those_of_the_local_sandbox_say():
    asserts = AssertTests("assert add(1, 2) == 3\nassert add(1, 'x') == 3")
    printed = StdioTests((("1", "1"), ("2", "3"), ("", "")))
    programs = [
        (ADD, asserts),
        (ADD, ADDS),
        ("def add(a, b)\n", asserts),
        ("\n\ndef add(a, b):\n    return a / 0", ADDS),
        ("def add(a, b):\n    return range(10**7)", ADDS),
        ("print(input())", printed),
        ("import sys\nprint(sys.stdin.read())", printed),
        (" \n", printed),
    ]
    with FusionServer() as server, client_of(server) as client, Sandbox(num_workers=1, tier=0) as sandbox:
        remote, local = client.judge_many(programs), sandbox.judge_many(programs)

    def told(outcome):
        return outcome.verdict, outcome.cases, outcome.stdout, outcome.scores

    assert [told(outcome) for outcome in remote] == [told(outcome) for outcome in local]
    calls = slice(0, 5)  # of whole programs the server tells no more than the exit status
    assert [(o.exception_type, o.line) for o in remote[calls]] == [(o.exception_type, o.line) for o in local[calls]]


LONG = "x" * 60_000
CHECKS_THAT_RAISE = {
    "do more than compare": AssertTests("for i in range(3): assert add(i, i) == 2 * i"),
    "cannot run c:": StdioTests((("", ""),), language="c"),
    "a checker": StdioTests((("", ""),), checker=Checker("int main() {}")),
    "InventedWorlds cannot": InventedWorlds(),
    r"AssertTests\(in_place=True\)": AssertTests("assert add(1, 2) == 3", in_place=True),
    r"AssertTests\(allow_objects=True\)": AssertTests("assert add(1, 2) == 3", allow_objects=True),
    # The server takes output over 150 kB for a time-out (seen on the real one).
    "the expected 200000 bytes": StdioTests((("", "x" * 200_000),)),
    "the expected 120006 bytes of answers": CallTests((((1,), LONG), ((2,), LONG)), "f"),
    "the expected 120006 bytes": AssertTests(f"assert f(1) == '{LONG}'\nassert f(2) == '{LONG}'"),
}


def test_what_a_server_cannot_judge_is_refused_with_what_to_do():
    with FusionServer() as server, client_of(server) as client:
        for message, check in CHECKS_THAT_RAISE.items():
            with pytest.raises(ValueError, match=f"{message}.* local Sandbox"):
                client.submit(ADD, check)
        assert client.submit("def f(x): return 'x' * 60_000\n", CallTests((((1,), LONG),), "f")).result().passed


@pytest.mark.skipif(not os.environ.get("SANDBOX_URL"), reason="no Sandbox Fusion server: set SANDBOX_URL")
def test_the_real_server():
    with SandboxFusionClient() as client:
        outcomes = client.judge_many([(ADD, ADDS), ("def add(a, b): return 3", ADDS), ("print('hello')", HELLO)])
    assert [outcome.verdict.value for outcome in outcomes] == ["passed", "wrong_answer", "passed"]


def test_a_client_that_was_closed_can_be_opened_again():
    client = SandboxFusionClient("http://127.0.0.1:9", num_tries=1, max_concurrency=1)
    client.close()
    for _ in range(5):  # one more than may be pending: what is refused is not
        with pytest.raises(RuntimeError):
            client.submit("def f(): return 1", AssertTests("assert f() == 1"))
    client.reopen()
    with pytest.raises(SandboxError, match="known good"):  # asked, and nobody was there
        client.judge_many([("def f(): return 1", AssertTests("assert f() == 1"))])
    client.close()
