import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import strategies as st
from support.completions import FixedScores, batch, inside, judged, problem
from support.few_examples import given

from lit_rl.data import SimulatorReward
from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.execution.checks import Check, ReferenceText, StdioTests
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.rewards import (
    BleuReward,
    Composite,
    DataflowReward,
    LintReward,
    LLMJudgeReward,
    RewardTerm,
    ServerGrader,
    Span,
    SyntaxReward,
    TermScore,
    TestsReward,
)
from lit_rl.rewards.token_credit import CreditSpreader
from lit_rl.types import Completions, Judgement, Problem, Program


class Fixed(FixedScores):
    def check_problem(self, problem: Problem) -> None:
        if problem.reference is None:
            raise ValueError("it has no reference")


def fixed(value: float | None, *spans: Span, weight: float = 1.0, name: str = "fixed") -> Fixed:
    return Fixed([TermScore(value, spans)], weight, name)


def test_a_failed_term_makes_the_row_invalid_not_zero() -> None:
    scores = [TermScore(None, reason="no answer"), TermScore(1.0)]
    output = Composite([Fixed(scores)])(batch(["ab", "cd"]), [judged("ab"), judged("cd")])
    assert output.valid.tolist() == [False, True]
    assert output.reasons == {0: "fixed: no answer"}
    assert output.rewards.tolist() == [0.0, 1.0]
    assert output.credit[0].abs().sum() == 0
    assert math.isnan(output.term_values["fixed"][0])
    assert output.term_values["fixed"][1] == 1.0
    terms = [fixed(None, weight=0.0), fixed(1.0, name="b")]
    without_weight = Composite(list(terms))(batch(["abcd"]), [judged("abcd")])
    assert without_weight.valid.tolist() == [True] and without_weight.rewards.tolist() == [1.0]


def test_rewards_are_put_on_tokens_once_and_only_if_somebody_reads_where(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, split = list[CreditSpreader](), CreditSpreader.spread_scores
    monkeypatch.setattr(CreditSpreader, "spread_scores", lambda row, scores: (rows.append(row), split(row, scores))[1])
    output = Composite([fixed(3.0, Span(0, 1, 2.0))])(batch(["ab"]), [judged("ab")])
    assert output.rewards.tolist() == [3.0] and not rows
    sent = pickle.loads(pickle.dumps(output))
    assert output.credit.sum() == 3 and output.credit_at_decision.sum() == 2 and output.credit.sum() == 3
    assert len(rows) == 1
    assert torch.equal(sent.credit, output.credit) and torch.equal(sent.credit_at_decision, output.credit_at_decision)


def test_equal_values_give_bitwise_equal_rewards_whatever_the_places() -> None:
    scores = [
        TermScore(0.7, (Span(0, 1, 0.1), Span(1, 2, 0.2))),
        TermScore(0.7),
        TermScore(0.7, (Span(0, 3, 0.7),)),
    ]
    texts = ["abc", "abcdefghijk", "abcde"]
    output = Composite([Fixed(scores, 0.3)])(batch(texts), [judged(text) for text in texts])
    assert len(set(output.rewards.tolist())) == 1


values = st.floats(-10, 10, allow_nan=False)
span_lists = st.lists(st.builds(Span, st.integers(0, 14), st.integers(0, 14), values), max_size=4)
scores_of_a_row = st.builds(lambda value, spans: TermScore(value, tuple(spans)), values, span_lists)


@given(
    scores=st.lists(st.tuples(scores_of_a_row, values), min_size=1, max_size=4),
    text=st.text("aé\N{GRINNING FACE}\r\n", max_size=8),
    program=st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)),
)
def test_credit_sums_to_the_reward_for_every_composition(
    scores: list[tuple[TermScore, float]],
    text: str,
    program: tuple[int, int] | None,
) -> None:
    scores = [(replace(score, spans=inside(score.spans, text)), weight) for score, weight in scores]
    terms = [Fixed([score], weight, f"t{i}") for i, (score, weight) in enumerate(scores)]
    found = Program("", min(program), max(program)) if program else None
    judgement = Judgement(problem(), found, Outcome(Verdict.PASSED))
    output = Composite(list(terms))(batch([text]), [judgement])
    expected = math.fsum(weight * score.value for score, weight in scores if score.value is not None)
    torch.testing.assert_close(output.rewards, torch.tensor([expected]), rtol=1e-6, atol=1e-6)
    scale = max(1.0, output.credit.abs().sum().item())
    assert abs(output.credit.double().sum().item() - expected) <= 1e-6 * scale


def test_a_problem_that_lacks_what_a_term_reads_is_named_with_the_key() -> None:
    message = r"Composite\.terms\[1\] \(Fixed\) cannot score problem p/0: it has no reference"
    reward = Composite([Sure(), fixed(1.0)])
    with pytest.raises(ValueError, match=message):
        reward.check_problem(problem())
    reward.check_problem(problem(reference="x = 1"))


class Sure(RewardTerm):
    default_name = "sure"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        return [TermScore(1.0)] * len(completions)


CHECKS_THAT_RAISE: list[tuple[Callable[[], object], str]] = [
    (lambda: Composite([fixed(1.0), fixed(1.0)]), r"Composite\.terms\[1\]\.name is 'fixed' a second time"),
    (lambda: Fixed([], math.nan), r"Fixed\.weight: expected float, got nan"),
    (lambda: TestsReward(grades={"fine": 1.0}), r"TestsReward\.grades has an unknown verdict 'fine'"),
    (lambda: TestsReward().check_problem(problem(ReferenceText("x"))), "TestsReward .*ReferenceText"),
    (lambda: SimulatorReward().check_problem(problem()), "SimulatorReward .*AssertTests"),
    (lambda: DataflowReward().check_problem(problem()), "DataflowReward .* reference"),
    (lambda: DataflowReward().check_problem(problem(ReferenceText("x"))), "DataflowReward .*'text'"),
]


def test_arguments_and_problems_that_a_term_cannot_use_are_refused_with_the_key() -> None:
    for build, message in CHECKS_THAT_RAISE:
        with pytest.raises(ValueError, match=message) as refused:
            build()
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("term", [BleuReward(), DataflowReward(), LLMJudgeReward(ServerGrader("unasked"))])
def test_a_problem_without_reference_has_no_value_instead_of_a_zero(term: RewardTerm) -> None:
    """In training it is refused; a validation task may have some."""
    texts = ["x = 1", ""]
    output = Composite([term])(batch(texts), [judged(text) for text in texts])
    assert output.valid.tolist() == [False, False]
    assert output.reasons[0] == f"{term.name}: the problem has no reference"
    assert output.rewards_or_nan().isnan().all()


CPP = "int main() { return 0; }\n"
LINES = BuildAndRun("tree", "src/step.cpp", 3, 4)
STDIO = StdioTests((("", ""),), language="cpp")

# Terms that parse programs read Python.
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
