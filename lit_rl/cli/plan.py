"""``lit-rl plan``: memory, traffic and operations of a run, counted on its own update before renting any GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lit_rl.cli import options
from lit_rl.cli.trace import RankCosts, RunWorkload, measure_update_costs, workload_from_run
from lit_rl.signature_check import PositiveInt, check_and_convert

_HERE = ("--trainer.accelerator=cpu", "--trainer.precision=32-true")
_GIGA = 1e9
_DRIVER_BYTES = 1e9
_FRAGMENTED = 0.05  # of the memory that the driver leaves


def print_resource_plan(arguments: Sequence[str], build: Callable[[Sequence[str]], Any]) -> None:
    """Print the plan of a run on some accelerators."""
    given, rest = options.plan_parser().parse_known_args(list(arguments))
    for name in ("gpus", "gpus_per_node", "prompt_tokens", "completion_tokens"):
        check_and_convert(getattr(given, name), PositiveInt | None, name)
    counted = () if given.gpus is None else ("--trainer.devices=1", "--trainer.num_nodes=1")
    run = build([*rest, *_HERE, *counted])
    gpus = given.gpus or run.trainer.num_devices * run.trainer.num_nodes
    job = workload_from_run(run.model, run.trainer.strategy, run.datamodule.batch_size, gpus, given.gpus_per_node)
    tokens = given.completion_tokens or job.completion_tokens
    job = replace(job, prompt_tokens=given.prompt_tokens, completion_tokens=tokens)
    memory = options.GPU_BYTES[given.gpu]
    counts_of_rank = measure_update_costs(run.model, run.trainer.strategy, job)
    vllm_share = getattr(run.model.collector.engine, "memory_share", 0.0)
    print(resource_plan_text(job, counts_of_rank, given.gpu, vllm_share * memory))


def resource_plan_text(job: RunWorkload, traced: RankCosts, name: str, engine: float = 0.0) -> str:
    """Return the plan as text."""
    replicas = f", {job.num_ranks // job.num_shards} replicas" if 1 < job.num_shards < job.num_ranks else ""
    weights = f"weights spread over {job.num_shards} ranks{replicas}" if job.num_shards > 1 else "whole weights on each"
    weights += ", in the CPU's memory" * job.weights_wait
    memory = options.GPU_BYTES[name]
    usable = (memory - _DRIVER_BYTES) * (1 - _FRAGMENTED)
    updating, sampling = ({**kinds, "engine": engine} for kinds in (traced.updating, traced.sampling))
    rows = {kind: (updating.get(kind, 0.0), sampling.get(kind, 0.0)) for kind in {**updating, **sampling}}
    rows = {kind: pair for kind, pair in rows.items() if any(pair)}
    most = max(sum(updating.values()), sum(sampling.values()))
    rows |= {"total": (sum(updating.values()), sum(sampling.values())), "usable": (usable, usable)}
    lines = [
        f"{traced.parameters / _GIGA:.2f}B parameters, {traced.trained / 1e6:,.1f}M learn; {job.num_ranks} x {name}, "
        f"{weights}",
        f"each rank: {job.num_problems} problems x {job.group_size} completions, prompts of {job.prompt_tokens} and "
        f"completions of {job.completion_tokens} tokens, micro-batches of {job.microbatch_rows} rows",
        "",
        f"{'GB per rank':<14}{'updating':>10}{'sampling':>10}",
        *(f"{kind:<14}{pair[0] / _GIGA:>10.2f}{pair[1] / _GIGA:>10.2f}" for kind, pair in rows.items()),
        "",
    ]
    if most > usable:
        lines += [f"does not fit: {most / _GIGA:.1f} GB of {usable / _GIGA:.1f}", ""]
    near, far = traced.received
    between = f"  copies {traced.copied / _GIGA:.1f} GB between GPU and CPU, where {traced.on_cpu / _GIGA:.1f} GB wait"
    lines += [
        "in one rollout each rank",
        f"  receives {near / _GIGA:.1f} GB of weights and gradients from its node and {far / _GIGA:.1f} from others",
        *([between] if traced.copied else []),
        f"  computes {traced.flops / 1e15:,.2f} PFLOP in passes over given tokens",
        "not counted: operations and waits of sampling, what vLLM is sent, programs, buffers of kernels and of NCCL",
    ]
    return "\n".join(lines)
