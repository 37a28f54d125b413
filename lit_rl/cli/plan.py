"""``lit-rl plan``: memory and time that a configuration needs on some accelerators, before renting any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import nn

from lit_rl.arguments import UsageError, require_above, require_at_least
from lit_rl.cli import options
from lit_rl.cli.trace import Trace, trace
from lit_rl.functional.logprobs import tokens_per_chunk
from lit_rl.models.adapters import POLICY
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.critic import SeparateCritic, SharedCritic
from lit_rl.models.family import has_experts, most_positions, text_config
from lit_rl.models.loading.weights import load_model
from lit_rl.modules.distillation import Distillation
from lit_rl.modules.ppo import PPO
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.planning.advice import advice, usable
from lit_rl.planning.job import Job, Shape
from lit_rl.planning.memory import Memory, sampling, updating
from lit_rl.planning.seconds import DEVICES, Device, Rates, of_updates, of_weights, sandbox_cores, seconds
from lit_rl.training.precision import torch_dtype
from lit_rl.training.ranks import layers_of
from lit_rl.training.strategy import FSDP2Strategy

_HERE = ("--trainer.accelerator=cpu", "--trainer.precision=32-true")
_GIGA = 1e9
_PLACES = {"VLLM": "colocated", "VLLMServer": "elsewhere"}


def plan(arguments: Sequence[str], build: Callable[[Sequence[str]], Any]) -> None:
    """Print the plan of a run on some accelerators.

    Args:
        arguments: of the command line.
        build: from the arguments of ``lit-rl fit`` to an object with ``model``, ``trainer`` and ``datamodule``.
    """
    given, rest = options.plan().parse_known_args(list(arguments))
    counts = ("gpus", "gpus_per_node", "prompt_tokens", "completion_tokens")
    require_at_least(1, **{name: getattr(given, name) for name in counts if getattr(given, name) is not None})
    require_above(0, program_seconds=given.program_seconds)
    counted = () if given.gpus is None else ("--trainer.devices=1", "--trainer.num_nodes=1")
    run, device = build([*rest, *_HERE, *counted]), DEVICES[given.gpu]
    gpus = given.gpus or run.trainer.num_devices * run.trainer.num_nodes
    job = job_of(run.model, run.trainer.strategy, run.datamodule.batch_size, gpus, given.gpus_per_node)
    job = replace(
        job,
        prompt_tokens=given.prompt_tokens,
        completion_tokens=given.completion_tokens or job.completion_tokens,
        engine=given.engine or job.engine,
        engine_bytes=claimed_by(run.model.sampler.engine, device),
    )
    traced = trace(run.model, run.trainer.strategy, job) if given.trace else None
    print(report(job, device, given.gpu, Rates(program_seconds=given.program_seconds), traced))


def job_of(module: Any, strategy: Any, batch_size: int, gpus: int, gpus_per_node: int = 8) -> Job:
    """The numbers of a run.

    Args:
        module: an algorithm that samples, not yet loaded or loaded.
        strategy: of its trainer.
        batch_size: problems of a rollout on each rank.
        gpus: ranks of the planned run.
        gpus_per_node: ranks of a node, at most.

    Raises:
        ValueError: a module, a policy or a number of ranks that the formulas do not cover.
    """
    counted = isinstance(module, RolloutModule) and not isinstance(module, Distillation)  # a teacher is not counted
    if not counted or not isinstance(module.policy, CausalLM):
        raise UsageError(
            f"plan covers GRPO, REINFORCE and PPO on a CausalLM, got {type(module).__name__} on a "
            f"{type(module.policy).__name__}: give such a configuration"
        )
    policy, sharded = module.policy, isinstance(strategy, FSDP2Strategy)
    shape, adapters = shape_of(policy)
    replicas = strategy.replicas if sharded else gpus
    if gpus % replicas:
        raise UsageError(f"{gpus} GPUs cannot be divided into {replicas} replicas: change --gpus or replicas")
    weight_bytes = torch_dtype(policy.dtype).itemsize
    narrow = strategy.param_dtype if sharded else None
    reduced = (strategy.reduce_dtype or narrow) if sharded else None
    rows = batch_size * module.sampling.num_samples
    critic = module.critic if isinstance(module, PPO) else None
    kl, on_policy = bool(module.objective.kl_coef), module.update.steps == 1
    return Job(
        shape,
        num_ranks=gpus,
        ranks_per_node=min(gpus, gpus_per_node),
        num_shards=gpus // replicas,
        weight_bytes=weight_bytes,
        gathered_bytes=narrow.itemsize if narrow else weight_bytes,
        reduced_bytes=reduced.itemsize if reduced else weight_bytes,
        adapter_parameters=adapters,
        adapter_rank=policy.lora.rank if policy.lora else 0,
        moments=moments_of(module.update.optimizer),
        has_frozen_copy=kl and not adapters,
        critic="shared_base" if isinstance(critic, SharedCritic) else "own_trunk" if critic is not None else "none",
        critic_learns_all=not (isinstance(critic, SeparateCritic) and critic.lora is not None),
        num_problems=batch_size,
        group_size=module.sampling.num_samples,
        completion_tokens=module.sampling.max_tokens,
        microbatch_rows=module.update.microbatch_size or -(-rows // module.update.minibatches),
        updates=module.update.steps,
        passes=module.update.epochs,
        forward_passes=kl + (critic is not None) + (not on_policy or module.objective.penalises_rewards),
        shares_prompts=policy.share_prompts and not sharded,
        computes_again=policy.gradient_checkpointing or (sharded and strategy.activation_checkpointing),
        chunk_tokens=policy.chunk_tokens or tokens_per_chunk(shape.vocabulary),
        engine=_PLACES.get(type(module.sampler.engine).__name__, "in_process"),  # type: ignore[arg-type]
        max_rows=getattr(module.sampler.engine, "max_rows", None),
        merges_adapters=getattr(module.sampler.engine, "merge_adapters", False),
    )


def shape_of(policy: CausalLM) -> tuple[Shape, int]:
    """The shape of a policy's model and the parameters of its adapters, from a model without memory.

    Raises:
        ValueError: a mixture of experts, or a base in 4 bits.
    """
    if policy.quantization is not None:
        raise UsageError(f"plan does not cover quantization {policy.quantization}: leave it out for an upper bound")
    if policy.config is not None:
        policy.load_tokenizer()
    with torch.device("meta"):
        model = load_model(policy.model_spec(), policy.tokenizer)
    config = text_config(model)
    if has_experts(model):
        raise UsageError(f"plan covers dense models, got {config.model_type}, a mixture of experts: give a dense one")
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    sizes = {name: p.numel() for name, p in model.named_parameters()}
    adapters = sum(size for name, size in sizes.items() if f".{POLICY}." in name)
    first = sum(p.numel() for name, p in layers_of(model)[0].named_parameters() if f".{POLICY}." not in name)
    shape = Shape(
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        query_size=config.num_attention_heads * head,
        key_size=(getattr(config, "num_key_value_heads", None) or config.num_attention_heads) * head,
        intermediate=config.intermediate_size,
        vocabulary=config.vocab_size,
        parameters=sum(sizes.values()) - adapters,
        layer_parameters=first,
        has_query_norms=any("q_norm" in name for name in sizes),
        positions=most_positions(model),
    )
    return shape, adapters


def claimed_by(engine: Any, device: Device) -> float | None:
    """Bytes that an engine with a fixed share of a device takes; ``None`` for engines that take what they need."""
    share = getattr(engine, "memory_share", None)
    if share is None or getattr(engine, "cache_gigabytes", None) is not None:
        return None
    return float(share) * device.memory_bytes


def moments_of(make: Any) -> int:
    """Numbers that an optimizer keeps for each parameter, found by a step of it."""
    parameter = nn.Parameter(torch.zeros(2, 3))
    optimizer = make([parameter])
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    kept = optimizer.state[parameter].values()
    return sum(isinstance(value, torch.Tensor) and value.shape == parameter.shape for value in kept)


def report(job: Job, device: Device, name: str, rates: Rates, traced: Trace | None = None) -> str:
    """The plan as text; of a trace what was counted, and no seconds, which are not."""
    shape, replicas = job.shape, f", {job.replicas} replicas" if job.is_sharded and job.replicas > 1 else ""
    spread = f"weights spread over {job.num_shards} ranks{replicas}" if job.is_sharded else "whole weights on each rank"
    lines = [
        f"{shape.parameters / _GIGA:.2f}B parameters, {job.trained_parameters / 1e6:,.1f}M learn; {job.num_ranks} x "
        f"{name}, {spread}",
        f"each rank: {job.num_problems} problems x {job.group_size} completions, prompts of {job.prompt_tokens} and "
        f"completions of {job.completion_tokens} tokens, micro-batches of "
        f"{min(job.microbatch_rows, job.num_rows)} rows",
        "",
    ]
    width = job.prompt_tokens + job.completion_tokens
    if shape.positions is not None and width > shape.positions:
        lines[-1:] = [
            f"rows of {width} tokens do not fit into the model's {shape.positions} positions: lower --prompt_tokens or "
            "--completion_tokens",
            "",
        ]
    update, sample = (updating(job), sampling(job)) if traced is None else (traced.updating, traced.sampling(job))
    lines += _memory_lines(update, sample, device)
    if max(update.total, sample.total) > usable(device):
        helps = advice(job, device)
        what = " and ".join(helps) if helps else f"more than {job.num_ranks} GPUs, or shorter and fewer completions"
        lines += ["", f"does not fit: it would with {what}"]
    weights, moved = of_weights(job), of_updates(job) if traced is None else traced.traffic
    lines += [
        "",
        f"received by a rank in a rollout: {(moved.inside + weights.inside) / _GIGA:.1f} GB inside its node, "
        f"{(moved.between + weights.between) / _GIGA:.1f} GB from other nodes",
    ]
    if traced is not None:
        done = f"{traced.flops / 1e15:,.2f} PFLOP"
        return "\n".join([*lines, f"operations of a rank in a rollout, without sampling: {done}"])
    time = seconds(job, device, rates)
    lines += [
        f"seconds of a rollout, at {rates.arithmetic:.0%} of the arithmetic, {rates.memory:.0%} of the memory's and "
        f"{rates.network:.0%} of the network's bandwidth:",
        f"  prompts {time.prefill:.1f}, completions {time.decode:.1f}, weights to the engine {time.weights:.1f}, "
        f"update {time.update:.1f} (bound by {time.update_is_bound_by}), all {time.total:.1f}",
        f"sandbox: {sandbox_cores(job, time, rates):.1f} cores per GPU run {job.num_rows} programs of "
        f"{rates.program_seconds:g} CPU s while the completions are sampled",
    ]
    return "\n".join(lines)


def _memory_lines(update: Memory, sample: Memory, device: Device) -> list[str]:
    pairs = {one.name: (getattr(update, one.name), getattr(sample, one.name)) for one in fields(Memory)}
    rows = {name: pair for name, pair in pairs.items() if any(pair)}
    rows |= {"total": (update.total, sample.total), "usable": (usable(device), usable(device))}
    numbers = [f"{name:<14}{pair[0] / _GIGA:>10.2f}{pair[1] / _GIGA:>10.2f}" for name, pair in rows.items()]
    return [f"{'GB per rank':<14}{'updating':>10}{'sampling':>10}", *numbers]
