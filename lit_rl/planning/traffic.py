"""Bytes that a rank receives from other ranks in a rollout, inside its node and from other nodes.

A ring of n ranks moves (n - 1) / n of a gathered or reduced tensor to each rank, and twice that for an all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

from lit_rl.planning.job import Job


@dataclass(frozen=True)
class Traffic:
    """Bytes that one rank receives in a rollout.

    Args:
        inside: from ranks of its own node.
        between: from other nodes.
    """

    inside: float = 0.0
    between: float = 0.0


def of_updates(job: Job) -> Traffic:
    """What passes with and without gradients move."""
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
    """What brings whole weights to the engine, once a rollout."""
    whole = job.shape.parameters * job.gathered_bytes
    if job.engine == "elsewhere":
        # Gathered on the way, then sent on by one rank.
        return Traffic(_among(job.num_shards, job, whole).inside, whole)
    return _among(job.num_shards, job, whole) if job.is_sharded else Traffic()


def _among(ranks: int, job: Job, size: float) -> Traffic:
    """A ring over some ranks: as slow as its slowest link, which is between nodes if it leaves one."""
    moved = size * _ring(ranks)
    return Traffic(moved, 0.0) if ranks <= job.ranks_per_node else Traffic(0.0, moved)


def _ring(ranks: int) -> float:
    return (ranks - 1) / ranks
