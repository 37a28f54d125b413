"""Seconds of a rollout by the roofline: whatever takes longest of arithmetic, memory and network.

Source:
    Williams et al. 2009, https://doi.org/10.1145/1498765.1498785; operations of a pass: Kaplan et al. 2020, section
    2.1, https://arxiv.org/abs/2001.08361
"""

from __future__ import annotations

from dataclasses import dataclass

from lit_rl.planning.devices import Device
from lit_rl.planning.job import Job
from lit_rl.planning.memory import sampled_rows
from lit_rl.planning.traffic import Traffic, of_updates, of_weights


@dataclass(frozen=True)
class Rates:
    """Shares of a maker's figures that real runs reach; assumptions, not measurements of ours.

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
        """Of a rollout, if nothing of it overlaps."""
        return self.prefill + self.decode + self.weights + self.update


def seconds(job: Job, device: Device, rates: Rates | None = None) -> Seconds:
    """How long a rollout takes on each rank; an engine elsewhere is taken to be as fast as this rank would be."""
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
    """Cores per rank that judge a rollout's programs while the next ones are still being sampled."""
    return job.num_rows * (rates or Rates()).program_seconds / max(time.prefill + time.decode, 1e-9)


def _carried(traffic: Traffic, device: Device, rates: Rates) -> float:
    return traffic.inside / (device.link_bandwidth * rates.network) + traffic.between / (
        device.node_bandwidth * rates.network
    )
