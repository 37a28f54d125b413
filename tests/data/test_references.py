"""References of the real data sets, run: what the checks of the DataModules accept and what they refuse."""

import ast
import contextlib
import gzip
import json
from collections.abc import Iterator, Sequence

import pytest
from support.json_rows import write_rows
from support.named_jobs import among, judge_named, not_among

from lit_rl.data.contests.deepcoder import DeepCoder
from lit_rl.data.humaneval import HumanEval
from lit_rl.data.mbpp import MBPP, MBPPPlus
from lit_rl.execution.checks import CallTests
from lit_rl.execution.sandbox import Sandbox
from lit_rl.types import Problem

HUMANEVAL = "humaneval/HumanEval.jsonl.gz"
FULL = "mbpp/mbpp.jsonl.gz"
SANITIZED = "mbpp/sanitized-mbpp.json.gz"
ORIGIN = "evalplus/MbppPlus-OriginFmt.jsonl.gz"
LEETCODE = "competitive/leetcode_functional_train.jsonl.gz"

# References that do not pass, each with its reason.
PLUS_EXCEPTIONS = {
    "mbpp/255": "one answer has 79,079 tuples of 76 items: more memory than a program has",
    "mbpp/599": "adds up a hundred million numbers some twenty times: more time than a program has",
}
NOT_IN_STANDARD_LIBRARY = ("sortedcontainers", "numpy")


def failing(sandbox: Sandbox, problems: Sequence[Problem]) -> set[str]:
    jobs = {problem.task_id: (problem.reference, problem.check) for problem in problems}
    return set(not_among(judge_named(sandbox, jobs), "passed"))


def imports_foreign(problem: Problem) -> bool:
    imports = [line for line in problem.reference.split("\n") if line.startswith(("from ", "import "))]
    return any(name in line for line in imports for name in NOT_IN_STANDARD_LIBRARY)


# A match of a regular expression stands for true, and no tests look closer: there the lie is ``None``.
WRONG = 'not value if isinstance(value, bool) else None if hasattr(value, "span") else "no such value"'
LIES = ("float('inf')", "float('nan')", "type(value)", "Same()", "[Same()]")


def wrong_once(problem: Problem, lie: str = WRONG) -> str:
    """The reference, with an entry point that lies at its first call and is right ever after."""
    target = getattr(problem.check, "entry_point", None) or problem.fields["entry_point"]
    return f"""{problem.reference}

class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(self): return 0
    def __sub__(self, other): return 0
    __rsub__ = __abs__ = __sub__
    def __float__(self): return 0.0
    def __len__(self): return 0
    def __iter__(self): return iter(())

def lie_once(function, called=[]):
    def lying(*arguments, **options):
        first = not called  # a recursive function calls itself through here
        called.append(1)
        value = function(*arguments, **options)
        return ({lie}) if first else value
    return lying

{target} = lie_once({target})
"""


def require_references_pass_and_lies_fail(sandbox: Sandbox, problems: Sequence[Problem]) -> None:
    assert failing(sandbox, problems) == set()
    lies = {problem.task_id: (wrong_once(problem), problem.check) for problem in problems}
    assert among(judge_named(sandbox, lies), "passed") == {}


def test_every_humaneval_reference_passes_and_fails_when_it_lies_once(real_data, sandbox):
    problems = HumanEval(str(real_data / HUMANEVAL)).problems("test")
    assert len(problems) == 164
    require_references_pass_and_lies_fail(sandbox, problems)


# How EvalPlus writes the tests of HumanEval+ (OriginFmt); names of arguments do not matter.
PLUS_TEST = """import numpy as np

def assertion(out, exp, atol):
    exact_match = out == exp
    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match

def check(candidate):
    inputs = {inputs}
    results = {results}
    for i, (inp, exp) in enumerate(zip(inputs, results)):
        assertion(candidate(*inp), exp, 0)
"""


def plus_rows(real_data) -> Iterator[dict]:
    """HumanEval's rows in the form of HumanEval+, with the inputs and results of their literal asserts."""
    with gzip.open(real_data / HUMANEVAL, "rt") as file:
        for row in map(json.loads, file):
            cases = []
            for node in ast.walk(ast.parse(row["test"])):
                compared = node.test if isinstance(node, ast.Assert) else None
                if not (isinstance(compared, ast.Compare) and isinstance(compared.left, ast.Call)):
                    continue
                if ast.unparse(compared.left.func) == "candidate" and isinstance(compared.ops[0], ast.Eq):
                    with contextlib.suppress(ValueError):
                        arguments = [ast.literal_eval(argument) for argument in compared.left.args]
                        cases.append((arguments, ast.literal_eval(compared.comparators[0])))
            if cases:
                inputs, results = [given for given, _ in cases], [expected for _, expected in cases]
                yield row | {"test": PLUS_TEST.format(inputs=inputs, results=results)}


def test_references_pass_humaneval_plus_without_numpy_and_fail_when_they_lie_once(real_data, sandbox, tmp_path):
    rows = list(plus_rows(real_data))
    problems = HumanEval(write_rows(tmp_path, *rows[::4])).problems("test")
    assert len(rows) > 130 and len(problems) > 32
    assert all(isinstance(problem.check, CallTests) for problem in problems)
    require_references_pass_and_lies_fail(sandbox, problems)


def test_the_instruct_prefix_and_the_function_alone_make_a_whole_program(real_data, sandbox):
    """The shortest answer a chat model may give: the function without imports and helpers."""
    problems = HumanEval(str(real_data / HUMANEVAL), form="instruct").problems("test")
    programs = []
    for problem in problems:
        assert problem.reference.startswith(problem.program_prefix)
        answer = problem.reference[len(problem.program_prefix) :]
        assert answer.startswith(f"def {problem.check.entry_point}")
        programs.append((problem.program_prefix + answer, problem.check))
    assert all(outcome.passed for outcome in sandbox.judge_many(programs))


# Tests that judge by a helper of the prompt, which encodes what the program decodes.
DECODERS = {
    "HumanEval/38": """
def decode_cyclic(s):
    groups = (s[i : i + 3] for i in range(0, len(s), 3))
    return "".join(group[2] + group[:2] if len(group) == 3 else group for group in groups)
""",
    "HumanEval/50": """
def decode_shift(s):
    return "".join(chr((ord(sign) - ord("a") - 5) % 26 + ord("a")) for sign in s)
""",
}


@pytest.mark.parametrize("task_id", DECODERS)
def test_a_helper_that_the_program_defines_anew_decides_nothing(real_data, sandbox, task_id):
    """A wrong helper makes a wrong answer look right, or a right one look wrong."""
    (problem,) = (one for one in HumanEval(str(real_data / HUMANEVAL)).problems("test") if one.task_id == task_id)
    right, name = DECODERS[task_id], problem.check.entry_point
    wrong, helper = (f"\ndef {of}(s):\n    return s\n" for of in (name, name.replace("decode", "encode")))
    programs = [wrong + helper, right + helper, problem.reference]
    outcomes = sandbox.judge_many([(program, problem.check) for program in programs])
    assert [outcome.passed for outcome in outcomes] == [False, True, True]


@pytest.mark.slow
def test_a_sample_of_every_other_set_passes_and_fails_when_it_lies_once(real_data, sandbox):
    """Item 59: under the time limits that training and evaluation use."""
    tasks = [
        MBPP(str(real_data / FULL), test_split="all"),
        MBPP(str(real_data / SANITIZED), test_split="all"),
        MBPPPlus(str(real_data / ORIGIN)),
        DeepCoder(validation=[str(real_data / LEETCODE)]),
    ]
    for task in tasks:
        problems = task.problems("test")
        sample = [problem for problem in problems[5 :: len(problems) // 12] if not imports_foreign(problem)]
        assert len(sample) >= 10
        require_references_pass_and_lies_fail(sandbox, sample)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "exceptions"), [(FULL, {}), (SANITIZED, {}), (ORIGIN, PLUS_EXCEPTIONS)])
def test_every_mbpp_reference_passes_but_those_named(real_data, sandbox, file, exceptions):
    problems = MBPP(str(real_data / file), test_split="all").problems("test")
    assert failing(sandbox, problems) == set(exceptions)


@pytest.mark.slow
def test_every_leetcode_reference_passes_but_those_with_a_foreign_import(real_data, sandbox):
    problems = DeepCoder(validation=[str(real_data / LEETCODE)]).problems("test")
    foreign = {problem.task_id for problem in problems if imports_foreign(problem)}
    assert len(foreign) == 13
    assert failing(sandbox, problems) == foreign


# Their tests ask for the truth of a result alone: whatever is true, is right.
TRUTH_ALONE = {"HumanEval/52", "HumanEval/56", "mbpp/737", "mbpp/787", "mbpp/794"}


@pytest.mark.slow
def test_more_than_a_thousand_lies_do_not_pass(real_data):
    """Infinity, no number, a type, objects that equal everything: for every fourth problem of three sets."""
    tasks = (
        HumanEval(str(real_data / HUMANEVAL)),
        MBPP(str(real_data / FULL), test_split="all"),
        MBPPPlus(str(real_data / ORIGIN)),
    )
    problems = [problem for task in tasks for problem in task.problems("test")][::4]
    left_out = {"mbpp/601", *TRUTH_ALONE, *PLUS_EXCEPTIONS}  # of 601 a class lies, whose first object may be anything
    lies = {
        (problem.task_id, i, lie): (wrong_once(problem, lie), problem.check)
        for i, problem in enumerate(problems)
        for lie in LIES
        if problem.task_id not in left_out
    }
    assert len(lies) > 1000
    with Sandbox(num_workers=2, memory_bytes=2 << 30) as sandbox:
        assert among(judge_named(sandbox, lies), "passed", "infrastructure_failure") == {}
