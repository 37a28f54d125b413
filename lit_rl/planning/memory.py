"""Bytes that a rank needs at the worst moments of a rollout: while it samples, while it updates.

What autograd keeps is counted operation by operation for a layer of the Llama kind as transformers computes it with
``sdpa``. The formulas are compared with measured peaks of small runs in ``tests/test_plan.py``.

Letters: H hidden size, Q and K sizes of queries and keys, I inside the feed-forward part, V vocabulary, e bytes of a
number, P prompt tokens, T completion tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from lit_rl.planning.job import Job, Shape

FLOAT32 = 4
_FIRST_ROOM = 32  # tokens that the sampler's buffers first have room for; doubled when they are full


@dataclass(frozen=True)
class Memory:
    """Bytes by component. Their sum is what one moment needs.

    Args:
        weights: that this rank keeps, of everything it has: policy, frozen copy, critic.
        gathered: whole weights while they are used, and whole gradients, under fsdp2.
        masters: float32 copies of narrower weights that learn.
        moments: of the optimizer.
        gradients: of all that learns.
        activations: kept for the backward pass of a micro-batch.
        logits: logits and their gradients that exist together.
        cache: keys and values of the rows being sampled.
        engine: an engine on the same device, with weights and cache of its own.
    """

    weights: float = 0.0
    gathered: float = 0.0
    masters: float = 0.0
    moments: float = 0.0
    gradients: float = 0.0
    activations: float = 0.0
    logits: float = 0.0
    cache: float = 0.0
    engine: float = 0.0

    @property
    def total(self) -> float:
        """All of them."""
        return float(sum(getattr(self, one.name) for one in fields(self)))


def resident(job: Job) -> Memory:
    """Return the memory held at all times from the first optimizer step on."""
    trained = job.trained_parameters
    masters = FLOAT32 * trained if job.weight_bytes < FLOAT32 and not job.is_sharded and not job.has_adapters else 0
    adapters = job.has_adapters
    # Adapters and other trained parts are float32 on a narrower base.
    trained_bytes = FLOAT32 if adapters else job.weight_bytes
    weights = job.frozen_parameters * job.weight_bytes + trained * trained_bytes
    moments = job.moments * trained * max(trained_bytes, FLOAT32)
    engine = 0.0
    if job.engine == "colocated":
        own = job.shape.parameters * job.gathered_bytes + rows_cache(job, job.gathered_bytes)
        engine = own if job.engine_bytes is None else job.engine_bytes
    return Memory(weights / job.num_shards, 0.0, masters, moments / job.num_shards, engine=engine)


def updating(job: Job) -> Memory:
    """The worst moment of an update: where a backward pass begins, or where all gradients exist."""
    shown, kept = gradients(job), activations(job) + logits(job)
    # One micro-batch: gradients come as activations go. Several: those of the first exist during the second.
    if job.num_microbatches == 1 and job.critic == "none":
        shown = max(0.0, shown - kept)
    share = activations(job) / kept if kept else 0.0
    return replace(
        resident(job),
        gathered=gathered_in_pass(job) + before_spreading(job),
        gradients=shown,
        activations=kept * share,
        logits=kept * (1 - share),
    )


def sampling(job: Job) -> Memory:
    """The worst moment of sampling: all rows at their full length, or the device's other engine at work."""
    if job.engine != "in_process":
        return resident(job)
    return replace(
        resident(job),
        gathered=job.shape.parameters * job.gathered_bytes if job.is_sharded else 0.0,
        # Per entry: logits, tempered, log-probabilities (float32), probabilities and their sums (float64).
        logits=sampled_rows(job) * job.shape.vocabulary * (job.gathered_bytes + 3 * FLOAT32 + 2 * 8),
        cache=rows_cache(job, job.gathered_bytes),
    )


def gradients(job: Job) -> float:
    """Bytes of the gradients of all that learns; masters have a second, float32 one."""
    wide = FLOAT32 if job.has_adapters else job.weight_bytes
    masters = FLOAT32 if wide < FLOAT32 and not job.is_sharded else 0
    # Without sharding, several ranks sum gradients in additional buckets.
    buckets = wide if job.num_ranks > 1 and not job.is_sharded else 0
    return job.trained_parameters * (wide + masters + buckets) / job.num_shards


def gathered_in_pass(job: Job) -> float:
    """Gathered weights in a pass under fsdp2: outside the layers, the current layer and the next one."""
    if not job.is_sharded:
        return 0.0
    layer = job.shape.layer_parameters + job.adapter_parameters / job.shape.layers
    return (job.shape.outside_parameters + 2 * layer) * job.gathered_bytes


def before_spreading(job: Job) -> float:
    """Bytes that gradients need before they are sharded, beyond the need at the start of a backward pass.

    The gradient of the output matrix is whole while all activations exist, but most logits are gone. At the end,
    that of everything outside the layers exists twice: as computed, and as it is summed over ranks.
    """
    if not job.is_sharded:
        return 0.0
    outside = 0 if job.has_adapters else job.shape.outside_parameters
    layer = job.adapter_parameters / job.shape.layers or job.shape.layer_parameters
    kept, of_logits = activations(job), logits(job)
    at_head = kept + of_logits / 3 + outside * job.gathered_bytes
    at_end = (outside + layer) * (job.gathered_bytes + job.reduced_bytes)
    return max(0.0, at_head - kept - of_logits, at_end - kept - of_logits)


def activations(job: Job) -> float:
    """Bytes that autograd keeps of a micro-batch, without logits."""
    shape, e = job.shape, job.gathered_bytes
    rows = min(job.microbatch_rows, job.num_rows)
    tokens = job.micro_tokens()
    width = job.prompt_tokens + job.completion_tokens
    per_layer = tokens * kept_per_token(shape, e, job.has_adapters, job.adapter_rank)
    if job.shares_prompts:
        # Each row has the keys and values of its prompt before its own, for as many heads as queries have.
        per_layer += rows * width * 2 * shape.query_size * e
        per_layer += job.microbatch_prompts * job.prompt_tokens * 2 * (shape.query_size + shape.key_size) * e
        per_layer += rows * job.completion_tokens * width * e  # the mask
    else:
        per_layer += tokens * 2 * shape.query_size * e + rows * width * width * e
    outside = tokens * (4 * e + FLOAT32) * shape.hidden
    if not job.computes_again:
        return shape.layers * per_layer + outside
    # Only what enters each layer is kept, and one layer at a time is whole.
    return shape.layers * tokens * shape.hidden * e + per_layer + outside


def kept_per_token(shape: Shape, e: int, has_adapters: bool, adapter_rank: int) -> float:
    """Bytes that autograd keeps of a token in a layer, without keys and values.

    * a norm: its input in float32, the normalised state where the norm's weight learns, its output; twice
    * attention: queries after rotation, its output
    * feed-forward: gate, its activation, the other branch, their product

    Adapters add what is between their two matrices, and float32 copies of their inputs on a narrower base.
    """
    normed = 0 if has_adapters else e
    norms = 2 * (FLOAT32 + normed + e) * shape.hidden
    queries = (shape.query_size + shape.key_size) * (FLOAT32 + normed + e) if shape.has_query_norms else 0
    attention = 2 * shape.query_size * e
    feed_forward = 4 * shape.intermediate * e
    adapters = 0.0
    if has_adapters:
        adapters = 7 * adapter_rank * FLOAT32
        if e < FLOAT32:
            adapters += FLOAT32 * (5 * shape.hidden + shape.query_size + shape.intermediate)
    return norms + queries + attention + feed_forward + adapters


def logits(job: Job) -> float:
    """Bytes of logits in the backward pass: log-probabilities, their gradient and that of the logits."""
    rows = min(job.microbatch_rows, job.num_rows)
    tokens = rows * job.completion_tokens
    return 3 * FLOAT32 * min(tokens, job.chunk_tokens) * job.shape.vocabulary


def sampled_rows(job: Job) -> int:
    """Rows that are sampled together."""
    return job.num_rows if job.max_rows is None else min(job.max_rows, job.num_rows)


def rows_cache(job: Job, e: int) -> float:
    """Bytes of keys and values: prompts once, and buffers for what their rows write."""
    shape, rows = job.shape, sampled_rows(job)
    room = _FIRST_ROOM
    while room < job.completion_tokens:
        room *= 2
    prompts = -(-rows // job.group_size)
    return 2 * shape.layers * shape.key_size * e * (prompts * job.prompt_tokens + rows * room)
