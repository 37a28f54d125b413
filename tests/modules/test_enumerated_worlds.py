"""Combinations of options whose gradient can be added up over all completions, and those that have a wrong one."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.enumerated import ONE_SUM, AnswerReward, PrefixPolicy, expected_gradient, gradient, rollout_of
from support.tiny_models import loaded

from lit_rl.data.preferences import PreferencePair, PreferencePairs, make_preference_pairs, write_preference_pairs
from lit_rl.errors import UsageError
from lit_rl.execution.checks import AssertTests, TokenTarget
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.math.advantages import BatchMean, GroupMean, LeaveOneOut, MaxRewards, NoBaseline
from lit_rl.math.losses import Clipped, ImportanceSampling, PolicyGradient, Tokens, TruncatedWeights
from lit_rl.models.critic import SeparateCritic
from lit_rl.models.reference import FrozenCopyReference
from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT, Objective, RolloutConfig, UpdateConfig
from lit_rl.modules.settings import CriticConfig
from lit_rl.reports.summary import _add_turn_metrics
from lit_rl.rewards import OverlongPenalty, Span, TermScore
from lit_rl.training.ranks import Means
from lit_rl.types import Judgement, Problem, Program, Sampling

PLAIN = Objective(loss=PolicyGradient())
TWO = Sampling(num_samples=2)


def first_token_decides(answer: tuple[int, ...]) -> float:
    return 1.0 if answer[0] == 1 else 0.25


def last_token_decides(answer: tuple[int, ...]) -> TermScore:
    """A loss that stands on the last token, as that of a program whose last line failed."""
    return TermScore(1.0) if answer[-1] == 1 else TermScore(0.0, (Span(len(answer) - 1, len(answer), -1.0),))


@pytest.mark.parametrize("baseline", [GroupMean("none"), LeaveOneOut("none"), BatchMean("none")], ids=str)
@pytest.mark.parametrize(
    ("reward", "options"),
    [(first_token_decides, {"gamma": 0.3}), (last_token_decides, {"credit": "tokens"})],
    ids=["discount", "spread"],
)
def test_a_baseline_leaves_the_expected_gradient_of_reinforce_where_it_was(
    baseline: Any, reward: Any, options: dict[str, Any]
) -> None:
    """Item 81: a row's own reward in its baseline could weigh more than what is left of it; rewards are float32."""
    policy = PrefixPolicy(length=3)
    make = partial(REINFORCE, policy, [AnswerReward(reward)], objective=PLAIN, update=ONE_SUM, sampling=TWO, **options)
    expected = expected_gradient(make(), 2)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(expected_gradient(make(baseline=baseline), 2), expected, rtol=0, atol=1e-7)


def test_a_row_that_has_nothing_to_be_compared_with_has_no_advantage() -> None:
    scores, valid, ids = torch.tensor([0.5, 3.0, 2.0, 7.0]), torch.tensor([True, False, True, True]), [4, 4, 9, 9]
    expected = LeaveOneOut("none").expected(scores, valid, torch.tensor(ids))
    assert expected.isnan().tolist() == [True, True, False, False] and expected[2:].tolist() == [7.0, 2.0]
    assert BatchMean("none").expected(scores[:1], valid[:1], torch.tensor([4])).isnan().all()
    policy, options = PrefixPolicy(), {"baseline": LeaveOneOut("none"), "gamma": 0.5, "sampling": TWO}
    lone = REINFORCE(policy, [AnswerReward(first_token_decides)], objective=PLAIN, **options)
    assert gradient(lone, rollout_of(policy, [(1, 0, 1)])).abs().max() == 0


def test_the_best_of_negative_rewards_is_refused() -> None:
    """Item 84: the better of two failures would become less likely than the worse one."""
    with pytest.raises(UsageError, match="MaxRewards needs rewards of at least 0"):
        MaxRewards()(torch.tensor([-0.3, -1.0]), torch.tensor([True, True]), torch.tensor([1, 1]))
    found = MaxRewards()(torch.tensor([2.0, -1.0]), torch.tensor([True, False]), torch.tensor([1, 1]))
    assert found.tolist() == [2.0, 0.0]


def with_reference(module: Any, reference: PrefixPolicy) -> Any:
    policy = module.policy
    module.logprobs.reference = FrozenCopyReference(policy, reference.weights, policy.weights)
    return module


@pytest.mark.parametrize("loss", ["corrected", "weighted"])
def test_the_kl_in_the_loss_of_rows_that_older_weights_sampled_has_its_gradient(loss: str) -> None:
    """Item 82: that of each token's KL at the prefixes which the sampler visits."""
    policy, reference, older = PrefixPolicy(3, 2, 1), PrefixPolicy(3, 2, 9), PrefixPolicy(3, 2, 21)
    table = older.table.detach()
    objective = Objective(PolicyGradient(), kl_coef=1.0, correction=TruncatedWeights(cap=1e9))
    if loss == "weighted":
        objective = Objective(ImportanceSampling(cap=1e9), kl_coef=1.0)
    options = {"baseline": NoBaseline(), "update": ONE_SUM, "collect": RolloutConfig(staleness=1)}
    module = GRPO(policy, [AnswerReward(lambda answer: 0.0)], objective=objective, **options)
    found = expected_gradient(with_reference(module, reference), 1, table)
    ours, theirs = policy.table.log_softmax(-1), reference.table.detach().log_softmax(-1)
    of_prefix = (ours.exp() * (ours - theirs)).sum(-1)
    chances = dict(zip(policy.answers, policy.probabilities(table).detach().tolist(), strict=True))
    visits = [sum(c for answer, c in chances.items() if answer[: len(p)] == p) for p in policy.prefixes]
    (expected,) = torch.autograd.grad((torch.tensor(visits) * of_prefix).sum(), policy.table)
    assert expected.abs().max() > 0.1
    torch.testing.assert_close(found, -expected, rtol=0, atol=1e-7)


def test_a_reward_is_not_penalised_by_the_kl_of_an_older_sampler() -> None:
    loss = Objective(ImportanceSampling(), kl_coef=0.1, kl_in="reward")
    rewards, stale = [AnswerReward(first_token_decides)], RolloutConfig(staleness=1)
    with pytest.raises(UsageError, match="kl_in reward with rows of older weights needs a correction"):
        GRPO(PrefixPolicy(), rewards, baseline=NoBaseline(), objective=loss, collect=stale)


def test_a_kl_in_the_reward_is_not_divided_by_the_spread_of_equal_rewards() -> None:
    """Item 84."""
    rewards = [AnswerReward(lambda answer: 0.0)]
    with pytest.raises(UsageError, match="kl_in reward and a baseline that divides by the spread"):
        GRPO(PrefixPolicy(), rewards, objective=Objective(kl_coef=1e-5, kl_in="reward"))
    policy, reference = PrefixPolicy(2, 2, 1), PrefixPolicy(2, 2, 5)
    moved = []
    for coef in (0.1, 0.2):
        objective = Objective(PolicyGradient(), kl_coef=coef, kl_in="reward")
        module = GRPO(policy, rewards, baseline=LeaveOneOut("none"), objective=objective, update=ONE_SUM)
        moved.append(expected_gradient(with_reference(module, reference), 2))
    torch.testing.assert_close(moved[1], 2 * moved[0], rtol=1e-9, atol=0)


def test_a_moving_average_of_bfloat16_weights_is_refused(tmp_path: Path, byte_tokenizer: str) -> None:
    """Item 84: steps of a share of 0.05 are below half of a bfloat16 step: the reference would stay where it was."""
    for dtype, share, is_refused in (("bfloat16", 0.05, True), ("float32", 0.05, False), ("bfloat16", 1.0, False)):
        update = UpdateConfig(refresh_reference_every=1, refresh_reference_share=share)
        options = {"objective": Objective(kl_coef=0.1), "update": update}
        module = GRPO(loaded(byte_tokenizer, dtype=dtype), [AnswerReward(first_token_decides)], **options)
        said = r"refresh_reference_share 0.05 averages weights.*torch.bfloat16"
        with pytest.raises(UsageError, match=said) if is_refused else nullcontext():
            module.logprobs.create_reference_if_needed()


def test_filtered_samples_for_training_are_warned_about() -> None:
    rewards = [AnswerReward(first_token_decides)]
    with pytest.warns(UserWarning, match="the training sampler uses top_k or top_p"):
        GRPO(PrefixPolicy(), rewards, sampling=Sampling(num_samples=2, top_p=0.9))


def test_the_bootstrap_of_cut_rows_does_not_swallow_the_penalty_for_being_cut(byte_tokenizer: str) -> None:
    """Item 84."""
    bootstrap = CriticConfig(bootstrap_truncated=True)
    make = partial(PPO, loaded(byte_tokenizer), critic=SeparateCritic(), critic_update=bootstrap)
    with pytest.raises(UsageError, match=r"bootstrap_truncated replaces the reward of cut rows.* overlong included"):
        make([OverlongPenalty(16, 4)])
    make([OverlongPenalty(16, 4, weight=0.0), AnswerReward(first_token_decides)])


def test_dpo_learns_no_end_where_a_token_limit_was(tmp_path: Path, byte_tokenizer: str) -> None:
    """Item 83: a cut text of four tokens stays four tokens."""
    problem = Problem("p", "w", TokenTarget())
    (pair,) = make_preference_pairs(problem, ["ab", "cdef"], [1.0, 0.0], [True, False], margin=0.5)
    assert (pair.chosen_finished, pair.rejected_finished) == (True, False)
    write_preference_pairs(tmp_path / "pairs.jsonl", [pair, PreferencePair("q", "w", "ab", "cdef", 1.0, 0.0)])
    cut, whole = PreferencePairs(str(tmp_path / "pairs.jsonl")).problems("train")
    module = DPO(loaded(byte_tokenizer))
    for one, lengths, truncated in ((cut, [3, 4], [False, True]), (whole, [3, 5], [False, False])):
        completions, _ = module.completions_and_group_size([one])
        assert completions.lengths.tolist() == lengths and completions.truncated.tolist() == truncated
        assert completions.texts == ("ab", "cdef")


def test_sft_learns_no_end_of_a_completion_that_was_cut(byte_tokenizer: str) -> None:
    """Item 83: also where another policy's tokens are written anew; a plain demonstration ends."""
    turns = {name: SimpleNamespace(stop_reason=name) for name in ("length", "eos")}
    of_others = [
        {"demonstration": "abcd", "row": SimpleNamespace(turns=[turn], prompt_ids=(1, 2))} for turn in turns.values()
    ]
    problems = [Problem("p", "w", TokenTarget(), fields=fields) for fields in (*of_others, {"demonstration": "ab"})]
    completions, _ = SFT(loaded(byte_tokenizer)).completions_and_group_size(problems)
    assert completions.lengths.tolist() == [4, 5, 3] and completions.truncated.tolist() == [True, False, False]


def test_the_clip_fraction_counts_what_the_dual_clip_silences() -> None:
    """Ratios 4, 2 and 0.5 with a negative advantage, under a dual clip of 3 and a low clip of 0.4."""
    new = torch.tensor([[4.0, 2.0, 0.5]]).log().requires_grad_()
    tokens = Tokens(new, torch.zeros(1, 3), torch.zeros(1, 3), torch.tensor([[-1.0]]), torch.ones(1, 3).bool())
    loss = Clipped(clip_low=0.4, clip_high=0.4, dual_clip=3.0)
    (found,) = torch.autograd.grad(loss.token_losses(tokens).sum(), new)
    assert (found == 0).tolist() == [[True, False, True]]
    assert float(loss.metrics(tokens)["policy/clip_fraction"]) == pytest.approx(2 / 3)


def test_repairs_are_counted_among_rows_that_were_judged_twice() -> None:
    lost, failed, passed = (Outcome(v) for v in (Verdict.INFRASTRUCTURE_FAILURE, Verdict.EXCEPTION, Verdict.PASSED))
    ends = list(product((failed, lost), (passed, failed, lost)))  # one of the two judged failures was repaired

    problem, program = Problem("p", "", AssertTests("assert f()")), Program("x", 0, 1, 0, False)

    def judged(number: int) -> list[Judgement]:
        return [Judgement(problem, program, pair[number - 1]) for pair in ends]

    two_turns: Any = SimpleNamespace(max_turns=2, judgements=(), turn_judgements=(), judgements_after_turn=judged)
    means = Means()
    _add_turn_metrics(means, two_turns)
    assert means.reduce(torch.device("cpu"))["turns/repaired_fraction"] == 0.5
