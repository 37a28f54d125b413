"""Changes that would make a run fit: the cheapest change of arguments first, then several together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from lit_rl.planning.job import Job
from lit_rl.planning.memory import Memory, sampling, updating
from lit_rl.planning.seconds import Device

CONTEXT_BYTES = 1.0e9
"""Device memory of driver, libraries and communication; about what CUDA and NCCL take."""
FRAGMENTATION = 0.05
"""Share of the rest that an allocator cannot use; an assumption."""

Change = Callable[[Job], Job]


def worst(job: Job) -> Memory:
    """The more demanding of sampling and updating."""
    return max(updating(job), sampling(job), key=lambda memory: memory.total)


def usable(device: Device) -> float:
    """Bytes of a device that tensors can have."""
    return (device.memory_bytes - CONTEXT_BYTES) * (1 - FRAGMENTATION)


def fits(job: Job, device: Device) -> bool:
    """Return whether sampling and update both fit in a device."""
    return worst(job).total <= usable(device)


def changes(job: Job) -> Iterator[tuple[str, Change]]:
    """Arguments that need less memory, those that cost least first, and what they do to a job."""
    if job.microbatch_rows > 1:
        size = max(1, job.microbatch_rows // 4)
        yield f"model.update.microbatch_size: {size}", lambda one: replace(one, microbatch_rows=size)
    if job.engine == "in_process" and job.num_rows > 1:
        rows = max(1, job.num_rows // 4)
        yield f"model.collect.engine.init_args.max_rows: {rows}", lambda one: replace(one, max_rows=rows)
    if job.engine == "in_process":
        yield "model.collect.engine: lit_rl.engines.VLLMServer", lambda one: replace(one, engine="elsewhere")
    if not job.is_sharded and job.num_ranks > 1:
        yield "trainer.strategy: fsdp2", lambda one: replace(one, num_shards=one.num_ranks, shares_prompts=False)
    elif job.replicas > 1:
        yield "trainer.strategy.init_args.replicas: 1", lambda one: replace(one, num_shards=one.num_ranks)
    if job.gathered_bytes > 2 and job.is_sharded and not job.has_adapters:
        yield "trainer.strategy.init_args.param_dtype: bfloat16", lambda one: replace(one, gathered_bytes=2)
    elif job.gathered_bytes > 2:
        yield "policy.dtype: bfloat16", lambda one: replace(one, weight_bytes=2, gathered_bytes=2)
    if not job.computes_again:
        yield "policy.gradient_checkpointing: true", lambda one: replace(one, computes_again=True)
    if not job.has_adapters:
        yield "policy.lora: {rank: 16}", _with_adapters


def _with_adapters(job: Job) -> Job:
    """All linear layers adapted with rank 16; the reference and a critic then share the base."""
    shape, rank = job.shape, 16
    attention = 2 * (shape.hidden + shape.query_size) + 2 * (shape.hidden + shape.key_size)
    feed_forward = 3 * (shape.hidden + shape.intermediate)
    return replace(
        job,
        adapter_rank=rank,
        adapter_parameters=shape.layers * rank * (attention + feed_forward),
        has_frozen_copy=False,
        critic="none" if job.critic == "none" else "shared_base",
    )


def advice(job: Job, device: Device) -> list[str]:
    """Arguments with which a job that does not fit would fit: one if one is enough, else several from the first on.

    Returns:
        Empty if nothing that is known here helps.
    """
    for name, change in changes(job):
        if fits(change(job), device):
            return [name]
    taken: dict[str, str] = {}
    while left := [one for one in changes(job) if one[0].partition(":")[0] not in taken]:
        name, change = left[0]
        job = change(job)
        taken[name.partition(":")[0]] = name
        if fits(job, device):
            return list(taken.values())
    return []
