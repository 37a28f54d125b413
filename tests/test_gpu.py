"""A device does what the CPU does: samples, log-probabilities, gradients, runs, checkpoints. See benchmarks/gpu.py."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.asking import AsksAgain
from support.devices import device_under_test, on_cpu, trainer_options
from support.late_verdicts import Late, PassedAndEven, Programs, Sided
from support.small_runs import Brief, SaveAt, fit, grouped
from support.tiny_models import TINY_QWEN2, loaded

from lit_rl.data.preferences import PreferencePair, PreferencePairs, write_preference_pairs
from lit_rl.engines import InProcess
from lit_rl.execution import ReferenceText
from lit_rl.math.losses import TruncatedWeights
from lit_rl.models import CausalLM, LoRA, SeparateCritic, SharedCritic
from lit_rl.models.sampling import RandomKey, RunningBatch
from lit_rl.modules import DPO, GRPO, PPO, REINFORCE, SFT, Objective, RolloutModule
from lit_rl.rollout import sample_rows
from lit_rl.types import Completions, Problem, Sampling

pytestmark = pytest.mark.gpu
SAMPLED, GREEDY = Sampling(num_samples=4, max_tokens=24), Sampling(temperature=0.0, max_tokens=24)


@pytest.fixture
def device() -> Iterator[torch.device]:
    """float32 in full: products in TF32 would differ in the fourth digit."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    with device_under_test() as found:
        yield found
    torch.set_float32_matmul_precision(before)


def policy_on(tokenizer: str, device: torch.device | str, **options: Any) -> CausalLM:
    return loaded(tokenizer, **options).to(device).eval()


def rows(policy: CausalLM, sampling: Sampling) -> Completions:
    problems = Programs(batch_size=3).problems("train")[:5]
    return sample_rows(policy, InProcess(), Late(), problems, sampling, RandomKey(0, "train", 0)).completions()


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_samples_are_those_of_the_cpu(byte_tokenizer: str, device: torch.device, sampling: Sampling) -> None:
    """The same ids: uniform numbers come from each row's own stream."""
    there, here = (rows(policy_on(byte_tokenizer, place), sampling) for place in (device, "cpu"))
    assert there.completion_ids.device.type == device.type
    assert torch.equal(on_cpu(there.completion_ids), here.completion_ids)
    assert torch.allclose(on_cpu(there.sampler_logprobs), here.sampler_logprobs, atol=1e-4)


@pytest.mark.parametrize("options", [{}, {"share_prompts": False}], ids=str)
def test_log_probabilities_and_gradients_are_those_of_the_cpu(
    byte_tokenizer: str, device: torch.device, options: dict[str, Any]
) -> None:
    found = []
    sampled = rows(policy_on(byte_tokenizer, "cpu"), SAMPLED)
    for place in (device, torch.device("cpu")):
        policy = policy_on(byte_tokenizer, place, **options)
        assert policy.shares_prompts is not bool(options)
        fields = {n: v.to(place) for n, v in vars(sampled).items() if isinstance(v, torch.Tensor)}
        logprobs = policy.logprobs(type(sampled)(**(vars(sampled) | fields)))
        gradients = torch.autograd.grad(logprobs.sum(), [p for p in policy.parameters() if p.requires_grad])
        found.append((on_cpu(logprobs), torch.cat([on_cpu(g).flatten() for g in gradients])))
    (there, gradient), (here, same) = found
    assert (there - here).abs().max() < 1e-4
    assert (gradient - same).norm() < 1e-4 * same.norm()


class Shown(Programs):
    """Each problem with a demonstration, of unequal length."""

    def load_problems(self, split: Any) -> list[Problem]:
        shown = [{"demonstration": "abc" * (1 + i % 3)} for i in range(6)]
        return [Problem(f"{split}{i}", "w" * (1 + i % 5), ReferenceText(""), fields=shown[i]) for i in range(6)]


def pairs(folder: Path) -> PreferencePairs:
    yes_no = [(f"p{i}", "w" * (1 + i % 3), "yes" * (1 + i % 4), "no" * (1 + i % 5)) for i in range(6)]
    write_preference_pairs(folder / "pairs.jsonl", [PreferencePair(*one, 1.0, 0.0) for one in yes_no])
    return PreferencePairs(str(folder / "pairs.jsonl"), batch_size=3)


SEVERAL = Objective(kl_coef=0.1, entropy_coef=0.01, correction=TruncatedWeights())
RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "grpo": (GRPO, {"objective": SEVERAL, "epochs": 2, "minibatches": 2, "microbatch_size": 5}),
    "alone": (GRPO, {"policy": {"share_prompts": False}, "microbatch_tokens": 40}),
    "checkpointed": (GRPO, {"policy": {"gradient_checkpointing": True}}),
    "lora": (GRPO, {"policy": {"lora": LoRA(rank=2)}, "objective": Objective(kl_coef=0.1)}),
    "refreshed": (GRPO, {"objective": Objective(kl_coef=0.1), "refresh_reference_every": 1}),
    "resampling": (GRPO, {"data": Sided, "max_resamples": 2}),
    "stale": (GRPO, {"staleness": 1, "objective": Objective(correction=TruncatedWeights())}),
    "two-turns": (GRPO, {"environment": AsksAgain(), "mask_truncated": True}),
    "ppo": (PPO, {"critic": SeparateCritic(), "epochs": 2, "value_clip": 0.2, "bootstrap_truncated": True}),
    "ppo-shared": (PPO, {"critic": SharedCritic(), "policy": {"lora": LoRA(rank=2)}, "objective": SEVERAL}),
    "reinforce": (REINFORCE, {}),
    "sft": (SFT, {"data": Shown}),
    "dpo": (DPO, {}),
}


def run(
    kind: str,
    tokenizer: str,
    device: torch.device,
    folder: Path,
    *,
    dtype: str = "float64",
    rate: float = 1e-3,
    **fits: Any,
) -> torch.Tensor:
    """All weights that learn, after two rollouts or updates, on the CPU."""
    cls, settings = RUNS[kind]
    # A large epsilon: Adam turns the rounding of gradients near 0 into steps of the whole rate.
    given: dict[str, Any] = {"optimizer": lambda weights: torch.optim.Adam(weights, lr=rate, eps=1e-3)}
    given |= copy.deepcopy(settings)
    data = given.pop("data", Programs)(batch_size=3) if cls is not DPO else pairs(folder)
    policy = {"config": TINY_QWEN2, "tokenizer": tokenizer, "dtype": dtype} | given.pop("policy", {})
    if cls in (SFT, DPO):
        given["max_updates"] = 2
    else:
        judged = {"rewards": [PassedAndEven()], "sandbox": Late, "max_rollouts": 2}
        given |= judged | {"sampling": Sampling(num_samples=1 if cls is REINFORCE else 4, max_tokens=6)}
    module = cls(Brief(**policy), **grouped(cls, **given))
    fit(module, folder, data=data, **trainer_options(device), **fits)
    return torch.cat([on_cpu(p).flatten().double() for p in module.parameters() if p.requires_grad])


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_ends_with_the_weights_of_the_cpu(
    byte_tokenizer: str, tmp_path: Path, device: torch.device, kind: str
) -> None:
    """In float64, where rounding is far below a step."""

    def learned(place: torch.device, rate: float = 1e-3) -> torch.Tensor:
        return run(kind, byte_tokenizer, place, tmp_path, rate=rate)

    cpu = torch.device("cpu")
    here = learned(cpu)
    assert (learned(device) - here).abs().max() < 1e-10 < 1e-4 < (learned(cpu, 0.0) - here).abs().max()


@pytest.mark.parametrize("kind", ["refreshed", "lora"])
def test_bfloat16_weights_learn(byte_tokenizer: str, tmp_path: Path, device: torch.device, kind: str) -> None:
    found = [run(kind, byte_tokenizer, device, tmp_path, dtype="bfloat16", rate=rate) for rate in (0.0, 1e-2)]
    assert found[1].isfinite().all() and not torch.equal(*found)


@pytest.mark.parametrize("kind", ["grpo", "stale", "lora", "ppo", "sft"])
def test_a_resumed_run_goes_on_where_it_stopped(
    byte_tokenizer: str, tmp_path: Path, device: torch.device, kind: str
) -> None:
    """Equal up to the order of sums, which a GPU does not promise."""
    saved = SaveAt(1, tmp_path / "one.ckpt")
    whole = run(kind, byte_tokenizer, device, tmp_path, callbacks=[saved])
    again = run(kind, byte_tokenizer, device, tmp_path, ckpt_path=str(saved.path))
    assert (again - whole).abs().max() < 1e-9


@pytest.mark.parametrize("kind", ["grpo", "alone", "lora", "two-turns", "ppo", "ppo-shared"])
def test_an_update_seldom_waits_for_the_device(
    byte_tokenizer: str, tmp_path: Path, device: torch.device, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most twice a micro-batch, and twice an optimizer step; twice more a forward pass by transformers' masks."""
    waits = waits_of(device)
    found: list[Counter[str]] = []
    plain = RolloutModule.update_once

    def counted(module: RolloutModule, experience: Any, *given: Any) -> bool:
        assert experience.completions.on_host is not experience.completions, "copied once a rollout"
        before = waits.copy()
        done = plain(module, experience, *given)
        found.append(Counter(parts=module.progress.parts))
        for (_, place), count in (waits - before).items():
            found[-1][place.partition("/")[0]] += count
        return done

    monkeypatch.setattr(RolloutModule, "update_once", counted)
    run(kind, byte_tokenizer, device, tmp_path)
    passes = 4 if kind.startswith("ppo") else 2  # of prompts and of completions, by policy and critic
    assert found
    for one in found:
        assert one["lit_rl"] + one["elsewhere"] <= 2 * one["parts"] + 2, waits
        assert one["transformers"] <= 2 * passes * one["parts"]


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_sampling_looks_at_the_device_once_in_16_tokens(
    byte_tokenizer: str, device: torch.device, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = waits_of(device)
    found: list[Counter[Any]] = []
    plain = RunningBatch.step

    def counted(batch: RunningBatch) -> Any:
        before = waits.copy()
        ended = plain(batch)
        found.append(waits - before)
        return ended

    policy = policy_on(byte_tokenizer, device)
    policy.make_batch_decoder()  # tries whether the model shares prompts, once in a run
    monkeypatch.setattr(RunningBatch, "step", counted)
    rows(policy, sampling)
    ours = [sum(count for (_, place), count in one.items() if not place.startswith("transformers")) for one in found]
    assert ours == [1, 1], "24 tokens are two looks"
    assert not any("transformers" in place for _, place in found[1]), "its masks are looked at as prompts are read"


def waits_of(device: torch.device) -> Counter[Any]:
    if device.type != "python":
        pytest.skip("only the device in Python counts how often it was waited for: LIT_RL_TEST_DEVICE=python")
    from support.python_device import SYNCS

    return SYNCS


def test_tensors_of_two_devices_do_not_mix(device: torch.device) -> None:
    """Else a run on the device in Python would show nothing."""
    if device.type != "cpu":
        with pytest.raises(RuntimeError, match="device"):
            torch.ones(2, device=device) + torch.ones(2)


def test_a_policy_on_a_device_is_saved_as_one_of_the_cpu(
    byte_tokenizer: str, tmp_path: Path, device: torch.device
) -> None:
    policy = policy_on(byte_tokenizer, device)
    policy.save_pretrained(tmp_path / "model")
    again = loaded(model=str(tmp_path / "model"))
    here: Callable[[CausalLM], list[torch.Tensor]] = lambda one: [on_cpu(p) for p in one.parameters()]  # noqa: E731
    assert all(torch.equal(*both) for both in zip(here(policy), here(again), strict=True))


def test_gradients_of_masked_attention_are_finite(byte_tokenizer: str, device: torch.device) -> None:
    """Item 80: half a tile beyond a multiple of 128 keys, all scores at -120: on an H200 cuDNN made NaN of these."""
    policy_on(byte_tokenizer, device)  # a policy in the process decides which kernels attention may use
    rows, width = 704, 64
    generator = torch.Generator().manual_seed(0)
    query, key, value = (0.1 * torch.randn(1, 1, rows, width, generator=generator) for _ in range(3))
    query[..., 0], key[..., 0] = 1.0, -120 * width**0.5
    given = [x.to(device, torch.bfloat16).requires_grad_() for x in (query, key, value)]
    mask = torch.ones(rows, rows, dtype=torch.bool).tril().to(device)[None, None]
    found = torch.nn.functional.scaled_dot_product_attention(*given, attn_mask=mask)
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(found.float().square().sum(), given))
