"""Critic: the value of a completion before each of its tokens, by a trunk and one linear layer.

Letters: N rows, T completion tokens, H hidden size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from lit_rl.errors import UsageError
from lit_rl.math.logprobs import completion_positions
from lit_rl.math.masking import end_column_per_row
from lit_rl.models.adapters import CRITIC, LoRA, add_inactive_adapter, using_adapter
from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.family import text_config
from lit_rl.models.loading.weights import load_model
from lit_rl.models.padding import can_train_on_shared_prompts, completion_hidden_states
from lit_rl.models.policy import Policy
from lit_rl.models.probe import check_sampling_matches_training
from lit_rl.signature_check import ArgumentChecks
from lit_rl.training.ranks import enable_activation_checkpointing
from lit_rl.types import Completions


class Critic(nn.Module, ArgumentChecks, ABC):
    """Critic that predicts V(state before token t) for every completion token, and V(state after the last token)."""

    @abstractmethod
    def load(self, policy: Policy) -> None:
        """Build the weights; the policy is loaded already, and a second call does nothing."""

    @abstractmethod
    def forward(self, completions: Completions) -> tuple[Tensor, Tensor]:
        """Return the values of the states before each token and after the last one.

        Args:
            completions: N rows.

        Returns:
            values [N, T] before each token and tail values [N] after the last one, reward units, with grad;
            values outside the mask mean nothing.
        """

    @abstractmethod
    def trained_parameters(self) -> list[nn.Parameter]:
        """Return all parameters that learn from the value loss, even those inside the policy's model."""

    def forward_backward_context(self) -> AbstractContextManager[None]:
        """Return the context in which forward and backward passes of the critic run."""
        return nullcontext()


class ValueHead(nn.Linear):
    """A linear layer that outputs one number and starts at zero.

    Zero is the same on every rank and at every restart, and it makes the first advantages the rewards themselves
    instead of noise.
    """

    def __init__(self, hidden_size: int, dtype: torch.dtype) -> None:
        super().__init__(hidden_size, 1, dtype=dtype)
        nn.init.zeros_(self.weight)
        nn.init.zeros_(self.bias)


class SeparateCritic(Critic):
    """A critic with its own language model, which starts as a copy of ``model`` or of the policy's base.

    Activations are recomputed if the policy recomputes its own (``gradient_checkpointing``).

    Args:
        model: hub id or folder; ``None`` for the policy's model.
        lora: train low-rank adapters of the trunk instead of all of it.
        dtype: data type of the weights; ``None`` for the policy's.
    """

    def __init__(self, model: str | None = None, *, lora: LoRA | None = None, dtype: str | None = None) -> None:
        super().__init__()
        self.source = model
        self.lora = lora
        self.dtype = dtype
        self.shares_prompts = False
        self.trunk: nn.ModuleDict | None = None
        self.head: nn.Module = nn.Identity()

    def load(self, policy: Policy) -> None:
        if self.trunk is not None:
            return
        assert isinstance(policy, CausalLM), "other policies have a critic of their own"
        spec = replace(policy.model_spec(), lora=self.lora, dtype=self.dtype or policy.dtype, quantization=None)
        if self.source is not None:
            spec = replace(spec, source=self.source, config=None)
        model = load_model(spec, policy.tokenizer)
        if not next(model.parameters()).is_meta:
            check_sampling_matches_training(model)
            self.shares_prompts = policy.share_prompts and can_train_on_shared_prompts(model)
        if policy.gradient_checkpointing:
            enable_activation_checkpointing(model, offload=policy.gradient_checkpointing == "offload")
        self.trunk = nn.ModuleDict({"model": model})
        # Training starts where the policy starts, also for a policy whose weights were changed after loading.
        output = model.get_output_embeddings().weight
        if output is not model.get_input_embeddings().weight:
            output.requires_grad_(False)
        # On a bfloat16 trunk, adapters are float32, and so is the head. Without adapters the head has the trunk's type,
        # since sharding takes one type at a time.
        dtype = torch.promote_types(output.dtype, torch.float32) if self.lora else output.dtype
        self.head = ValueHead(text_config(model).hidden_size, dtype).to(output.device)

    def forward(self, completions: Completions) -> tuple[Tensor, Tensor]:
        assert self.trunk is not None
        hidden = completion_hidden_states(self.trunk["model"], completions, share=self.shares_prompts)
        return values_and_tail_values(hidden, self.head, completions)

    def trained_parameters(self) -> list[nn.Parameter]:
        return [p for p in self.parameters() if p.requires_grad]


class SharedCritic(Critic):
    """The policy's frozen base with the critic's own adapter and a value head: PPO at about GRPO's memory.

    Args:
        lora: shape of the critic's adapter; ``None`` takes that of the policy's adapter.
    """

    def __init__(self, lora: LoRA | None = None) -> None:
        super().__init__()
        self.lora = lora
        self.head: nn.Module = nn.Identity()
        # In a list, so that the policy is not registered as a part of this module, too.
        self._policy: list[CausalLM] = []

    def load(self, policy: Policy) -> None:
        if self._policy:
            return
        if not isinstance(policy, CausalLM) or not hasattr(policy.model, "peft_config"):
            raise UsageError(
                "SharedCritic needs a policy with adapters (lora); use SeparateCritic if all weights are trained"
            )
        add_inactive_adapter(policy.model, CRITIC, policy.init_seed, self.lora)
        self._policy = [policy]
        weight = policy.model.get_output_embeddings().weight
        dtype = torch.promote_types(weight.dtype, torch.float32)  # trained in float32 at least, also on a bfloat16 base
        self.head = ValueHead(text_config(policy.model).hidden_size, dtype).to(weight.device)

    def forward(self, completions: Completions) -> tuple[Tensor, Tensor]:
        with self.forward_backward_context():
            values, tail = self._policy[0](
                completions, head=lambda hidden: values_and_tail_values(hidden, self.head, completions)
            )
        return values, tail

    def forward_backward_context(self) -> AbstractContextManager[None]:
        """Return a context with the critic's adapter on; recomputed activations need it in the backward pass too."""
        return using_adapter(self._policy[0].model, CRITIC)

    def trained_parameters(self) -> list[nn.Parameter]:
        adapter = [p for name, p in self._policy[0].model.named_parameters() if f".{CRITIC}." in name]
        return [*adapter, *self.head.parameters()]


def values_and_tail_values(hidden: Tensor, head: Any, completions: Completions) -> tuple[Tensor, Tensor]:
    """Compute values from hidden states.

    Returns:
        values [N, T] and tail values [N], of the state after the last token that the policy chose in each row.
    """
    num_tokens = completions.completion_ids.shape[1]
    where = completion_positions(hidden.shape[1] - num_tokens, num_tokens)
    states = hidden[:, where.start : where.stop + 1]
    # In float32 at least, also under autocast: bfloat16 would round a value of 0.9 by 0.002.
    dtype = torch.promote_types(head.weight.dtype, torch.float32)
    with torch.autocast(hidden.device.type, enabled=False):
        all_values = nn.functional.linear(states.to(dtype), head.weight.to(dtype), head.bias.to(dtype))[..., 0]
    tail = all_values.gather(1, end_column_per_row(completions.completion_mask)[:, None])[:, 0]
    return all_values[:, :num_tokens].clone(), tail  # a sharded module may not return a view
