"""Small trained runs that are ill, in which a rule names the cause, and healthy ones, in which all are silent."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ill_runs import Copies, Judged, Programs, ReadsPads, Reports
from support.small_runs import build_module, fit
from support.tiny_models import TINY_QWEN2

from lit_rl.callbacks import Diagnostics
from lit_rl.execution.interface import Verdict
from lit_rl.modules import GRPO
from lit_rl.reports.diagnosis import LastRollout, MetricHistory, RunSettings

FEW = 3


def found(module: Any, folder: Path, **run: Any) -> Any:
    """Diagnoses of a run by rule; tiny rows always end at the limit."""
    callback = Diagnostics(FEW, rules=run.pop("rules", ()), leave_out=run.pop("leave_out", ["truncated"]))
    fit(module, folder, callbacks=[callback], **run)
    assert len({one.rule for one in callback.found}) == len(callback.found), "a rule speaks once"
    return {one.rule: one for one in callback.found}


def sgd(lr: float) -> Any:
    return partial(torch.optim.SGD, lr=lr)


def adam(lr: float) -> Any:
    return partial(torch.optim.Adam, lr=lr)


# By the rule that a run provokes: arguments of the module and of the run, and a part of what is said.
PROVOKED: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "no learning rate": ("still_weights", {"optimizer": sgd(0.0)}, {}, "the learning rate is 0"),
    "an engine with old weights": (
        "sampler_gap",
        {"engine": Copies(lambda *_: False), "max_rollouts": FEW + 2, "minibatches": 3, "optimizer": sgd(0.1)},
        {},
        "new weights do not reach it",
    ),
    "logarithms to base 2": (
        "sampler_gap",
        {"engine": Reports(lambda said: [one / math.log(2) for one in said])},
        {},
        "the engine reports logarithms to base 2",
    ),
    "programs that time out": (
        "sandbox",
        {"sandbox": Judged(Verdict.TIMED_OUT, 0.4)},
        {"data": Programs(batch_size=3)},
        "of the programs time out",
    ),
}


@pytest.mark.parametrize("sickness", PROVOKED)
def test_a_planted_sickness_is_named_and_nothing_else(byte_tokenizer: str, tmp_path: Path, sickness: str) -> None:
    rule, of_module, of_run, said = PROVOKED[sickness]
    messages = found(build_module(byte_tokenizer, **({"max_rollouts": FEW + 1} | of_module)), tmp_path, **of_run)
    assert list(messages) == [rule]
    assert said in messages[rule].message and f"lit-rl docs monitoring#{rule}" in messages[rule].message


def test_a_trainer_that_takes_pads_for_tokens_is_named(byte_tokenizer: str, tmp_path: Path) -> None:
    module = build_module(byte_tokenizer, max_rollouts=FEW)
    policy = ReadsPads(config=TINY_QWEN2 | {"initializer_range": 0.3}, tokenizer=byte_tokenizer, dtype="float64")
    module = GRPO(policy, sampling=module.sampling, rewards=module.rewards, max_rollouts=FEW)
    assert "rows without padding agree" in found(module, tmp_path)["sampler_gap"].message


def test_a_healthy_run_hears_nothing(byte_tokenizer: str, tmp_path: Path) -> None:
    assert found(build_module(byte_tokenizer, max_rollouts=8), tmp_path) == {}


def short(metrics: MetricHistory, last: LastRollout, settings: RunSettings) -> str:
    """A rule as a researcher writes it."""
    length = metrics.mean("completion/length")
    return f"{length:.0f} tokens" if length < 100 else ""


def test_a_rule_of_ones_own_is_asked(byte_tokenizer: str, tmp_path: Path) -> None:
    module = build_module(byte_tokenizer, max_rollouts=FEW)
    assert found(module, tmp_path, rules=[short])["short"].message == "6 tokens"
