"""What toy policies share: prompts and completions of numbers, sampled and scored by the protocol of all policies.

Letters: B prompts, N rows, P prompt tokens, T completion tokens, V vocabulary.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lit_rl.models.number_codec import NumberCodec, Numbers, numbers_of
from lit_rl.models.padding import pad_right
from lit_rl.models.policy import OnFinished, Policy
from lit_rl.models.sampling import SampledRow, choose_tokens
from lit_rl.models.streams import StreamKey, Uniforms
from lit_rl.types import Completions, PromptBatch, Sampling, StopReason


class ToyPolicy(Policy):
    """What toy policies share: prompts are the numbers of the check, completions are numbers.

    A subclass builds :attr:`weights` in :meth:`build` and says :meth:`logits` and :meth:`is_complete`.

    Args:
        init_seed: of the initial weights.
    """

    def __init__(self, init_seed: int | None = None) -> None:
        super().__init__()
        self.init_seed = init_seed or 0
        self.weights: nn.Module | None = None
        self.frozen_reference: nn.Module | None = None
        self.codec = NumberCodec(self.reads)

    @abstractmethod
    def build(self, generator: torch.Generator) -> nn.Module:
        """New weights."""

    @abstractmethod
    def logits(self, prompt_ids: Tensor, completion_ids: Tensor) -> Tensor:
        """[N, T, V] logits of each completion token, given the prompt [N, P] and the tokens before it."""

    @abstractmethod
    def is_complete(self, prompt: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether a completion has come to its end."""

    @abstractmethod
    def reads(self, numbers: Numbers) -> bool:
        """Whether these numbers are a prompt that the policy was made for."""

    def load(self) -> None:
        """Build the weights."""
        if self.weights is None:
            self.weights = self.build(torch.Generator().manual_seed(self.init_seed))

    def sample(
        self, prompts: PromptBatch, sampling: Sampling, key: StreamKey, on_finished: OnFinished | None = None
    ) -> Completions:
        """Sample token by token; see :meth:`Policy.sample`."""
        group = sampling.num_samples
        problems = tuple(problem for problem in prompts.problems for _ in range(group))
        seeds = [key.seed_of(problem.task_id, i % group) for i, problem in enumerate(problems)]
        uniforms = Uniforms(seeds) if sampling.temperature > 0 and problems else None
        rows = [_Row(numbers_of(problem)) for problem in problems]
        prompt_ids = prompts.prompt_ids.repeat_interleave(group, 0)
        everyone = torch.arange(len(rows))
        for step in range(sampling.max_tokens):
            if all(row.reason for row in rows):
                break
            so_far = pad_right([[*row.ids, *[0] * (step + 1 - len(row.ids))] for row in rows], 0, torch.long)
            with torch.no_grad():
                logits = self.logits(prompt_ids, so_far.to(self.device))[:, step]
            numbers = uniforms.at(step, everyone) if uniforms is not None else None
            chosen, scores = choose_tokens(logits, sampling, numbers)
            for index, row in enumerate(rows):
                if row.reason is None:
                    row.append(int(chosen[index]), float(scores[index]))
                    row.reason = self._reason(row, sampling.max_tokens)
                    if row.reason is not None and on_finished is not None:
                        on_finished(index, self.codec.decode(row.ids, row.reason, ())[0])
        written = [SampledRow(i, r.ids, r.logprobs, r.reason or StopReason.LENGTH) for i, r in enumerate(rows)]
        return self.codec.completions(prompts, written, group)

    def _reason(self, row: _Row, max_tokens: int) -> StopReason | None:
        if self.is_complete(row.prompt, row.ids):
            return StopReason.EOS
        return StopReason.LENGTH if len(row.ids) >= max_tokens else None

    def forward(
        self, completions: Completions, temperature: float = 1.0, with_entropy: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities and entropies [N, T]; see :meth:`Policy.forward`."""
        logits = self.logits(completions.prompt_ids, completions.completion_ids)
        logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
        chosen = logprobs.gather(-1, completions.completion_ids[..., None])[..., 0]
        mask = completions.completion_mask
        if not with_entropy:
            return chosen * mask, None
        return chosen * mask, -(logprobs.exp() * logprobs).sum(-1) * mask

    @contextmanager
    def reference(self) -> Iterator[Policy]:
        """Score with the frozen copy."""
        if self.frozen_reference is None:
            raise RuntimeError("no reference was prepared: call prepare_reference() after load()")
        trained, self.weights = self.weights, self.frozen_reference
        try:
            with torch.no_grad():
                yield self
        finally:
            self.weights = trained

    def prepare_reference(self) -> None:
        """Freeze a copy of the policy as it is now."""
        if self.frozen_reference is None:
            self.refresh_reference()

    def refresh_reference(self) -> None:
        """Freeze a copy of the policy as it is now in place of the last one."""
        self.frozen_reference = copy.deepcopy(self.weights).eval().requires_grad_(False) if self.weights else None

    def keeps(self, name: str) -> bool:
        """The reference is kept: it is as small as the policy."""
        return "frozen_reference." in name

    def make_room(self, names: Collection[str]) -> None:
        """Add a reference if the checkpoint has one."""
        if any("frozen_reference." in name for name in names):
            self.prepare_reference()


class _Row:
    """One completion being sampled."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self.prompt = prompt
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.reason: StopReason | None = None

    def append(self, token: int, logprob: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
