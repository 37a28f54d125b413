"""HumanEval-X: its solutions pass, but for those that fail with the language's own tools, too."""

import pytest
from support.named_jobs import judge_named, not_among
from support.toolchains import need

from lit_rl.data import HumanEvalX
from lit_rl.execution import Sandbox

FILES = {"cpp": "cpp", "java": "java", "javascript": "js", "go": "go", "rust": "rust"}
# Rows whose own solution fails with the language's own tools, too.
FAIL_PLAINLY = {
    **dict.fromkeys(("JavaScript/112", "JavaScript/155"), "the solution fails asserts of its own tests"),
    "JavaScript/162": "the package js-md5 is not installed",
    "Rust/91": "the solution uses the crate regex",
    "Rust/162": "the solution uses the crate md5",
}
SOMETIMES = {"Go/95": "the solution looks at two keys of a map, whose order is random"}


@pytest.mark.slow
@pytest.mark.parametrize("language", FILES)
def test_solutions_end_as_with_the_languages_own_tools(real_data, language):
    need(language)
    path = str(real_data / f"humanevalx/humaneval_{FILES[language]}.jsonl.gz")
    problems = HumanEvalX(path, language).problems("test")
    with Sandbox(num_workers=2) as sandbox:
        outcomes = judge_named(sandbox, {one.task_id: (one.reference, one.check) for one in problems})
    assert len(outcomes) > 150
    assert not_among(outcomes, "passed").keys() - SOMETIMES.keys() == FAIL_PLAINLY.keys() & outcomes.keys()
