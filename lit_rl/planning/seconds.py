"""Seconds of a rollout by the roofline: whatever takes longest of a device's arithmetic, memory and network.

Source:
    Williams et al. 2009, https://doi.org/10.1145/1498765.1498785; operations of a pass: Kaplan et al. 2020, section
    2.1, https://arxiv.org/abs/2001.08361
"""

from __future__ import annotations

from dataclasses import dataclass

from lit_rl.planning.job import Job
from lit_rl.planning.memory import sampled_rows


@dataclass(frozen=True)
class Device:
    """One accelerator.

    Args:
        memory_bytes: of the device.
        flops: dense bfloat16 operations per second, without sparsity.
        flops_float32: float32 operations per second, as torch computes them unless told otherwise.
        memory_bandwidth: bytes per second between memory and cores.
        link_bandwidth: bytes per second to another device of the node, one direction.
        node_bandwidth: bytes per second to another node, for each device, one direction.
    """

    memory_bytes: float
    flops: float
    flops_float32: float
    memory_bandwidth: float
    link_bandwidth: float
    node_bandwidth: float


# NVLink figures of the makers count both directions; here is one. Between nodes: one 400 Gbit/s port for each device
# (a100: 200 Gbit/s), as in DGX systems; l40s: PCIe 4 inside the node, 100 Gbit/s beyond.
DEVICES = {
    # https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet (SXM)
    "h100": Device(80e9, 989e12, 67e12, 3.35e12, 450e9, 50e9),
    # https://nvdam.widen.net/s/nb5zzzsjdf/hpc-datasheet-sc23-h200-datasheet-3002446 (SXM)
    "h200": Device(141e9, 989e12, 67e12, 4.8e12, 450e9, 50e9),
    # https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf
    "a100": Device(80e9, 312e12, 19.5e12, 2.039e12, 300e9, 25e9),
    # https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413
    "l40s": Device(48e9, 362e12, 91.6e12, 0.864e12, 32e9, 12.5e9),
}
"""By the name that ``lit-rl plan --gpu`` takes."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that one rank receives in a rollout.

    A ring of n ranks moves (n - 1) / n of a gathered or reduced tensor to each rank, and twice that for an all-reduce.

    Args:
        inside: from ranks of its own node.
        between: from other nodes.
    """

    inside: float = 0.0
    between: float = 0.0


def of_updates(job: Job) -> Traffic:
    """Return the traffic of passes with and without gradients."""
    if job.num_ranks == 1:
        return Traffic()
    learns = job.trained_parameters
    backwards = job.passes * job.num_microbatches
    # PPO's critic has a backward pass of its own.
    losses = 1 if job.critic == "none" else 2
    if not job.is_sharded:
        return _among(job.num_ranks, job, 2 * learns * job.reduced_bytes * backwards * losses)
    whole = job.shape.parameters * job.gathered_bytes
    gathers = whole * job.num_microbatches * (2 * job.passes * losses + job.forward_passes)
    spread = learns * job.reduced_bytes * backwards * losses
    moved = _among(job.num_shards, job, gathers + spread)
    if job.replicas == 1:
        return moved
    # Each rank of a replica sums its share with the same share of the other replicas.
    summed = 2 * learns / job.num_shards * job.reduced_bytes * backwards * losses * _ring(job.replicas)
    inside_of_one_node = job.num_ranks <= job.ranks_per_node
    return Traffic(
        moved.inside + (summed if inside_of_one_node else 0.0), moved.between + (0.0 if inside_of_one_node else summed)
    )


def of_weights(job: Job) -> Traffic:
    """Return the traffic of weights to the engine, once a rollout: all, or an adapter alone where vLLM samples."""
    alone = (
        job.has_adapters and job.engine != "in_process" and not job.merges_adapters
    )  # which gathers the base as well
    sent = (job.adapter_parameters if alone else job.shape.parameters) * job.gathered_bytes
    if job.engine == "elsewhere":
        # Gathered on the way, then sent on by one rank.
        return Traffic(_among(job.num_shards, job, sent).inside, sent)
    return _among(job.num_shards, job, sent) if job.is_sharded else Traffic()


def _among(ranks: int, job: Job, size: float) -> Traffic:
    """Traffic of a ring over some ranks, at its slowest link: between nodes if it leaves one."""
    moved = size * _ring(ranks)
    return Traffic(moved, 0.0) if ranks <= job.ranks_per_node else Traffic(0.0, moved)


def _ring(ranks: int) -> float:
    return (ranks - 1) / ranks


@dataclass(frozen=True)
class Rates:
    """Shares of a maker's figures that real runs reach; assumptions, not measurements.

    Args:
        arithmetic: of the operations per second, in large matrix products.
        memory: of the memory's bandwidth, in decoding.
        network: of a link's bandwidth.
        program_seconds: CPU seconds that a program and its tests take.
    """

    arithmetic: float = 0.4
    memory: float = 0.6
    network: float = 0.7
    program_seconds: float = 0.2


@dataclass(frozen=True)
class Seconds:
    """Seconds of a rollout, by part.

    Args:
        prefill: reading prompts.
        decode: writing completions.
        weights: bringing weights to the engine.
        update: passes with and without gradients.
        update_is_bound_by: arithmetic or network.
    """

    prefill: float
    decode: float
    weights: float
    update: float
    update_is_bound_by: str

    @property
    def total(self) -> float:
        """Seconds of a rollout if nothing overlaps."""
        return self.prefill + self.decode + self.weights + self.update


def seconds(job: Job, device: Device, rates: Rates | None = None) -> Seconds:
    """Estimate the seconds of a rollout on each rank; an engine elsewhere is taken to be as fast as this rank."""
    rates = rates or Rates()
    flops = (device.flops if job.gathered_bytes < 4 else device.flops_float32) * rates.arithmetic
    bandwidth = device.memory_bandwidth * rates.memory
    arithmetic = update_flops(job) / flops
    network = _carried(of_updates(job), device, rates)
    return Seconds(
        2 * job.shape.parameters * job.num_problems * job.prompt_tokens / flops,
        decode_seconds(job, flops, bandwidth),
        _carried(of_weights(job), device, rates),
        max(arithmetic, network),
        "arithmetic" if arithmetic >= network else "network",
    )


def decode_seconds(job: Job, flops: float, bandwidth: float) -> float:
    """Each step reads all weights and the cache once, and computes one token per row."""
    shape, rows = job.shape, sampled_rows(job)
    waves = -(-job.num_rows // rows)
    of_token = 2 * shape.layers * shape.key_size * job.gathered_bytes
    half_written = job.prompt_tokens + job.completion_tokens / 2
    read = shape.parameters * job.gathered_bytes + rows * half_written * of_token
    step = max(read / bandwidth, 2 * shape.parameters * rows / flops)
    return waves * job.completion_tokens * step


def update_flops(job: Job) -> float:
    """Operations of all passes of a rollout on one rank.

    A forward pass takes 2 per parameter and token, a backward pass 2 for the states and 2 for the weights that learn.
    Attention adds 4 x width x Q per token and layer forward, twice that backward.
    """
    shape = job.shape
    tokens = job.micro_tokens() * job.num_microbatches
    width = (job.prompt_tokens + job.completion_tokens) / 2
    forward = tokens * (2 * shape.parameters + 4 * width * shape.query_size * shape.layers)
    backward = forward * (1 if job.has_adapters else 2)
    again = forward if job.computes_again else 0
    losses = 1 if job.critic == "none" else 2
    return job.passes * losses * (forward + backward + again) + job.forward_passes * forward


def sandbox_cores(job: Job, time: Seconds, rates: Rates | None = None) -> float:
    """Cores per rank that judge a rollout's programs while the next ones are being sampled; one a program at most."""
    return job.num_rows * min(1.0, (rates or Rates()).program_seconds / max(time.prefill + time.decode, 1e-9))


def _carried(traffic: Traffic, device: Device, rates: Rates) -> float:
    return traffic.inside / (device.link_bandwidth * rates.network) + traffic.between / (
        device.node_bandwidth * rates.network
    )
