"""The base class of policies: weights, and the log-probabilities that they give to completions.

Causal language models (:mod:`lit_rl.models.causal_lm`) and toy models follow the same protocol, so the
algorithms never ask which one they train.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from lit_rl.errors import UsageError
from lit_rl.execution.checks import ReferenceText
from lit_rl.math.logprobs import Compare, TokenLogits
from lit_rl.models.codecs.codec import Codec
from lit_rl.models.decoding import BatchDecoder
from lit_rl.models.reference import NoGradScorer
from lit_rl.models.sampling import RandomKey, RunningBatch, make_sampling_requests
from lit_rl.signature_check import ArgumentChecks, check_call_arguments
from lit_rl.training.ranks import device_of_mesh, eval_mode
from lit_rl.types import Completions, Generation, Problem, Sampling


class Policy(nn.Module, ArgumentChecks, ABC):
    """A model that writes completions.

    The life of a policy: the constructor loads nothing (every YAML instantiates offline); :meth:`load` builds
    the weights; the trainer's strategy places them on the ranks; then the policy samples and gives log-probabilities.
    """

    codec: Codec
    """Turns problems into ids and ids into text; set by :meth:`load`."""

    version: int = 0
    """Optimizer steps that the weights have seen."""

    shares_prompts: bool = False
    """True if log-probabilities of rows with the same prompt are computed faster together."""

    reference_was_refreshed: bool = False
    """True if a frozen copy is no longer what the policy started from."""

    @abstractmethod
    def load(self) -> None:
        """Build or load weights (and tokenizer); a second call does nothing."""

    def constructor_arguments(self) -> dict[str, Any] | None:
        """Return constructor arguments that rebuild a policy for these weights, as plain data; ``None`` if unknown."""
        return None

    @property
    def device(self) -> torch.device:
        """Device that computes with the weights; with ``fsdp2`` the weights may wait on the CPU (``offload``)."""
        first = next(self.parameters())
        return device_of_mesh(first.device_mesh) if isinstance(first, DTensor) else first.device

    @abstractmethod
    def make_batch_decoder(self) -> BatchDecoder:
        """Return a decoding with the present weights; an in-process engine asks for one per batch of rows."""

    @abstractmethod
    def forward(
        self, completions: Completions, temperature: float = 1.0, with_entropy: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return the log-probabilities of completions.

        Args:
            completions: N rows.
            temperature: temperature at which the completions were sampled; 0 (greedy) counts as 1.
            with_entropy: also return the entropy of each token's distribution.

        Returns:
            Log-probabilities [N, T] and entropies [N, T] (or ``None``), nats, 0 outside the mask, with grad.
        """

    def logprobs(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """Return the log-probabilities [N, T] (nats) of the completions' tokens."""
        logprobs: Tensor = self(completions, temperature)[0]
        return logprobs

    def entropy(self, completions: Completions, temperature: float = 1.0) -> Tensor:
        """Return the entropies [N, T] (nats) of the distributions that the completions' tokens were drawn from."""
        entropy: Tensor = self(completions, temperature, True)[1]
        return entropy

    def lazy_token_logits(self, completions: Completions, model: Any = None) -> TokenLogits:
        """Return a function for the logits of the completions' M tokens, row by row and without gradients."""
        raise UsageError(f"{type(self).__name__} gives no distributions over the vocabulary: use SampledReverseKL")

    def logprobs_and_divergence(
        self, completions: Completions, teacher: TokenLogits, compare: Compare, temperature: float, with_entropy: bool
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return log-probabilities, entropies (or ``None``) and divergences from a teacher: [N, T] nats with grad."""
        raise UsageError(f"{type(self).__name__} gives no distributions over the vocabulary: use SampledReverseKL")

    @abstractmethod
    def make_reference(self, *, will_refresh: bool = False) -> NoGradScorer:
        """Return a reference, the policy as it is now; later calls return the same reference.

        Called after :meth:`load` and before the policy is sharded.

        Args:
            will_refresh: whether the reference will move, which takes one more adapter if there are adapters.
        """

    def saves_frozen_parameter(self, name: str) -> bool:
        """Return whether a frozen parameter must be in checkpoints because the configuration cannot rebuild it."""
        return False

    def add_reference_if_saved(self, names: Collection[str]) -> None:
        """Prepare for a checkpoint that holds weights of these names, such as a refreshed reference's."""
        return

    @check_call_arguments
    def complete(
        self,
        prompts: Sequence[str | Problem],
        sampling: Sampling = Sampling(),  # noqa: B008  # frozen
        seed: int = 0,
    ) -> list[str]:
        """Write completions of prompts; this loads the policy if need be, needs no trainer and runs no program.

        Args:
            prompts: texts, or problems.
            sampling: sampling settings; ``num_samples`` completions of each prompt.
            seed: seed of the samples; the same seed and prompts give the same texts.

        Returns:
            The texts, all those of the first prompt before those of the second.
        """
        problems = [
            p if isinstance(p, Problem) else Problem(f"{i}", p, ReferenceText("")) for i, p in enumerate(prompts)
        ]
        return list(self.sample(problems, sampling, seed).texts)

    def sample(self, problems: Sequence[Problem], sampling: Sampling, seed: int = 0) -> Completions:
        """Write completions as :meth:`complete` does, and keep the sampled ids, which a loss needs.

        Args:
            problems: B problems.
            sampling: sampling settings; ``num_samples`` completions of each problem.
            seed: seed of the samples.

        Returns:
            N = B * ``num_samples`` completions, all of the first problem before those of the second.
        """
        self.load()
        rows: list[Generation] = []
        with torch.no_grad(), eval_mode(self):
            requests = make_sampling_requests(self.codec, problems, sampling, RandomKey(seed, "complete", 0))
            batch = RunningBatch(self.make_batch_decoder(), requests, sampling)
            while batch.num_running:
                rows += batch.step()
        rows.sort(key=lambda one: one.row)
        return self.codec.completions_from_generations(problems, rows, sampling.num_samples, self.device)
