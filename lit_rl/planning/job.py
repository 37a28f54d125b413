"""Inputs of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Critic = Literal["none", "own_trunk", "shared_base"]
EnginePlace = Literal["in_process", "colocated", "elsewhere"]


@dataclass(frozen=True)
class Shape:
    """A dense decoder of the Llama kind: norm, attention, norm, gated feed-forward.

    Args:
        layers: number of layers.
        hidden: size of the hidden state.
        query_size: heads of queries times head size.
        key_size: heads of keys times head size.
        intermediate: size inside the feed-forward part.
        vocabulary: entries of the output matrix.
        parameters: all of the model's, tied ones once, adapters not counted.
        layer_parameters: of one layer.
        has_query_norms: whether queries and keys are normalised too (Qwen 3).
        positions: tokens of prompt and completion that it reads; ``None`` for any number.
    """

    layers: int
    hidden: int
    query_size: int
    key_size: int
    intermediate: int
    vocabulary: int
    parameters: int
    layer_parameters: int
    has_query_norms: bool = False
    positions: int | None = None

    @property
    def outside_parameters(self) -> int:
        """Parameters outside the layers: embeddings, last norm, output matrix."""
        return self.parameters - self.layers * self.layer_parameters


@dataclass(frozen=True)
class Job:
    """A run on some ranks, each with its own problems.

    Args:
        shape: of the policy.
        num_ranks: accelerators.
        ranks_per_node: of one node.
        num_shards: ranks over which one copy of the weights is spread; 1 for a whole copy on each rank.
        weight_bytes: of a stored weight.
        gathered_bytes: of a weight while it is used; other than ``weight_bytes`` under ``param_dtype`` of fsdp2.
        reduced_bytes: of a gradient while it is summed over ranks.
        adapter_parameters: of the policy's LoRA; 0 for full training.
        adapter_rank: of LoRA.
        moments: numbers that the optimizer keeps for each parameter: 2 for Adam, 0 for plain SGD.
        has_frozen_copy: whether a KL term keeps a whole second model.
        critic: none, one with a model of its own, or an adapter on the policy's base.
        critic_learns_all: whether a critic with its own trunk trains all of it.
        num_problems: of a rollout, on one rank.
        group_size: completions of each problem.
        prompt_tokens: of a prompt.
        completion_tokens: of a completion, at most.
        microbatch_rows: rows that go through the model together.
        updates: optimizer steps of a rollout.
        passes: over all rows of a rollout, summed up over its epochs.
        forward_passes: over all rows without gradients: old log-probabilities, reference, values.
        shares_prompts: whether a prompt is computed once for the rows of its group.
        computes_again: whether activations are computed a second time in the backward pass.
        chunk_tokens: tokens whose logits exist together.
        engine: where completions are sampled.
        engine_bytes: what a colocated engine claims; ``None`` for its weights and the cache of its rows.
        max_rows: rows that are sampled together.
        merges_adapters: whether vLLM is sent all weights each time, adapters added, and not the adapter alone.
    """

    shape: Shape
    num_ranks: int = 1
    ranks_per_node: int = 1
    num_shards: int = 1
    weight_bytes: int = 4
    gathered_bytes: int = 4
    reduced_bytes: int = 4
    adapter_parameters: int = 0
    adapter_rank: int = 0
    moments: int = 2
    has_frozen_copy: bool = False
    critic: Critic = "none"
    critic_learns_all: bool = True
    num_problems: int = 8
    group_size: int = 8
    prompt_tokens: int = 256
    completion_tokens: int = 256
    microbatch_rows: int = 8
    updates: int = 1
    passes: int = 1
    forward_passes: int = 0
    shares_prompts: bool = True
    computes_again: bool = False
    chunk_tokens: int = 4096
    engine: EnginePlace = "in_process"
    engine_bytes: float | None = None
    max_rows: int | None = None
    merges_adapters: bool = False

    @property
    def num_rows(self) -> int:
        """Completions of a rollout on one rank."""
        return self.num_problems * self.group_size

    @property
    def is_sharded(self) -> bool:
        """True if weights are spread over ranks."""
        return self.num_shards > 1

    @property
    def replicas(self) -> int:
        """Whole copies of the weights over all ranks."""
        return self.num_ranks // self.num_shards

    @property
    def has_adapters(self) -> bool:
        """True if the base is frozen."""
        return self.adapter_parameters > 0

    @property
    def trained_parameters(self) -> int:
        """Parameters that an optimizer moves, of policy and critic, over all ranks together."""
        own = self.adapter_parameters or self.shape.parameters
        return own + self.critic_trained

    @property
    def critic_trained(self) -> int:
        """Parameters of the critic that learn."""
        if self.critic == "none":
            return 0
        if self.critic == "shared_base":
            return self.adapter_parameters + self.shape.hidden + 1
        return (self.shape.parameters if self.critic_learns_all else self.adapter_parameters) + self.shape.hidden + 1

    @property
    def frozen_parameters(self) -> int:
        """Parameters that stay: a base under adapters, a frozen reference, a critic's frozen trunk."""
        base = self.shape.parameters if self.has_adapters else 0
        copy = self.shape.parameters if self.has_frozen_copy else 0
        trunk = self.shape.parameters if self.critic == "own_trunk" and not self.critic_learns_all else 0
        return base + copy + trunk

    @property
    def microbatch_prompts(self) -> int:
        """Prompts that a micro-batch computes."""
        rows = min(self.microbatch_rows, self.num_rows)
        return -(-rows // self.group_size) if self.shares_prompts else rows

    def micro_tokens(self) -> int:
        """Tokens that go through the layers for a micro-batch."""
        rows = min(self.microbatch_rows, self.num_rows)
        return self.microbatch_prompts * self.prompt_tokens + rows * self.completion_tokens

    @property
    def num_microbatches(self) -> int:
        """Micro-batches of one pass over a rollout."""
        return -(-self.num_rows // self.microbatch_rows)
