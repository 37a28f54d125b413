"""Families of models: greedy is ``generate``, and the sampler's log-probabilities are the training forward's.

``make test-families`` runs them all and writes the table of docs/models.md; ``make test`` runs a few.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.families import CHECKS_THAT_RAISE, FAMILIES, QUICK, SHORT, UNADAPTED, config_of
from support.sampling import sample
from support.tiny_models import loaded

from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.family import UnsupportedModelError
from lit_rl.models.probe import check_sampling_matches_training
from lit_rl.training.ranks import eval_mode
from lit_rl.types import Completions, Problem

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
HEAD = "| `model_type` | samples and scores alike | remark |\n|---|---|---|\n"
WRITES = os.environ.get("LIT_RL_WRITE_MODELS_PAGE") == "1"
NATS = 3e-4
SIZE = 0.2
"""Standard deviation of the weights: about that of trained ones, at which every part of a model has an effect."""


def problems(*prompts: str) -> list[Problem]:
    return [Problem(prompt, prompt, TokenTarget()) for prompt in prompts]


def probed(family: str, tokenizer: str, lora: bool = False) -> CausalLM:
    """A policy whose weights have a real size, adapters included; the probe has seen them."""
    policy = loaded(tokenizer, config=config_of(family), lora=LoRA(rank=2) if lora else None, probe=False)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in policy.parameters():
            noise = SIZE * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise if parameter.dim() > 1 else parameter + noise)
    check_sampling_matches_training(policy.model)
    return policy


def require_greedy_is_generate(policy: CausalLM) -> None:
    ours = sample(policy, problems("def f(x):", "a", "hello"), temperature=0.0, max_tokens=20)
    theirs = policy.model.generate(
        input_ids=ours.prompt_ids, attention_mask=ours.prompt_mask.long(), max_new_tokens=20, do_sample=False
    )[:, ours.prompt_ids.shape[1] :]
    for row, length in enumerate(ours.lengths.tolist()):
        assert ours.completion_ids[row, :length].tolist() == theirs[row, :length].tolist()


def sampled(policy: CausalLM) -> Completions:
    """Rows behind different pads that end at different times, so that the batch becomes smaller on its way."""
    policy.codec.eos_ids = frozenset(range(0, 256, 9))
    done = sample(policy, problems("a", "hello there", "xyz"), num_samples=4, temperature=0.5, max_tokens=24)
    assert done.lengths.min() < 0.5 * done.lengths.max()
    return done


def row_of(family: str, tokenizer: str) -> str:
    """Entry of the table for a family, after all of it was tried."""
    config = config_of(family)
    name, remark = config["model_type"], SHORT.get(family, "")
    if family in CHECKS_THAT_RAISE:
        with pytest.raises((UnsupportedModelError, ValueError), match=CHECKS_THAT_RAISE[family]):
            probed(family, tokenizer)
        return f"| {name} | no | refused: {CHECKS_THAT_RAISE[family]} |"
    adapts = family not in UNADAPTED
    for lora in (False, True)[: 1 + adapts]:
        policy = probed(family, tokenizer, lora)
        with torch.no_grad(), eval_mode(policy):
            require_greedy_is_generate(policy)
            done = sampled(policy)
            assert (policy.logprobs(done, temperature=0.5) - done.sampler_logprobs).abs().max() < NATS
    return f"| {name} | {'yes' if adapts else 'without LoRA'} | {remark} |".replace("|  |", "| |")


ROWS: dict[str, str] = {}


@pytest.fixture(scope="module", autouse=True)
def page() -> Iterator[None]:
    yield
    if WRITES and len(ROWS) == len(FAMILIES):
        before, marker, _ = PAGE.read_text().partition(HEAD)
        PAGE.write_text(before + marker + "\n".join(ROWS[family] for family in sorted(ROWS)) + "\n")


@pytest.mark.parametrize(
    "family", [name if name in QUICK else pytest.param(name, marks=pytest.mark.families) for name in sorted(FAMILIES)]
)
def test_sampling_and_scoring_agree_and_the_page_says_so(family: str, byte_tokenizer: str) -> None:
    ROWS[family] = row_of(family, byte_tokenizer)
    if not WRITES:
        assert ROWS[family] in PAGE.read_text().splitlines()


def test_the_page_has_a_row_for_each_family() -> None:
    if WRITES:
        pytest.skip("the table is being written")
    rows = PAGE.read_text().partition(HEAD)[2].splitlines()
    assert len(rows) == len(FAMILIES)
    assert {row.split("|")[1].strip() for row in rows} == {str(config_of(f)["model_type"]) for f in FAMILIES}
