"""DPO: the loss of the paper, a reference that does not move, and pairs from executed programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout.scripted import Scripted
from support.small_runs import Words, fit, grouped, quiet_trainer
from support.tiny_models import TINY_QWEN2
from torch import Tensor

from lit_rl.callbacks import PreferenceWriter
from lit_rl.data.preferences import PreferencePair, PreferencePairs, pair_of, write_pairs
from lit_rl.execution import AssertTests, Sandbox
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.codecs.codec import Codec
from lit_rl.models.reference import FrozenScorer
from lit_rl.modules import DPO, Collect, Evaluate
from lit_rl.modules.dpo import preference_loss
from lit_rl.rewards import TestsReward
from lit_rl.types import Problem, Sampling

Make = Callable[..., DPO]


@pytest.fixture
def make_dpo(byte_tokenizer: str) -> Make:
    """Builds DPO on a tiny policy in double precision, with plain SGD."""

    def make(lora: LoRA | None = None, **kwargs: Any) -> DPO:
        config = TINY_QWEN2 | {"attention_dropout": 0.3}
        policy = CausalLM(config=config, tokenizer=byte_tokenizer, dtype="float64", lora=lora)
        defaults: dict[str, Any] = {
            "optimizer": lambda params: torch.optim.SGD(params, lr=0.1),
            "gradient_clip_norm": None,
            "beta": 0.5,
        }
        return DPO(policy, **grouped(DPO, **(defaults | kwargs)))

    return make


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Pairs of unequal length: good ones say yes, bad ones say no."""
    path = tmp_path / "pairs.jsonl"
    rows = [
        PreferencePair(f"p{i}", "w" * (1 + i % 3), "yes" * (1 + i % 4), "no" * (1 + i % 5), 1.0, 0.0) for i in range(6)
    ]
    write_pairs(path, rows)
    return path


def data(path: Path, **kwargs: Any) -> PreferencePairs:
    return PreferencePairs(str(path), **({"batch_size": 6} | kwargs))


def logprobs_of(
    policy: CausalLM | FrozenScorer, problems: list[Problem], which: str, codec: Codec | None = None
) -> torch.Tensor:
    """[M] log-probability of each pair's completion, one row at a time and without any padding."""
    codec = codec or policy.codec  # type: ignore[union-attr]
    rows = [codec.as_completions([p], [getattr(pair_of(p), which)]) for p in problems]
    return torch.stack([policy.logprobs(row).sum() for row in rows])


@pytest.mark.parametrize("lora", [None, LoRA(rank=2)])
def test_the_reference_is_the_start_and_stays_there(
    make_dpo: Make, pairs: Path, tmp_path: Path, lora: LoRA | None
) -> None:
    """Item 48."""
    module = make_dpo(lora=lora, optimizer=lambda params: torch.optim.Adam(params, lr=1e-2), max_updates=3)
    fit(module, tmp_path, data=data(pairs))
    start = make_dpo()
    start.policy.load()
    problems = data(pairs).problems("train")
    moved, fresh = module.policy, start.policy
    assert isinstance(moved, CausalLM) and isinstance(fresh, CausalLM)
    of_reference = logprobs_of(moved.eval().make_reference(), problems, "chosen", moved.codec)
    with torch.no_grad():
        assert torch.allclose(of_reference, logprobs_of(fresh.eval(), problems, "chosen"), atol=1e-12)
        assert not torch.allclose(of_reference, logprobs_of(moved, problems, "chosen"), atol=1e-3)
    assert not any("frozen_reference" in name for name in module.state_dict())


def test_validation_measures_held_out_pairs_without_running_them(make_dpo: Make, pairs: Path, tmp_path: Path) -> None:
    """At the start policy and reference are the same: loss log 2, margin 0."""
    module = make_dpo()
    held_out = data(pairs, validation_path=str(pairs), validation_batch_size=4)
    (metrics,) = quiet_trainer(tmp_path, limit_val_batches=None).validate(module, held_out, verbose=False)
    assert metrics["val/loss"] == pytest.approx(math.log(2), abs=1e-6)
    assert metrics["val/margin"] == pytest.approx(0.0, abs=1e-6)


def test_training_on_problems_without_pairs_is_refused(make_dpo: Make, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no pair to learn from: train DPO on lit_rl\.data\.PreferencePairs"):
        fit(make_dpo(max_updates=1), tmp_path, data=Words(batch_size=2))


class YesOrNo(Words):
    """Programs that pass only as ``x = 1``; a policy that was never trained writes bytes."""

    name = "yes_or_no"

    def load_problems(self, split: Any) -> list[Problem]:
        check = AssertTests("assert x == 1")
        return [Problem(f"{split}{i}", f"{i} ", check) for i in range(3)]


def test_predict_writes_pairs_of_programs_that_were_run_and_preference_pairs_reads_them(
    byte_tokenizer: str, tmp_path: Path
) -> None:
    """Two of four completions pass, so each problem has 2 x 2 pairs, of which three are asked for."""
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    texts = ["x = 1", "x = 2", "x =", "x = 1 # again"]
    writes = Scripted([[text] * 2 for text in texts * 2])  # rows of two batches, the second of one problem
    module = DPO(
        policy,
        rewards=[TestsReward()],
        sandbox=Sandbox,
        collect=Collect(engine=writes),
        evaluate=Evaluate(predict=Sampling(num_samples=4)),
    )
    path = tmp_path / "made" / "pairs.jsonl"
    writer = PreferenceWriter(str(path), margin=0.5, max_pairs=3)
    quiet_trainer(tmp_path, callbacks=[writer]).predict(
        module, YesOrNo(validation_batch_size=2), return_predictions=False
    )
    read = [pair_of(problem) for problem in data(path).problems("train")]
    assert [pair.task_id for pair in read] == ["train0"] * 3 + ["train1"] * 3 + ["train2"] * 3
    assert {(pair.chosen_reward, pair.rejected_reward) for pair in read} == {(1.0, 0.0)}
    assert {pair.chosen for pair in read} == {"x = 1", "x = 1 # again"}
    assert {pair.rejected for pair in read} == {"x = 2", "x ="}
    fit(DPO(policy, max_updates=1), tmp_path, data=data(path))


BETA = 0.25


def pair(log_ratio_difference: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Chosen, rejected, and their references, at the given difference of log-ratios; else arbitrary."""
    reference = torch.tensor([-7.0], dtype=torch.float64), torch.tensor([-11.0], dtype=torch.float64)
    rejected = (reference[1] - 0.5).requires_grad_()
    chosen = (reference[0] - 0.5 + log_ratio_difference).requires_grad_()
    return chosen, rejected, *reference


def test_far_margins_stay_finite() -> None:
    for difference in (1e4, -1e4):
        loss = preference_loss(*pair(difference), beta=BETA)
        assert loss.item() == pytest.approx(0.0 if difference > 0 else 2500.0)


def test_the_optimum_of_the_sigmoid_loss_reproduces_the_preference_odds() -> None:
    """With a share q of pairs one way and 1 - q the other the best margin is log q / (1 - q)."""
    share = 0.8
    difference = math.log(share / (1 - share)) / BETA
    chosen, rejected, ref_chosen, ref_rejected = pair(difference)
    one_way = preference_loss(chosen, rejected, ref_chosen, ref_rejected, beta=BETA)
    other_way = preference_loss(rejected, chosen, ref_rejected, ref_chosen, beta=BETA)
    (slope,) = torch.autograd.grad((share * one_way + (1 - share) * other_way).sum(), chosen)
    assert slope.item() == pytest.approx(0.0, abs=1e-12)
