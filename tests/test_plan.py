"""Needs of a run on paper: figures that can be checked by hand, and peaks measured on small runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.peak_memory import PeakMemory
from support.ranks import on_ranks
from support.small_runs import EvenBytes, fit
from torch.profiler import ProfilerActivity, profile

from lit_rl.arguments import UsageError
from lit_rl.cli.main import main
from lit_rl.cli.plan import job_of, moments_of, shape_of
from lit_rl.cli.trace import trace
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import VLLM
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, FSDP2Strategy, LoRA, SeparateCritic, SharedCritic
from lit_rl.modules import GRPO, PPO, Update
from lit_rl.planning.advice import advice, changes, fits
from lit_rl.planning.job import Job, Shape
from lit_rl.planning.memory import resident, sampling, updating
from lit_rl.planning.seconds import (
    DEVICES,
    Rates,
    Traffic,
    decode_seconds,
    of_updates,
    of_weights,
    sandbox_cores,
    seconds,
    update_flops,
)
from lit_rl.rewards import TestsReward
from lit_rl.rollout import Collect
from lit_rl.types import Problem, Sampling

ROOT = Path(__file__).parents[1]
TOKENIZER = "package:lit_rl/data/basics/tokenizer"
SEVEN = Shape(28, 3584, 3584, 512, 18944, 152064, 7_615_616_512, 233_057_792)
"""Qwen2.5-7B."""
SMALL = {
    "model_type": "qwen2",
    "vocab_size": 2048,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
LETTERS = 64


# -- figures that can be checked by hand ----------------------------------------------------------------------


def test_full_training_with_adam_takes_sixteen_bytes_for_each_weight() -> None:
    memory, grown = resident(Job(SEVEN)), updating(Job(SEVEN, microbatch_rows=1))
    assert memory.weights + memory.moments == 12 * SEVEN.parameters
    assert grown.gradients == 4 * SEVEN.parameters  # of the micro-batches before this one
    narrow = resident(Job(SEVEN, weight_bytes=2, gathered_bytes=2))
    assert (narrow.weights, narrow.masters, narrow.moments) == tuple(n * SEVEN.parameters for n in (2, 4, 8))


def test_shares_are_divided_by_the_ranks_of_a_replica() -> None:
    whole = resident(Job(SEVEN))
    for ranks, shards in ((8, 8), (16, 8)):
        spread = resident(Job(SEVEN, num_ranks=ranks, ranks_per_node=8, num_shards=shards, gathered_bytes=2))
        assert (spread.weights, spread.moments) == (whole.weights / 8, whole.moments / 8)


def test_adapters_freeze_the_base_and_share_it_with_reference_and_critic() -> None:
    adapted = Job(SEVEN, weight_bytes=2, gathered_bytes=2, adapter_parameters=40_000_000, adapter_rank=16)
    assert resident(adapted).weights == 2 * SEVEN.parameters + 4 * 40_000_000
    assert resident(adapted).moments == 8 * 40_000_000
    critic = replace(adapted, critic="shared_base")
    assert resident(critic).weights - resident(adapted).weights == 4 * (40_000_000 + 3584 + 1)
    full = Job(SEVEN, critic="own_trunk", has_frozen_copy=True)
    assert resident(full).weights == 4 * (3 * SEVEN.parameters + 3584 + 1)


def test_a_prompt_that_is_shared_is_kept_once_per_group() -> None:
    shared = Job(SEVEN, group_size=8, microbatch_rows=8, prompt_tokens=1000, completion_tokens=100)
    assert shared.micro_tokens() == 1000 + 8 * 100
    assert replace(shared, shares_prompts=False).micro_tokens() == 8 * 1100
    assert updating(shared).activations < updating(replace(shared, shares_prompts=False)).activations / 3


def test_the_sampler_keeps_prompts_once_and_rows_in_doubling_buffers() -> None:
    job = Job(SEVEN, num_problems=2, group_size=4, prompt_tokens=100, completion_tokens=100, gathered_bytes=2)
    of_token = 2 * 28 * 512 * 2  # keys and values of all layers, bfloat16
    assert sampling(job).cache == of_token * (2 * 100 + 8 * 128)
    assert sampling(replace(job, max_rows=4)).cache == of_token * (100 + 4 * 128)
    assert sampling(replace(job, engine="elsewhere")).cache == 0
    other = sampling(replace(job, engine="colocated"))
    assert other.engine == 2 * SEVEN.parameters + of_token * (2 * 100 + 8 * 128)
    assert sampling(replace(job, engine="colocated", engine_bytes=32e9)).engine == 32e9


def test_ddp_reduces_gradients_once_per_micro_batch() -> None:
    job = Job(SEVEN, num_ranks=8, ranks_per_node=8, num_problems=4, group_size=4, microbatch_rows=8)
    assert of_updates(job) == Traffic(inside=2 * 7 / 8 * 4 * SEVEN.parameters * 2)
    assert of_updates(replace(job, num_ranks=1)) == Traffic()


def test_fsdp_gathers_twice_and_spreads_once_per_micro_batch() -> None:
    job = Job(SEVEN, num_ranks=8, ranks_per_node=8, num_shards=8, gathered_bytes=2, microbatch_rows=64)
    assert of_updates(job).inside == pytest.approx(7 / 8 * SEVEN.parameters * (2 * 2 + 4))
    assert of_updates(job).between == 0
    assert of_weights(job).inside == pytest.approx(7 / 8 * SEVEN.parameters * 2)
    adapted = replace(job, adapter_parameters=1000)
    assert of_weights(adapted) == of_weights(job)  # an engine in the process gathers the base as well
    assert of_weights(replace(adapted, engine="colocated")).inside == pytest.approx(7 / 8 * 1000 * 2)
    nodes = replace(job, num_ranks=16, num_shards=16)
    assert of_updates(nodes).inside == 0  # a ring over two nodes is as slow as the link between them
    assert of_updates(nodes).between == pytest.approx(15 / 16 * SEVEN.parameters * (2 * 2 + 4))


def test_replicas_move_only_shares_of_gradients_between_nodes() -> None:
    job = Job(SEVEN, num_ranks=16, ranks_per_node=8, num_shards=8, gathered_bytes=2, microbatch_rows=64)
    moved = of_updates(job)
    assert moved.inside == pytest.approx(7 / 8 * SEVEN.parameters * (2 * 2 + 4))
    assert moved.between == pytest.approx(2 * 1 / 2 * SEVEN.parameters / 8 * 4)


def test_seconds_are_those_of_the_roofline() -> None:
    h100, exact = DEVICES["h100"], Rates(1.0, 1.0, 1.0)
    job = Job(SEVEN, num_problems=1, group_size=1, prompt_tokens=0, completion_tokens=100, gathered_bytes=2)
    assert decode_seconds(job, h100.flops, h100.memory_bandwidth) == pytest.approx(
        100 * SEVEN.parameters * 2 / 3.35e12, rel=0.01
    )
    crowd = replace(job, num_problems=2000)
    bound = 100 * 2 * SEVEN.parameters * 2000 / 989e12
    assert decode_seconds(crowd, h100.flops, h100.memory_bandwidth) == pytest.approx(bound, rel=0.01)
    tokens = 100
    assert update_flops(job) == pytest.approx(6 * SEVEN.parameters * tokens, rel=0.01)
    assert update_flops(replace(job, adapter_parameters=1)) == pytest.approx(4 * SEVEN.parameters * tokens, rel=0.01)
    assert update_flops(replace(job, computes_again=True)) == pytest.approx(8 * SEVEN.parameters * tokens, rel=0.01)
    assert seconds(job, h100, exact).update == pytest.approx(6 * SEVEN.parameters * tokens / 989e12, rel=0.01)
    time = seconds(job, h100, exact)
    assert sandbox_cores(job, time, Rates(program_seconds=0.1)) == pytest.approx(0.1 / (time.prefill + time.decode))
    assert sandbox_cores(crowd, time, Rates(program_seconds=2.0)) == 2000, "a program has use for one core"


def test_what_does_not_fit_is_told_the_arguments_with_which_it_would() -> None:
    h100 = DEVICES["h100"]
    too_long = Job(SEVEN, weight_bytes=2, gathered_bytes=2, adapter_parameters=40_000_000, adapter_rank=16)
    too_long = replace(too_long, microbatch_rows=64, prompt_tokens=1024, completion_tokens=1024)
    assert not fits(too_long, h100)
    assert advice(too_long, h100) == ["policy.gradient_checkpointing: true"]
    everything = Job(SEVEN, num_ranks=8, ranks_per_node=8, microbatch_rows=2, prompt_tokens=512)
    assert not fits(everything, h100)
    assert advice(everything, h100)[0] == "trainer.strategy: fsdp2"
    assert advice(replace(everything, shape=replace(SEVEN, parameters=10**13)), h100) == []


def test_every_change_that_is_advised_saves_memory() -> None:
    job = Job(SEVEN, num_ranks=16, ranks_per_node=8, num_shards=8, microbatch_rows=16, has_frozen_copy=True)
    for name, change in [*changes(job), *changes(replace(job, num_shards=1))]:
        start = job if "fsdp2" not in name else replace(job, num_shards=1)
        before, after = (updating(one).total + sampling(one).total for one in (start, change(start)))
        assert after < before, name


# -- reading a configuration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lora", [None, LoRA(rank=4)])
def test_the_shape_is_that_of_the_model_that_would_be_loaded(lora: LoRA | None) -> None:
    shape, adapters = shape_of(CausalLM(config=SMALL, tokenizer=TOKENIZER, lora=lora))
    policy = CausalLM(config=SMALL, tokenizer=TOKENIZER, lora=lora)
    policy.load()
    sizes = {name: p.numel() for name, p in policy.named_parameters()}
    assert shape.parameters + adapters == sum(sizes.values())
    assert adapters == sum(size for name, size in sizes.items() if "lora" in name)
    assert (shape.query_size, shape.key_size) == (128, 64)
    assert shape.outside_parameters == 2048 * 128 + 128


@pytest.mark.parametrize("merged", [False, True])
def test_an_engine_that_merges_adapters_is_sent_their_base_too(merged: bool) -> None:
    policy = CausalLM(config=SMALL, tokenizer=TOKENIZER, lora=LoRA(rank=4))
    collect = Collect(engine=VLLM(merge_adapters=merged))
    job = job_of(GRPO(policy, rewards=[TestsReward()], collect=collect), "auto", 4, 1)
    sent = job.shape.parameters if merged else job.adapter_parameters
    assert of_weights(replace(job, engine="elsewhere")).between == 4 * sent


def test_an_optimizer_is_asked_what_it_keeps() -> None:
    assert moments_of(torch.optim.AdamW) == 2
    assert moments_of(lambda p: torch.optim.SGD(p, lr=0.1)) == 0
    assert moments_of(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)) == 1


def test_the_strategy_that_scripts_and_pages_name_fits_seven_billion_weights_on_eight_gpus(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages = [*(ROOT / "configs/slurm").glob("*.sbatch"), ROOT / "docs/slurm.md", ROOT / "docs/clusters.md"]
    named = [re.findall(r"my(?:_run)?\.yaml +(--\S*strategy|--config) (\S+)", page.read_text()) for page in pages]
    ((_, file),) = {(flag, value) for of_page in named for flag, value in of_page if "ckpt" not in value}
    model = str(ROOT / "configs/scaling/qwen2.5_coder_7b_grpo.yaml")
    main(["plan", "--config", model, "--config", str(ROOT / file), "--gpus", "8", "--prompt_tokens", "1024"])
    assert "does not fit" not in capsys.readouterr().out
    main(["plan", "--config", model, "--trainer.strategy", "fsdp2", "--gpus", "8", "--prompt_tokens", "1024"])
    assert "does not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", str(ROOT / "configs/basics_sft.yaml")], "plan covers GRPO, REINFORCE and PPO"),
        (
            ["--config", str(ROOT / "configs/scaling/qwen2.5_coder_32b_grpo.yaml"), "--gpus", "15"],
            "cannot be divided into 2 replicas",
        ),
        (["--config", str(ROOT / "configs/scaling/qwen2.5_coder_7b_grpo.yaml"), "--gpus", "0"], "expected at least 1"),
    ],
)
def test_what_cannot_be_planned_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["plan", *arguments])
    error = capsys.readouterr().err
    assert error.startswith("lit-rl: error:") and error.count("\n") == 1 and said in error


# -- measured -------------------------------------------------------------------------------------------------


class LongPrompts(TaskDataModule):
    """Prompts that all have the same number of tokens."""

    name = "long"
    letters = LETTERS

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem(f"{split}{i}", chr(97 + i) * self.letters, TokenTarget()) for i in range(16)]


KINDS = ("full", "lora", "ppo", "two ranks")
WIDE = SMALL | {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8}
LARGE = {
    "full": (WIDE, 512, 256),
    "lora": (WIDE, 512, 256),
    "ppo": (WIDE, 512, 256),
    "ppo alone": (WIDE, 512, 256),
    "two ranks": (WIDE, 512, 512),
    "long prompts": (WIDE, 1800, 64),
    "large vocabulary": (WIDE | {"vocab_size": 65536, "num_hidden_layers": 4}, 256, 256),
}
"""Runs above 1 GB: the model, letters of a prompt, tokens of a completion."""


def small_run(kind: str, config: dict[str, Any] = SMALL, max_tokens: int = 64) -> Any:
    """A module of three rollouts of 16 rows on all ranks together, in micro-batches of eight."""
    adapted = kind in ("lora", "ppo")
    config = config | {"max_position_embeddings": 4096}
    policy = CausalLM(config=config, tokenizer=TOKENIZER, lora=LoRA(rank=8) if adapted else None)
    options: dict[str, Any] = {
        "sampling": Sampling(num_samples=4, max_tokens=max_tokens),
        "rewards": [EvenBytes()],
        "update": Update(
            optimizer=lambda p: torch.optim.AdamW(p, lr=1e-4), microbatch_size=4 if kind == "two ranks" else 8
        ),
        "max_rollouts": 2,
    }
    if kind.startswith("ppo"):
        return PPO(policy, critic=SharedCritic() if adapted else SeparateCritic(), **options)
    return GRPO(policy, **options)


class Peaks(pl.Callback):
    """The peak while sampling and while updating, from the second rollout on: the optimizer's state is there."""

    def __init__(self) -> None:
        self.collecting: list[int] = []
        self.updating: list[int] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.mode = PeakMemory([*pl_module.parameters(), *pl_module.buffers()])
        self.mode.__enter__()
        for name, peaks in (("collect", self.collecting), ("learn_from", self.updating)):
            setattr(pl_module, name, self._watched(getattr(pl_module, name), peaks))

    def _watched(self, part: Callable[..., Any], peaks: list[int]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            self.mode.peak = 0
            result = part(*arguments)
            peaks.append(self.mode.peak)
            return result

        return run

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self.mode.__exit__(None, None, None)


class ProfiledPeaks(Peaks):
    """The same of updates by PyTorch's profiler: what is held before, and what is allocated on top."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        plain = pl_module.learn_from

        def profiled(*args: Any) -> Any:
            states = pl_module.optimizers().optimizer.state.values()
            tensors = [*pl_module.parameters(), *pl_module.buffers(), *(p.grad for p in pl_module.parameters())]
            tensors += [value for state in states for value in state.values()]
            local = [getattr(one, "_local_tensor", one) for one in tensors if isinstance(one, torch.Tensor)]
            held = {one.untyped_storage()._cdata: one.untyped_storage().nbytes() for one in local}
            with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
                result = plain(*args)
            events: Any = recorded.profiler.kineto_results.events()
            changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
            self.collecting.append(0)
            self.updating.append(sum(held.values()) + max(accumulate(size for _, size in changes)))
            return result

        pl_module.learn_from = profiled

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        """The profiler has ended with each update."""


def measured(
    kind: str,
    folder: Path,
    config: dict[str, Any] = SMALL,
    letters: int = LETTERS,
    max_tokens: int = 64,
    by: type[Peaks] = Peaks,
) -> tuple[int, int, Job]:
    """Peaks of sampling and updating on the first rank, and the job as planned."""
    module, peaks, ranks = small_run(kind, config, max_tokens), by(), 2 if kind == "two ranks" else 1
    strategy: Any = FSDP2Strategy(timeout_minutes=2.0) if ranks > 1 else "auto"
    job = job_of(module, strategy, 4 // ranks, ranks)
    task = LongPrompts(batch_size=4 // ranks)
    task.letters = letters
    fit(module, folder, data=task, devices=ranks, strategy=strategy, callbacks=[peaks])
    tokens = len(module.policy.codec.encode(task.problems("train")[0]))
    return peaks.collecting[1], peaks.updating[1], replace(job, prompt_tokens=tokens)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_planned_memory_is_within_15_percent_of_the_measured_peak(kind: str, tmp_path: Path) -> None:
    if kind == "two ranks":
        collected, updated, job = on_ranks(lambda: measured(kind, tmp_path), seconds=300)[0]
    else:
        collected, updated, job = measured(kind, tmp_path)
    planned = updating(job), sampling(job)
    print(
        f"{kind}: planned {planned[0].total:,.0f} and {planned[1].total:,.0f}, measured {updated:,} and {collected:,}"
    )
    assert planned[0].total == pytest.approx(updated, rel=0.15)
    assert planned[1].total == pytest.approx(collected, rel=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE)
def test_a_trace_is_within_10_percent_of_the_measured_peak(kind: str, tmp_path: Path) -> None:
    config, letters, max_tokens = LARGE[kind]
    sizes = (tmp_path, config, letters, max_tokens, ProfiledPeaks)
    ranks: Any = on_ranks(measured, kind, *sizes, seconds=900) if kind == "two ranks" else [measured(kind, *sizes)]
    _, updated, job = ranks[0]
    strategy = FSDP2Strategy() if kind == "two ranks" else "auto"
    traced = trace(small_run(kind, config, max_tokens), strategy, job, on_cpu=True).updating.total
    print(f"{kind}: traced {traced:,.0f}, measured {updated:,}, {traced / updated:.3f}")
    assert updated > 1e9
    assert traced == pytest.approx(updated, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("qwen2.5_coder_7b_grpo", "7.62B parameters, 7,615.6M learn; 8 x h100, weights spread over 8 ranks"),
        ("qwen2.5_coder_7b_grpo_lora", "7.62B parameters, 80.7M learn; 1 x h100"),
        ("qwen2.5_coder_7b_ppo", "7.62B parameters, 161.5M learn; 8 x h100"),
        ("qwen3_8b_grpo", "8.19B parameters, 8,190.7M learn; 8 x h100, weights spread over 8 ranks"),
        (
            "qwen2.5_coder_32b_grpo",
            "32.76B parameters, 268.4M learn; 16 x h100, weights spread over 8 ranks, 2",
        ),
    ],
)
def test_configurations_to_start_from_are_traced_without_their_memory(
    config: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["plan", "--trace", "--config", str(ROOT / f"configs/scaling/{config}.yaml"), "--prompt_tokens", "1024"])
    printed = capsys.readouterr().out
    assert printed.startswith(said) and "does not fit" not in printed
    assert getrusage(RUSAGE_SELF).ru_maxrss * 1024 < 8e9


def test_a_trace_counts_what_a_run_keeps_and_ties_what_is_tied() -> None:
    module = small_run("full")
    job = replace(job_of(module, "auto", 4, 1), prompt_tokens=64)
    traced = trace(module, "auto", job, on_cpu=True)
    parameters, steps = job.shape.parameters, 4 * (4 * 12 + 2)  # Adam's float32 step count of each parameter
    assert traced.held.moments == 8 * parameters + steps
    assert 4 * parameters <= traced.held.weights < 4 * parameters + 1000  # rotary frequencies
    assert traced.updating.gradients == 4 * parameters
    assert traced.traffic == Traffic()


def test_a_trace_spreads_and_gathers_over_ranks_that_are_not_there() -> None:
    module, strategy = small_run("two ranks"), FSDP2Strategy(replicas=2)
    job = replace(job_of(module, strategy, 1, 8, 4), prompt_tokens=64)
    try:
        traced = trace(module, strategy, job)
    except UsageError as error:  # with torch 2.10
        if "leave --trace out" not in str(error) or not torch.__version__.startswith("2.10."):
            raise
        pytest.skip(str(error))
    assert traced.held.moments == pytest.approx(8 * job.shape.parameters / 4, rel=0.01)
    assert traced.gathered == pytest.approx(4 * job.shape.parameters, rel=0.01)
    between = 2 * 1 / 2 * 4 * job.shape.parameters / 4  # a ring of two replicas sums each rank's share
    assert traced.traffic.between == pytest.approx(between, rel=0.01)
    gathers = traced.traffic.inside / (3 / 4 * 4 * job.shape.parameters)
    assert 2 < gathers <= 3  # forward and backward gather, the backward scatters; the root stays whole in between
