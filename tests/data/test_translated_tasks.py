"""HumanEval-X, MultiPL-E and MBXP: rows of our own in their formats, judged; and the real rows of HumanEval-X."""

# ruff: noqa: E501 - programs

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.slow_cases import slow_but

from lit_rl.arguments import ArgumentError
from lit_rl.data import MBXP, HumanEvalX, MultiPLE
from lit_rl.data.rows import RowError
from lit_rl.execution import Sandbox
from lit_rl.execution.languages import how_to_install, toolchain
from lit_rl.rollout.records import find_program, reference_answer

REAL = Path(os.environ.get("LIT_RL_DATA", "../shared/data")) / "humanevalx"
SIGNATURES = {
    "cpp": "#include <vector>\nusing namespace std;\n// Adds one.\nint addOne(int x) {\n",
    "java": "import java.util.*;\n\nclass Solution {\n    /** Adds one. */\n    public int addOne(int x) {\n",
    "javascript": "// Adds one.\nfunction addOne(x){\n",
    "go": "// Adds one.\nfunc addOne(x int) int {\n",
    "rust": "/// Adds one.\nfn addOne(x: i32) -> i32 {\n",
}
BODIES = {
    "cpp": "    return x + 1;\n}\n",
    "java": "        return x + 1;\n    }\n}\n",
    "javascript": "  const fs = require('fs');\n  return x + 1;\n}\n",
    "go": '    number, _ := strconv.Atoi(strings.TrimSpace(" 1 "))\n    return x + number // os.Exit\n}\n',
    "rust": "    x + 1\n}\n",
}
PLAIN = {
    "cpp": "#undef NDEBUG\n#include <assert.h>\nint main() { assert(addOne(3) == 4); }",
    "java": "public class Main { public static void main(String[] w) { if (new Solution().addOne(3) != 4) throw new AssertionError(); } }",
    "javascript": "console.assert(addOne(3) === 4)",
    "go": "func TestAddOne(t *testing.T) {\n    assert := assert.New(t)\n    assert.Equal(4, addOne(3))\n}",
    "rust": "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    fn adds() { assert_eq!(addOne(3), 4); }\n}",
}
LEFT_OUT = {"cpp": 3, "rust": 4}  # rows that need boost, OpenSSL or rand, or whose tests are commented out
CUT = ("CPP/94", "Go/72", "Rust/137")  # a stop string stands behind the function of the reference
GO_SETUP = 'package main\n\nimport (\n    "testing"\n    "github.com/stretchr/testify/assert"\n)\n'


def humanevalx(language, number):
    declaration = SIGNATURES[language]
    prompt = {"rust": "\n/* Adds. */\n", "go": 'import (\n    "math"\n)\n\n' + declaration}.get(language, declaration)
    if language == "rust":
        declaration = "\nuse rand::Rng;\n" + declaration
    return {"task_id": f"X/{number}", "prompt": prompt, "declaration": declaration, "canonical_solution": BODIES[language],
            "test": PLAIN[language], "import": "", "test_setup": GO_SETUP}  # fmt: skip


MULTIPLE = {
    "cpp": (SIGNATURES["cpp"], "}\nint main() {\n    auto candidate = addOne;\n    assert(candidate(3) == (4));\n}\n"),
    "java": (
        "import java.util.*;\nimport org.javatuples.*;\n\nclass Problem {\n    // Adds one.\n    public static int addOne(int x) {\n",
        "    }\n    public static void main(String[] args) {\n    assert(addOne(3) == (4));\n    }\n\n}\n",
    ),
    "javascript": (
        SIGNATURES["javascript"],
        "const assert = require('node:assert');\n\n\nfunction test() {\n  let candidate = addOne;\n  assert.deepEqual(candidate(3),4);\n}\n\ntest();",
    ),
    "go": (
        'package addOne_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\n' + SIGNATURES["go"],
        'func TestAddOne(t *testing.T) {\n  candidate := addOne\n\ttype test struct {\n\t\tactual   interface{}\n\t\texpected interface{}\n\t}\n'
        '   tests := []test{\n     { actual: candidate(3), expected: 4 },\n   }\n\n\tfor i, tc := range tests {\n'
        '\t\tt.Run(fmt.Sprintf("test num % d", i), func(t *testing.T) {\n\t\t\tif fmt.Sprintf("%v", tc.actual) != fmt.Sprintf("%v", tc.expected) {\n'
        '\t\t\t\tt.Errorf("expected \'%s\', got \'%s\'", tc.expected, tc.actual)\n\t\t\t}\n\t\t})\n\t}\n}\n',
    ),
    "rust": (SIGNATURES["rust"], "}\n\nfn main() {\n    let candidate = addOne;\n    assert_eq!(candidate(3), 4);\n}\n"),
}  # fmt: skip
NAMES = {"cpp": "cpp", "java": "java", "javascript": "js", "go": "go_test.go", "rust": "rs"}


def multiple(language, number):
    prompt, tests = MULTIPLE[language]
    if language == "cpp":
        prompt = "#include<assert.h>\n" + prompt
    return {
        "name": f"M_{number}",
        "language": NAMES[language],
        "prompt": prompt,
        "tests": tests,
        "stop_tokens": ["\n}"],
    }


MBXP_ROWS = {
    "cpp": (SIGNATURES["cpp"].replace("#include <vector>", "#include <bits/stdc++.h>"),
            '\ntemplate <typename T> bool compare(T a, T b){ \n    return a == b; \n}\n\nint main(int argc, char* argv[]) {\n    int x0 = addOne(3);\n'
            '    if (!(compare(x0, 4))) {\n        throw runtime_error("Exception -- test case 0 did not pass.");\n    }\n    return 0;\n}'),
    "java": (MULTIPLE["java"][0].replace("import org.javatuples.*;\n", "").replace("Problem", "AddOne"),
             "\n\nclass Main {\n    public static void main(String[] args) throws Exception {\n        if (AddOne.addOne(3) != 4) {\n"
             '            throw new java.lang.Exception("Exception -- test case 0 did not pass.");\n        }\n}\n}\n'),
    "javascript": (SIGNATURES["javascript"],
                   '\nconst _ = require("lodash")\n\nfunction compare(object1, object2){\n    return _.isEqual(object1, object2)\n}\n\nvar x0 = addOne(3);\n'
                   "if(!compare([x0], [4])){\n    throw 'Error at 1th assert statement.'\n}\n"),
    "go": ('package main\n\nimport (\n\t"encoding/json"\n\t"reflect"\n)\n' + SIGNATURES["go"],
           '\n\nfunc same(a interface{}, b interface{}) {\n\tone, _ := json.Marshal(a)\n\tother, _ := json.Marshal(b)\n'
           '\tif !reflect.DeepEqual(one, other) {\n\t\tpanic("no")\n\t}\n}\n\nfunc main() {\n\tsame(addOne(3), 4)\n}'),
}  # fmt: skip


def mbxp(language, number):
    prompt, test = MBXP_ROWS[language]
    return {"task_id": f"B/{number}", "language": language, "prompt": prompt, "entry_point": "addOne", "test": test,
            "canonical_solution": None}  # fmt: skip


TASKS = [
    (task, make, language)
    for task, make in ((HumanEvalX, humanevalx), (MultiPLE, multiple), (MBXP, mbxp))
    for language in task.languages
]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2) as sandbox:
        yield sandbox


def written(folder, rows):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "rows.jsonl")


def answer_of(problem, rest):
    """The answer that a program's rest makes, and the program that is found in it."""
    source = problem.starter_code + rest
    answer = rest if problem.continues_program else f"Here:\n```{problem.check.language}\n{source}```\n"
    found = find_program(problem, answer)
    assert found is not None and found.source.strip() == source.strip()
    return found.source


@pytest.mark.parametrize(
    ("task", "make", "language"), slow_but([one for one in TASKS if one[2] in ("javascript", "cpp")], TASKS),
    ids=[f"{task.__name__}-{language}" for task, _, language in TASKS],
)  # fmt: skip
def test_a_right_answer_passes_in_both_forms_and_a_wrong_one_fails(task, make, language, sandbox, tmp_path):
    if toolchain(language) is None:
        pytest.skip(how_to_install(language))
    path = written(tmp_path, [make(language, 1)])
    jobs = []
    for form in ("completion", "instruct"):
        (problem,) = task(path, language, form=form).problems("test")
        assert problem.check.entry_point == "addOne" and problem.fields["entry_point"] == "addOne"
        jobs += [
            (answer_of(problem, rest), problem.check)
            for rest in (BODIES[language], BODIES[language].replace("x + ", "x - "))
        ]
    verdicts = [outcome.verdict for outcome in sandbox.judge_many(jobs)]
    assert verdicts[::2] == ["passed", "passed"], sandbox.judge_many(jobs)
    assert verdicts[1::2] == ["exception", "exception"]


@pytest.mark.parametrize("language", HumanEvalX.languages)
def test_the_reference_is_found_in_the_answer_that_sft_imitates(language, tmp_path):
    path = written(tmp_path, [humanevalx(language, 1)])
    if REAL.exists():
        name = {"javascript": "js"}.get(language, language)
        path = str(REAL / f"humaneval_{name}.jsonl.gz")
    for form in ("completion", "instruct"):
        problems = HumanEvalX(path, language, form=form).problems("test")
        assert len(problems) in (1, 164 - LEFT_OUT.get(language, 0))
        for problem in problems:
            answer = reference_answer(problem)
            if problem.task_id in CUT:
                assert form == "instruct" or any(stop in answer for stop in problem.stop_strings)
                continue
            cut = min((answer.find(stop) for stop in problem.stop_strings if stop in answer), default=None)
            found = find_program(problem, answer[:cut])
            assert found is not None and found.source.strip() == problem.reference.strip(), problem.task_id


def test_a_split_trains_on_four_fifths(tmp_path):
    path = written(tmp_path, [mbxp("javascript", number) for number in range(10)])
    parts = [
        {one.task_id for one in MBXP(path, "javascript", split="train").problems(split)} for split in ("train", "test")
    ]
    assert list(map(len, parts)) == [8, 2] and not parts[0] & parts[1]
    assert {one.task_id for one in MBXP(path, "javascript", split="test").problems("validation")} == parts[1]
    assert MBXP(path, "javascript").problems("train") == []
    with pytest.raises(ValueError, match="only measured on"):
        MBXP(path, "javascript").train_dataloader()


def test_other_languages_and_rows_that_test_nothing_are_refused(tmp_path):
    for task, language in ((HumanEvalX, "python"), (MultiPLE, "ruby"), (MBXP, "rust")):
        with pytest.raises(ArgumentError, match=f"{task.__name__}.language: expected one of cpp, go, java"):
            task("rows.jsonl", language)
    with pytest.raises(RowError, match="language is java"):
        MBXP(written(tmp_path, [mbxp("cpp", 1)]), "java").problems("test")
    with pytest.raises(RowError, match="a function that begins on the last line"):
        MultiPLE(written(tmp_path, [multiple("cpp", 1) | {"prompt": "// none\n"}]), "cpp").problems("test")
    rows = [multiple("java", 1), multiple("java", 2) | {"tests": "    }\n Pair<Integer, Integer> x;\n}\n"}]
    assert [one.task_id for one in MultiPLE(written(tmp_path, rows), "java").problems("test")] == ["M_1"]
    empty = humanevalx("rust", 2) | {"test": "/*\n#[test]\nfn adds() {}\n*/\n"}
    assert HumanEvalX(written(tmp_path, [empty]), "rust").problems("test") == []
