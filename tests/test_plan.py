"""Needs of a run: counts of a trace that can be checked by hand, and peaks measured on small runs."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from support.command_line import one_line
from support.ranks import on_ranks
from support.small_runs import EvenBytes, fit
from torch.profiler import ProfilerActivity, profile

from lit_rl.cli.live_bytes import HOST, REST, LiveByteCounter
from lit_rl.cli.main import main
from lit_rl.cli.plan import resource_plan_text
from lit_rl.cli.trace import RankCosts, RunWorkload, measure_update_costs, workload_from_run
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import InProcess
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, FSDP2Strategy, LoRA, SeparateCritic, SharedCritic
from lit_rl.modules import GRPO, PPO, UpdateConfig
from lit_rl.rollout import RolloutConfig
from lit_rl.types import Problem, Sampling

ROOT = Path(__file__).parents[1]
TOKENIZER = "package:lit_rl/data/basics/tokenizer"
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("basics_sft", "plan covers GRPO, REINFORCE and PPO"),
        ("scaling/qwen2.5_coder_32b_grpo --gpus 15", "cannot be divided into 2 replicas"),
        ("scaling/qwen2.5_coder_7b_grpo --gpus 0", "expected at least 1"),
        ("scaling/qwen2.5_coder_32b_grpo --model.policy.quantization 4bit", "4-bit weights cannot be sharded over"),
    ],
)
def test_what_cannot_be_planned_is_one_line(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in one_line(f"plan --config {arguments}", capsys)


class LongPrompts(TaskDataModule):
    """Prompts that all have the same number of tokens."""

    name = "long"
    letters = LETTERS

    def load_problems(self, split: Split) -> list[Problem]:
        return [Problem(f"{split}{i}", chr(97 + i) * self.letters, TokenTarget()) for i in range(16)]


WIDE = SMALL | {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8}
LARGE_MODEL_PARAMETERS = {
    "full": (WIDE, 512, 256),
    "lora": (WIDE, 512, 256),
    "ppo": (WIDE, 512, 256),
    "ppo alone": (WIDE, 512, 256),
    "two ranks": (WIDE, 512, 512),
    "long prompts": (WIDE, 1800, 64),
    "large vocabulary": (WIDE | {"vocab_size": 65536, "num_hidden_layers": 4}, 256, 256),
}
"""Runs above 1 GB: the model, letters of a prompt, tokens of a completion."""


def small_run(
    kind: str, config: dict[str, Any] = SMALL, max_tokens: int = 64, max_rows: int | None = None, **policy_options: Any
) -> Any:
    """A module of three rollouts of 16 rows on all ranks together, in micro-batches of eight."""
    adapted = kind in ("lora", "ppo")
    config = config | {"max_position_embeddings": 4096}
    policy = CausalLM(config=config, tokenizer=TOKENIZER, lora=LoRA(rank=8) if adapted else None, **policy_options)
    options: dict[str, Any] = {
        "sampling": Sampling(num_samples=4, max_tokens=max_tokens),
        "rewards": [EvenBytes()],
        "collect": RolloutConfig(engine=InProcess(max_rows=max_rows)),
        "update": UpdateConfig(
            optimizer=lambda p: torch.optim.AdamW(p, lr=1e-4), microbatch_size=4 if kind == "two ranks" else 8
        ),
        "max_rollouts": 2,
    }
    if kind.startswith("ppo"):
        return PPO(policy, critic=SharedCritic() if adapted else SeparateCritic(), **options)
    return GRPO(policy, **options)


class Peaks(pl.Callback):
    """Peaks of updates by PyTorch's profiler: what is held before, and what is allocated on top."""

    def __init__(self) -> None:
        self.updating: list[int] = []

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
            self.updating.append(sum(held.values()) + max(accumulate(size for _, size in changes)))
            return result

        pl_module.learn_from = profiled


def measured(kind: str, folder: Path, config: dict[str, Any], letters: int, max_tokens: int) -> tuple[int, RunWorkload]:
    """Peak of the second update on the first rank, and the job as planned."""
    module, peaks, ranks = small_run(kind, config, max_tokens), Peaks(), 2 if kind == "two ranks" else 1
    strategy: Any = FSDP2Strategy(timeout_minutes=2.0) if ranks > 1 else "auto"
    job = workload_from_run(module, strategy, 4 // ranks, ranks)
    task = LongPrompts(batch_size=4 // ranks)
    task.letters = letters
    fit(module, folder, data=task, devices=ranks, strategy=strategy, callbacks=[peaks])
    tokens = len(module.policy.codec.encode_problem(task.problems("train")[0]))
    return peaks.updating[1], replace(job, prompt_tokens=tokens)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGE_MODEL_PARAMETERS)
def test_a_trace_is_within_10_percent_of_the_measured_peak(kind: str, tmp_path: Path) -> None:
    config, letters, max_tokens = LARGE_MODEL_PARAMETERS[kind]
    sizes = (tmp_path, config, letters, max_tokens)
    ranks: Any = on_ranks(measured, kind, *sizes, seconds=900) if kind == "two ranks" else [measured(kind, *sizes)]
    updated, job = ranks[0]
    strategy = FSDP2Strategy() if kind == "two ranks" else "auto"
    traced = sum(
        measure_update_costs(small_run(kind, config, max_tokens), strategy, job, on_cpu=True).updating.values()
    )
    print(f"{kind}: traced {traced:,.0f}, measured {updated:,}, {traced / updated:.3f}")
    assert updated > 1e9
    assert traced == pytest.approx(updated, rel=0.1)


SCALING = sorted((ROOT / "configs/scaling").glob("*.yaml"))
NUMBER = re.compile(r"-?[\d,]*\d(?:\.\d+)?")


def plan_beside(config: Path) -> tuple[list[str], str]:
    """The command in the first comment of a configuration, and what it printed."""
    lines = [line[2:] for line in config.read_text().split("\nseed_everything")[0].splitlines()]
    start = next(number for number, line in enumerate(lines) if line.startswith("lit-rl plan"))
    return lines[start].split()[1:], "\n".join(lines[start + 1 :]) + "\n"


def numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


@pytest.mark.slow
@pytest.mark.parametrize("config", SCALING, ids=lambda path: path.stem)
def test_the_plan_beside_a_configuration_is_what_the_command_prints_without_its_memory(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = getrusage(RUSAGE_SELF).ru_maxrss  # of tests that ran in this process earlier
    command, beside = plan_beside(config)
    main(command)
    printed = capsys.readouterr().out
    assert NUMBER.sub("", printed).split() == NUMBER.sub("", beside).split() and "does not fit" not in printed
    assert numbers(printed) == pytest.approx(numbers(beside), rel=0.05, abs=0.1)
    assert getrusage(RUSAGE_SELF).ru_maxrss <= max(before, 8e9 / 1024)


def test_the_page_has_the_plans_that_are_beside_the_configurations() -> None:
    page = (ROOT / "docs/scaling.md").read_text()
    for config in SCALING:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{config.stem}`")]
        _, beside = plan_beside(config)
        named = {line.split()[0]: numbers(line) for line in beside.splitlines() if line}
        expected = [*named["total"], *named["receives"], *named["computes"]]
        assert numbers("|".join(row.split("|")[2:])) == expected, config.stem


PARAMETERS = 2048 * 128 + 128 + 4 * (2 * 128**2 + 2 * 128 * 64 + 128 + 2 * 64 + 3 * 128 * 384 + 2 * 128)
"""Of ``SMALL``: tied embeddings and the last norm; projections with three biases, feed-forward and norms of a layer."""


def traced_run(
    module: Any, strategy: Any = "auto", batch_size: int = 4, layout: tuple[int, ...] = (1,), **options: Any
) -> RankCosts:
    """Costs of a rank, with prompts of 48 tokens; the layout is the number of ranks, and that of a node's."""
    job = replace(workload_from_run(module, strategy, batch_size, *layout), prompt_tokens=48)
    return measure_update_costs(module, strategy, job, **options)


def test_a_trace_counts_what_a_run_keeps_and_ties_what_is_tied() -> None:
    traced = traced_run(small_run("full"), on_cpu=True)
    steps = 4 * (4 * 12 + 2)  # Adam's float32 step count of each parameter
    assert traced.parameters == traced.trained == PARAMETERS
    assert traced.sampling["moments"] == 8 * PARAMETERS + steps
    assert 4 * PARAMETERS <= traced.sampling["weights"] < 4 * PARAMETERS + 1000  # rotary frequencies
    assert traced.updating["gradients"] == 4 * PARAMETERS
    assert traced.received == (0, 0)
    of_token = 2 * 4 * 64 * 4  # keys and values of four layers, float32
    assert traced.sampling["cache"] == of_token * (4 * 48 + 16 * 64)  # a prompt once for its four rows
    assert traced_run(small_run("full", max_rows=4)).sampling["cache"] == of_token * (48 + 4 * 64)


def test_adapters_alone_learn_and_whole_copies_sum_their_gradients() -> None:
    traced = traced_run(small_run("lora"), "ddp", layout=(6, 3), on_cpu=True)
    assert traced.parameters == PARAMETERS and 0 < traced.trained < PARAMETERS / 4
    assert traced.received == (0, 2 * 5 * 4 * traced.trained // 6)  # a ring of six, once for both micro-batches


def test_a_trace_spreads_and_gathers_over_ranks_that_are_not_there() -> None:
    try:
        traced = traced_run(small_run("two ranks"), FSDP2Strategy(replicas=2), 1, (8, 4))
    except Exception as error:  # with torch 2.10
        if "without memory" not in str(error) or not torch.__version__.startswith("2.10."):
            raise
        pytest.skip(str(error))
    assert traced.parameters == PARAMETERS
    assert traced.sampling["moments"] == pytest.approx(8 * PARAMETERS / 4, rel=0.01)
    assert traced.sampling["gathered"] == pytest.approx(4 * PARAMETERS, rel=0.01)
    near, far = traced.received
    assert far == pytest.approx(2 * 1 / 2 * 4 * PARAMETERS / 4, rel=0.01)  # two replicas sum each rank's share
    gathers = near / (3 / 4 * 4 * PARAMETERS)
    assert 3 < gathers <= 4  # forward, backward and the engine gather, the backward scatters; the root stays whole


def test_what_waits_on_the_cpu_is_counted_there() -> None:
    """On two ranks each copies its share whenever it receives the other's, and its share of the gradients back."""
    plain, offloaded = (
        traced_run(small_run("two ranks"), FSDP2Strategy(offload=offload), 2, (2,)) for offload in (False, True)
    )
    share = 4 * PARAMETERS / 2
    assert plain.on_cpu == plain.copied == 0
    assert plain.updating["weights"] > share and plain.updating["moments"] > 2 * share
    assert offloaded.updating["weights"] < 1000 and not {"moments", "gradients"} & offloaded.updating.keys()
    assert not {"moments", "gradients"} & offloaded.sampling.keys()
    of_largest = 4 * 2048 * 128 / 2
    assert 1.9 * of_largest < offloaded.on_cpu - 4 * share < 2.01 * of_largest  # that Adam needs for a weight at a time
    assert offloaded.received == plain.received
    assert offloaded.copied == pytest.approx(plain.received[0], rel=0.01)
    gained = sum(plain.updating.values()) - sum(offloaded.updating.values())
    assert gained == pytest.approx(4 * share, rel=1e-3)


def test_the_peak_is_that_of_the_device_alone() -> None:
    with LiveByteCounter() as live:
        first = torch.ones(100)
        del first
        with live.count_new_tensors_as(HOST):
            second = torch.ones(1000)
        assert (live.total, live.peak, live.most_on_cpu) == (0, {REST: 400}, 4000)
        third = second.to("cpu", non_blocking=True)
        assert live.total == live.peak[REST] == third.nbytes == 4000 == live.now[HOST]
        fourth = third.to("cpu", non_blocking=False)
        assert (live.total, live.now[HOST], live.received) == (4000, 8000, {HOST: 4000 + fourth.nbytes})


def test_inputs_of_layers_that_wait_on_the_cpu_are_counted_there() -> None:
    kept, offloaded = (
        traced_run(small_run("full", share_prompts=False, gradient_checkpointing=way)) for way in (True, "offload")
    )
    inputs = 4 * 8 * (48 + 64) * 128 * 4  # layers, rows of a micro-batch, their tokens, float32
    assert (kept.on_cpu, offloaded.on_cpu) == (0, inputs)
    assert offloaded.copied == 2 * 2 * inputs  # two micro-batches, there and back
    gained = sum(kept.updating.values()) - sum(offloaded.updating.values())
    assert 0 < gained <= inputs


def test_a_base_in_4_bits_is_whole_one_layer_at_a_time() -> None:
    wide = SMALL | {"hidden_size": 256, "intermediate_size": 768, "tie_word_embeddings": False}
    plain, packed = (traced_run(small_run("lora", wide, dtype="bfloat16", quantization=way)) for way in (None, "4bit"))
    linear = 4 * (2 * 256**2 + 2 * 256 * 128 + 3 * 256 * 768)  # all but embeddings, output matrix, biases and norms
    assert (packed.parameters, packed.trained) == (plain.parameters, plain.trained)
    saved = plain.updating["weights"] - packed.updating["weights"]
    assert saved == linear * (2 - 1 / 2 - 1 / 64 - 4 / (64 * 256))
    gained = sum(plain.updating.values()) - sum(packed.updating.values())
    assert saved - 2 * 256 * 768 * 1.01 <= gained <= saved  # the largest is whole during its product


def test_what_is_more_than_the_device_has_is_said() -> None:
    job = RunWorkload(num_ranks=4, num_shards=2)
    traced = RankCosts(8_000_000_000, 40_000_000, {"weights": 60e9}, {"weights": 16e9}, 3e15, (5e9, 7e9))
    small, large = resource_plan_text(job, traced, "l40s"), resource_plan_text(job, traced, "h100")
    assert "does not fit: 60.0 GB of 44.6" in small and "does not fit" not in large
    assert (
        "2 ranks, 2 replicas" in large
        and "receives 5.0 GB of weights and gradients from its node and 7.0 from others" in large
    )
    assert "CPU" not in large and "copies 8.0 GB between GPU and CPU, where 9.0 GB wait" in resource_plan_text(
        job, replace(traced, on_cpu=9e9, copied=8e9), "h100"
    )
    assert "does not fit" in resource_plan_text(job, traced, "h100", engine=40e9)
