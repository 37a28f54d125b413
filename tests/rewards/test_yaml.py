"""Rewards as a user writes them: YAML in, terms out, and messages that name the key."""

from jsonargparse import ArgumentParser, Namespace

import lit_rl.rewards
from lit_rl.rewards import Composite, LintReward, LLMJudgeReward, RewardTerm, ServerGrader

DENSE = """
reward:
  terms:
    - class_path: lit_rl.rewards.SyntaxReward
      init_args: {weight: 0.1}
    - class_path: LintReward
      init_args: {weight: 0.1, select: [E, F], severities: {F: 0.4}, per_lines: 20}
    - class_path: DataflowReward
      init_args: {weight: 0.1}
    - class_path: TestsReward
      init_args: {weight: 0.7, mode: graded, grades: {wrong_answer: -0.1}}
    - class_path: OverlongPenalty
      init_args: {max_tokens: 100, buffer_tokens: 20}
  clip_low: -1
"""
JUDGED = """
reward:
  terms:
    - class_path: BleuReward
      init_args: {weight: 0.6}
    - class_path: LLMJudgeReward
      init_args:
        weight: 0.4
        template: "{reference} against {program}"
        grader: {class_path: ServerGrader, init_args: {model: small}}
"""


def build(text: str) -> Composite:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(Composite, "reward")
    built: Namespace = parser.instantiate_classes(parser.parse_string(text))
    assert isinstance(built.reward, Composite)
    return built.reward


def test_terms_are_built_by_class_path_with_their_weights() -> None:
    reward = build(DENSE)
    assert {term.name: term.weight for term in reward.terms} == {
        "syntax": 0.1,
        "lint": 0.1,
        "dataflow": 0.1,
        "tests": 0.7,
        "overlong": 1.0,
    }
    lint = reward.terms[1]
    assert isinstance(lint, LintReward)
    assert lint.severities["F"] == 0.4
    assert reward.low == -1


def test_bleu_and_judge_are_built_with_their_grader() -> None:
    judge = build(JUDGED).terms[1]
    assert isinstance(judge, LLMJudgeReward)
    assert isinstance(judge.grader, ServerGrader)


def test_every_term_has_a_name_of_its_own() -> None:
    terms = [
        value
        for value in vars(lit_rl.rewards).values()
        if isinstance(value, type) and issubclass(value, RewardTerm) and value is not RewardTerm
    ]
    names = [term.default_name for term in terms]
    assert len(terms) >= 10
    assert len(set(names)) == len(terms) and all(names)
