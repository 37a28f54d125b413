"""A GPU does what the CPU does: samples, log-probabilities, gradients, runs, checkpoints. See benchmarks/gpu.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.devices import device_under_test
from support.late_verdicts import Late, PassedAndEven, Programs
from support.small_runs import SaveAt, fit, weights
from support.tiny_models import TINY_QWEN2

from lit_rl.engines import InProcess
from lit_rl.losses import TruncatedWeights
from lit_rl.models import CausalLM, LoRA, SeparateCritic
from lit_rl.models.sampling import StreamKey
from lit_rl.modules import GRPO, PPO, Objective, RolloutModule
from lit_rl.rollout import write_rows
from lit_rl.types import Completions, Sampling

pytestmark = pytest.mark.gpu
SAMPLED, GREEDY = Sampling(num_samples=4, max_tokens=24), Sampling(temperature=0.0, max_tokens=24)


@pytest.fixture
def device() -> Iterator[torch.device]:
    """float32 in full: products in TF32 would differ in the fourth digit."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield device_under_test()
    torch.set_float32_matmul_precision(before)


def loaded(tokenizer: str, device: torch.device | str, **options: Any) -> CausalLM:
    policy = CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, **options)
    policy.load()
    return policy.to(device).eval()


def rows(policy: CausalLM, sampling: Sampling) -> Completions:
    problems = Programs(batch_size=3).problems("train")[:5]
    return write_rows(policy, InProcess(), Late(), problems, sampling, StreamKey(0, "train", 0)).completions()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_samples_are_those_of_the_cpu(byte_tokenizer: str, device: torch.device, sampling: Sampling) -> None:
    """The same ids: uniform numbers come from each row's own stream."""
    there, here = (rows(loaded(byte_tokenizer, place), sampling) for place in (device, "cpu"))
    assert there.completion_ids.device.type == device.type
    assert torch.equal(there.completion_ids.cpu(), here.completion_ids)
    assert torch.allclose(there.sampler_logprobs.cpu(), here.sampler_logprobs, atol=1e-4)


@pytest.mark.parametrize("share", [True, False])
def test_log_probabilities_and_gradients_are_those_of_the_cpu(
    byte_tokenizer: str, device: torch.device, share: bool
) -> None:
    found = []
    sampled = rows(loaded(byte_tokenizer, "cpu"), SAMPLED)
    for place in (device, torch.device("cpu")):
        policy = loaded(byte_tokenizer, place, share_prompts=share)
        assert policy.shares_prompts is share
        fields = {n: v.to(place) for n, v in vars(sampled).items() if isinstance(v, torch.Tensor)}
        logprobs = policy.logprobs(type(sampled)(**(vars(sampled) | fields)))
        gradients = torch.autograd.grad(logprobs.sum(), [p for p in policy.parameters() if p.requires_grad])
        found.append((logprobs.detach().cpu(), torch.cat([g.flatten() for g in gradients]).cpu()))
    (there, gradient), (here, same) = found
    assert (there - here).abs().max() < 1e-4
    assert (gradient - same).norm() < 1e-4 * same.norm()


def run(module: RolloutModule, device: torch.device, folder: Path, **options: Any) -> torch.Tensor:
    accelerator = "gpu" if device.type == "cuda" else "cpu"
    fit(module, folder, data=Programs(batch_size=3), accelerator=accelerator, **options)
    return weights(module).cpu()


def module(
    cls: Any, tokenizer: str, dtype: str, *, lora: bool = False, rate: float = 1e-3, **options: Any
) -> RolloutModule:
    policy = CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, dtype=dtype, lora=LoRA(rank=2) if lora else None)
    made: RolloutModule = cls(
        policy,
        sampling=Sampling(num_samples=4, max_tokens=6),
        rewards=[PassedAndEven()],
        sandbox=Late,
        optimizer=lambda params: torch.optim.Adam(params, lr=rate),
        max_rollouts=3,
        **options,
    )
    return made


@pytest.mark.parametrize("cls", [GRPO, PPO])
def test_a_run_ends_with_the_weights_of_the_cpu(
    byte_tokenizer: str, tmp_path: Path, device: torch.device, cls: Any
) -> None:
    """In float64, where rounding is far below a step."""

    def learned(place: torch.device, rate: float = 1e-3) -> torch.Tensor:
        critic = {"critic": SeparateCritic()} if cls is PPO else {}
        return run(module(cls, byte_tokenizer, "float64", rate=rate, **critic), place, tmp_path)

    cpu = torch.device("cpu")
    here = learned(cpu)
    assert (learned(device) - here).abs().max() < 1e-7 < 1e-3 < (learned(cpu, 0.0) - here).abs().max()


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_bfloat16_weights_learn(byte_tokenizer: str, tmp_path: Path, device: torch.device, lora: bool) -> None:
    objective = Objective(kl_coef=0.01)
    found = [
        run(module(GRPO, byte_tokenizer, "bfloat16", lora=lora, objective=objective, rate=rate), device, tmp_path)
        for rate in (0.0, 1e-2)
    ]
    assert found[1].isfinite().all() and not torch.equal(*found)


@pytest.mark.parametrize("staleness", [0, 1])
def test_a_resumed_run_goes_on_where_it_stopped(
    byte_tokenizer: str, tmp_path: Path, device: torch.device, staleness: int
) -> None:
    """Equal up to the order of sums, which a GPU does not promise."""
    options: dict[str, Any] = {"staleness": staleness, "objective": Objective(correction=TruncatedWeights())}
    saved = SaveAt(2, tmp_path / "two.ckpt")
    whole = run(module(GRPO, byte_tokenizer, "float64", **options), device, tmp_path, callbacks=[saved])
    again = run(module(GRPO, byte_tokenizer, "float64", **options), device, tmp_path, ckpt_path=str(saved.path))
    assert (again - whole).abs().max() < 1e-9
