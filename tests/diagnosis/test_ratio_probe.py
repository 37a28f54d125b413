"""A first ratio that is not 1: each known cause is provoked once in a real run, and named."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.ill_runs import (
    AlwaysDrops,
    Dropping,
    OtherDtype,
    OtherSampling,
    Padding,
    Permuted,
    ReadsPads,
    Reports,
    Shifted,
    WithoutAdapters,
)
from support.small_runs import EvenBytes, fit, weights
from support.tiny_models import TINY_QWEN2

from lit_rl.callbacks import Diagnostics
from lit_rl.models import CausalLM, LoRA
from lit_rl.modules import GRPO, Collect, Update
from lit_rl.reports.diagnosis import FirstRatio
from lit_rl.types import Sampling

SHARP = TINY_QWEN2 | {"initializer_range": 0.3}
"""Random weights that are large enough to prefer some tokens."""
FEW = 2
OTHERS = ("truncated", "jumping_weights", "collapse", "flat_groups", "entropy_collapse")


def diagnosed(
    tokenizer: str, folder: Path, engine: Any, cls: type[CausalLM] = CausalLM, at_most: float = 0.05, **policy: Any
) -> Any:
    """What the rule says of a run; ``None`` if it is silent."""
    config = policy.pop("config", SHARP)
    module = GRPO(
        cls(config=config, tokenizer=tokenizer, **policy),
        sampling=Sampling(num_samples=4, max_tokens=6),
        rewards=[EvenBytes()],
        max_rollouts=FEW,
        update=Update(optimizer=partial(torch.optim.Adam, lr=0.01)),
        collect=Collect(engine=engine),
    )
    callback = Diagnostics(FEW, rules=[FirstRatio(at_most)], leave_out=OTHERS)
    fit(module, folder, callbacks=[callback])
    return callback.found[0] if callback.found else None


CAUSES: dict[str, tuple[dict[str, Any], str]] = {
    "temperature": ({"engine": OtherSampling({"temperature": 0.6})}, "numbers are those of temperature 0.6, and"),
    "top_k": ({"engine": OtherSampling({"top_k": 20})}, "its numbers are those of temperature 1 and top_k 20"),
    "top_p": ({"engine": OtherSampling({"top_p": 0.8})}, "its numbers are those of temperature 1 and top_p 0.8"),
    "trainer's positions": ({"engine": None, "cls": ReadsPads}, "when the trainer reads each alone"),
    "sampler's positions": ({"engine": Padding()}, "when the engine samples each alone"),
    "trainer's dropout": ({"engine": None, "cls": AlwaysDrops}, "dropout in the training forward"),
    "sampler's dropout": (
        {"engine": Dropping(), "config": SHARP | {"attention_dropout": 0.5}, "share_prompts": False},
        "dropout in the sampler",
    ),
    "adapters": ({"engine": WithoutAdapters(), "lora": LoRA(rank=4)}, "adapters: the sampler's numbers are those"),
    "dtype": ({"engine": OtherDtype(), "at_most": 0.003}, "dtype: the sampler's numbers are those of bfloat16"),
    "later token": ({"engine": Reports(lambda said: (*said[1:], -4.0))}, "log-probability of the token after"),
    "earlier token": ({"engine": Reports(lambda said: (-4.0, *said[:-1]))}, "log-probability of the token before"),
    "zero": ({"engine": Reports(lambda said: [0.0] * len(said))}, "constant: the engine reports 0 for every token"),
    "numbers of others": ({"engine": Permuted(whole=False)}, "rows permuted: the engine's log-probabilities are"),
    "answers of others": ({"engine": Permuted(whole=True)}, "rows permuted: the engine's answers are"),
    "another": ({"engine": Shifted()}, "none of the "),
}  # fmt: skip


@pytest.mark.parametrize("cause", list(CAUSES))
def test_each_cause_of_a_first_ratio_off_1_is_named(byte_tokenizer: str, tmp_path: Path, cause: str) -> None:
    arguments, said = CAUSES[cause]
    one = diagnosed(byte_tokenizer, tmp_path, **arguments)
    assert one is not None and one.rule == "sampler_gap"
    assert said in one.message, f"{one.message}\n{one.details}"


def test_a_healthy_engine_is_let_pass(byte_tokenizer: str, tmp_path: Path) -> None:
    assert diagnosed(byte_tokenizer, tmp_path, None, at_most=1e-4) is None


@pytest.mark.parametrize("cause", ["temperature", "trainer's dropout"])
def test_a_probe_leaves_the_run_as_it_was(byte_tokenizer: str, tmp_path: Path, cause: str) -> None:
    """Weights after the probe's passes are those of a run without it, also where training draws random numbers."""
    ends = []
    for rollouts_first in (FEW, 99):  # the second never has enough to judge by
        torch.manual_seed(0)
        arguments = {"cls": CausalLM} | CAUSES[cause][0]
        module = GRPO(
            arguments["cls"](config=SHARP, tokenizer=byte_tokenizer),
            sampling=Sampling(num_samples=4, max_tokens=6),
            rewards=[EvenBytes()],
            max_rollouts=FEW + 2,
            update=Update(optimizer=partial(torch.optim.Adam, lr=0.01)),
            collect=Collect(engine=arguments["engine"]),
        )
        callback = Diagnostics(rollouts_first, leave_out=OTHERS)
        fit(module, tmp_path, callbacks=[callback])
        assert [one.rule for one in callback.found] == (["sampler_gap"] if rollouts_first == FEW else [])
        ends.append(weights(module))
    assert torch.equal(*ends)
