"""C and C++ as written in real code: macros that a parser without a preprocessor cannot know do not count as errors."""

from __future__ import annotations

import pytest
from support.completions import batch, judged, problem, reward_of

from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.execution.checks import Check, StdioTests
from lit_rl.rewards import DataflowReward, LintReward, RewardTerm, SyntaxReward
from lit_rl.rewards.grammars import without_macros

pytest.importorskip("tree_sitter", reason="reward terms need the extra `rewards`")
BRANCHES = """\
int f(int a) {
#ifdef FAST
  if (a) {
#else
  if (!a) {
#endif
    a++;
  }
  return a;
}
"""
NESTED = """\
int f(int a) {
#if A
  if (a) {
#if B
    a--;
#endif
#elif C
  if (!a) {
#else
  {
#endif
  }
  return a;
}
"""
RIGHT = {
    "declarations without a semicolon": "void f(ARGS)\n{\n  DECLARE_ARGS\n  DECLARE_PARAMETERS\n\n  int i = 0;\n}\n",
    "a line with arguments": "FILEVERSION(Base_Sum_c)\n\nint sum(int a, int b) { return a + b; }\n",
    "before a function": "GLOBAL Int sum\n(\n  Int a,\n  Int b\n)\n{\n  return a + b;\n}\n",
    "several before a function": "static INLINE DEVICE HOST int sum(int a) { return a; }\n",
    "before a template's type": "INLINE HOST vec<int> twice(int a) { return {a, a}; }\n",
    "behind a name": "int f(void) { int error ATTRIBUTE_UNUSED = 0; return error; }\n",
    "before a body": "void g() { auto f = [=](int i) ALWAYS_INLINE { return i; }; f(1); }\n",
    "in a lambda": "void g() { auto f = [=] DEVICE HOST (int i) { return i; }; f(1); }\n",
    "a function's name": "void FCALL FNAME(solve)(const double *a, int n);\n",
    "between strings": 'void f(long n) { printf("n is "LONG", or "LONG"\\n", n, n); }\n',
    "branches that open a block each": BRANCHES,
    "nested conditions": NESTED,
}
WRONG = {
    "a missing bracket": "int f(int a) {\n  DECLARE_ARGUMENTS\n  return (a;\n}\n",
    "two operators": "GLOBAL Int f(Int a) { return a + * ; }\n",
    "a brace that never closes": "int f(int a) {\n  DECLARE_ARGUMENTS\n  if (a) {\n  return a;\n",
    "nothing but macros": "DECLARE_ARGUMENTS\nDECLARE_PARAMETERS\nAAA BBB CCC\n",
    "words": "Here is the code you asked for:\n\nIT IS GOOD\n",
}


def value(text: str, language: str) -> float:
    return reward_of(SyntaxReward(), text, check=StdioTests((("", ""),), language)).rewards.item()  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_macros_are_no_fault(language: str) -> None:
    assert {name: value(text, language) for name, text in RIGHT.items()} == dict.fromkeys(RIGHT, 0.0)


def test_faults_beside_macros_stay_faults() -> None:
    assert {name: value(text, "c") for name, text in WRONG.items()} == dict.fromkeys(WRONG, -1.0)


def test_the_fault_that_macros_do_not_explain_is_the_place() -> None:
    text = "void f(void)\n{\n  DECLARE_ARGUMENTS\n  int é = 0;\n  int y = @ 1;\n}\n"
    row = judged(text, problem=problem(StdioTests((("", ""),), "c")))
    (score,) = SyntaxReward().score(batch([text]), [row])
    assert score.value == -1.0
    (span,) = score.spans
    assert text.encode()[span.start : span.end].decode().strip().startswith("@")


def test_what_is_taken_out_leaves_all_other_bytes_where_they_are() -> None:
    for text in (*RIGHT.values(), *WRONG.values()):
        source = text.encode()
        for masked in without_macros(source):
            assert len(masked) == len(source)
            assert all(new in (old, ord(" ")) for old, new in zip(source, masked, strict=True))
            assert masked.count(b"\n") == source.count(b"\n")


def test_macros_in_strings_and_comments_stay() -> None:
    source = b'/*\nDECLARE_ARGUMENTS\n*/\nconst char *text = "GLOBAL Int f";\n'
    assert next(without_macros(source)) == source


@pytest.mark.parametrize(
    "unit", [b"AAA ", b"AAA(", b"AAA(a)", b"AAA a ", b'"AAA', b"/*", b"#if\n", b"AAA<", b"\\\n", b"AAA\n"]
)
def test_repeated_patterns_are_read_in_linear_work(unit: bytes) -> None:
    """A hundred thousand bytes of each: work that grows with the square would take hours here."""
    source = unit * (100_000 // len(unit))
    only_macros = unit.strip() == b"AAA"
    assert {len(masked) for masked in without_macros(source)} == (set() if only_macros else {len(source)})


CPP = "int main() { return 0; }\n"
LINES = BuildAndRun("tree", "src/step.cpp", 3, 4)
STDIO = StdioTests((("", ""),), language="cpp")

UNREAD: dict[str, tuple[RewardTerm, Check]] = {
    "syntax of lines": (SyntaxReward(), LINES),
    "lint of lines": (LintReward(), LINES),
    "data flow of lines": (DataflowReward(), LINES),
    "lint of C++": (LintReward(), STDIO),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_program_in_another_language_has_no_value_and_is_not_trained_on(case: str) -> None:
    """Lines of C++ are no Python: read as such, each completion would cost -1 whatever it says."""
    term, check = UNREAD[case]
    task = problem(check, reference=CPP)
    with pytest.raises(ValueError, match=type(term).__name__):
        term.check_problem(task)
    python = problem(reference="x = 1\n")
    rows = [judged(CPP, problem=task), judged("x = 1\n", problem=python)]
    unread, read = term.score(batch([CPP, "x = 1\n"]), rows)
    assert unread.value is None and "cpp" in unread.reason
    assert read.value is not None
