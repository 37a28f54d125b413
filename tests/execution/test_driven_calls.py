"""Call tests in languages other than Python: values, verdicts, and programs that answer in the driver's place."""

# ruff: noqa: E501 - programs

import math

import pytest
from support.slow_cases import slow_but

from lit_rl.arguments import ArgumentError
from lit_rl.execution import CallTests, FailedCase, Sandbox
from lit_rl.execution.checks import CALL_TESTS
from lit_rl.execution.languages import how_to_install, toolchain

LANGUAGES = slow_but(("javascript",), [name for name in CALL_TESTS if name != "python"])


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2) as sandbox:
        yield sandbox


def judge(sandbox, language, jobs):
    """Outcome of each job: a program and the cases of its function ``f``, or a whole check."""
    if toolchain(language) is None:
        pytest.skip(how_to_install(language))
    checked = [
        (program, check if isinstance(check, CallTests) else CallTests(tuple(check), "f", 1.0, language=language))
        for program, check in jobs
    ]
    return sandbox.judge_many(checked)


# Functions of each language that return their argument, with values of its type.
VALUES = (
    None,
    True,
    False,
    3,
    -(2**53) + 1,
    2.5,
    1e300,
    "",
    'a"\\\n\té\u2028\U0001f600',
    [],
    [1, [2.5, "b"], None],
    {"k": [1, {"": {}}]},
)
SAME = {
    "javascript": [("const f = (x) => x;", VALUES)],
    "typescript": [("function f<T>(x: T): T { return x; }", VALUES)],
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_values_come_back_as_they_went(sandbox, language):
    right = [(program, [((value,), value) for value in values]) for program, values in SAME[language]]
    # The same function is wrong where any other value is wanted.
    wrong = [(program, [((one,), [one]) for one in values]) for program, values in SAME[language]]
    outcomes = judge(sandbox, language, right + wrong)
    for outcome, (program, _) in zip(outcomes[: len(right)], right, strict=True):
        assert outcome.passed, (program, outcome)
    for outcome in outcomes[len(right) :]:
        assert set(outcome.cases) == {"wrong_answer"}, outcome


# A function that adds; one whose third line fails if the first number is 10, with the name of the error; one without
# the function; a source whose third line does not parse; one that ends the process; one that changes its argument.
PROGRAMS = {
    "javascript": (
        "const fs = require('fs'), main = 1, file = 2;\nfunction f(a, b) { console.log('x'); return a + b; }",
        ("const f = (a, b) => {\n\nif (a === 10) null.x; return a + b; }", "TypeError"),
        "const g = 1;",
        "let a = 1;\n\nlet b = = 2;",
        "const f = () => process.exit(0);",
        "const f = (x) => { x.sort(); return x.length; }",
    ),
    "typescript": (
        "const fs: any = require('fs');\nexport function f(a: number, b: number): number { console.log('x'); return a + b; }",
        ("type A = any; const f = (a: A, b: A) => {\n\nif (a === 10) (null as A).x; return a + b; }", "TypeError"),
        "const g: number = 1;",
        "let a = 1;\n\nlet b = = 2;",
        "const f = () => process.exit(0);",
        "const f = (x: number[]) => { x.sort(); return x.length; }",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_verdicts_are_those_of_call_tests(sandbox, language):
    adds, (fails, name), without, unparsed, leaves, changes = PROGRAMS[language]
    sums = (((1, 2), 3), ((10, 20), 30), ((4, 5), 9))
    in_place = CallTests(((([3, 1, 2],), [1, 2, 3]),), "f", in_place=True, language=language)
    wanted = [(adds, sums), (adds, (((1, 2), 3), ((1, 2), 4))), (fails, sums), (without, sums), (unparsed, sums)]
    outcomes = judge(sandbox, language, [*wanted, (leaves, (((1, 2), 3),)), (changes, in_place)])
    right, wrong, failed, missing, broken, left, changed = outcomes
    assert right.passed and right.cases == ("passed",) * 3, right
    assert (wrong.verdict, wrong.failed_case) == ("wrong_answer", FailedCase(2, "f(1, 2)", "4", "3"))
    assert failed.cases == ("passed", "exception", "passed"), failed
    assert (failed.line, failed.exception_type) == (3, name), failed
    assert failed.failed_case == FailedCase(2, "f(10, 20)", "30")
    assert missing.verdict in ("exception", "syntax_error"), missing
    assert (broken.verdict, broken.line, broken.failed_case) == ("syntax_error", 3, None), broken
    assert left.verdict == "exception", left
    assert changed.passed, changed


# Programs that answer 3 to nothing that asks for it, or answer where nobody asked.
FORGED = "[3]\\n"
ATTACKS = {
    "javascript": [
        "const f = () => { for (;;); }", "const f = () => f();", "process.exit(0);", "const f = () => { throw null; };",
        f"require('fs').writeSync(3, '{{}}\\n[0]\\n{FORGED}'); process.reallyExit(0);",
        f"const fs = require('fs'); const f = () => {{ fs.ftruncateSync(3); fs.writeSync(3, '{FORGED}'); process.reallyExit(0); }};",
        f"const f = () => {{ setTimeout(() => require('fs').writeSync(3, '{FORGED}'), 1); return 0; }};",
        f"const f = () => {{ Promise.resolve().then(() => require('fs').writeSync(3, '{FORGED}')); return 0; }};",
        "JSON.parse = () => [3, 0]; JSON.stringify = () => '3'; const f = (a, b) => '';",
        "Object.prototype.toJSON = () => 3; const f = () => ({});", "Array.prototype.join = () => '3'; const f = () => [3];",
        "Object.entries = () => [3]; const f = () => ({});", "Promise.prototype.then = (g) => g(3); const f = async () => 0;",
        "const f = () => ({valueOf: () => 3, toString: () => '3', [Symbol.toPrimitive]: () => 3});",
        "const f = () => new Number(3);", "const f = () => [3];", "const f = () => '3';", "const f = () => NaN;",
        "const f = () => Infinity;", "const f = () => undefined;", "const f = () => '\\ud800';", "const f = () => 3n ** 20000n;",
        "const f = () => { const a = []; a.push(a, a); return a; };", "const f = () => new Promise(() => {});",
        "const f = () => 'x'.repeat(1 << 25);", "const f = () => new Array(1e7).fill([]);", "const f = () => Symbol();",
        "const f = () => new Proxy({}, {ownKeys() { process.exit(0); }});", "require('fs').closeSync(3); const f = () => 3;",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; const f = () => a;", "const f = () => f;", "const f = () => new Set([3]);",
    ],
}  # fmt: skip
ATTACKS["typescript"] = ATTACKS["javascript"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_can_forge_no_more_than_answers_of_its_own(sandbox, language):
    # No single answer fits both calls, and the second one is what the forgers write.
    outcomes = judge(sandbox, language, [(one, (((1, 1), 2), ((1, 2), 3))) for one in ATTACKS[language]])
    bad = {
        source: outcome
        for source, outcome in zip(ATTACKS[language], outcomes, strict=True)
        if outcome.verdict in ("passed", "infrastructure_failure", "no_program")
    }
    assert bad == {}


def test_promises_maps_and_large_numbers_are_values_in_javascript(sandbox):
    jobs = [
        ("const f = async (x) => x + 1;", [((1,), 2)]),
        ("class Solution { f(x) { return this.g(x); } g(x) { return x; } }", [((1,), 1)]),
        ("module.exports = {f: (x) => x};", [((1,), 1)]),
        ("export const f = (x) => x;", [((1,), 1)]),
        ("const f = (x) => new Map([[1, x]]);", [((2,), {1: 2})]),
        ("const f = () => [2n ** 64n, NaN, -Infinity, -0, undefined, new Uint8Array(2)];",
         [((), [2**64, math.nan, -math.inf, 0, None, [0, 0]])]),
    ]  # fmt: skip
    for outcome, (program, _) in zip(judge(sandbox, "javascript", jobs), jobs, strict=True):
        assert outcome.passed, (program, outcome)


@pytest.mark.parametrize(
    ("case", "language"),
    [(((1,), 1), "bash"), (((1,), 1), "c"), ((({1},), 1), "javascript"), (((1,), {1}), "javascript"),
     (((2**53,), 1), "javascript"), (((math.nan,), 1), "javascript"), (((b"",), 1), "javascript"),
     ((("\ud800",), 1), "javascript"), (((1,), {(1, 2): 1}), "javascript")],
)  # fmt: skip
def test_what_no_driver_carries_is_refused(case, language):
    with pytest.raises(ArgumentError, match="expected"):
        CallTests((case,), "f", language=language)
