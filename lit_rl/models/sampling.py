"""Sampling tokens: rows continue side by side, each with random numbers of its own; rows that ended leave.

Each (seed, purpose, rollout, problem, sample, turn) has its own random stream. What a row samples then depends on
nothing else: not on its place in the batch, on which rows finished before it, on the number of ranks, or on what was
drawn earlier in the run. A resumed run needs no generator state to sample the same tokens.

Letters: B distinct prompts, n rows being sampled, V vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lit_rl.types import Generation, Problem, Request, Sampling, StopReason

if TYPE_CHECKING:
    from lit_rl.models.codecs.codec import Codec
    from lit_rl.models.decoding import BatchDecoder


_BLOCK_TOKENS = 32


@dataclass(frozen=True)
class RandomKey:
    """Name of the random streams of one rollout."""

    seed: int
    purpose: str
    rollout: int

    def seed_of_stream(self, task_id: str, sample: int, turn: int = 0) -> int:
        """Return the seed of the stream of one turn of a row, in [0, 2**63)."""
        text = f"{self.seed}/{self.purpose}/{self.rollout}/{task_id}/{sample}"
        if turn:
            text += f"/turn {turn}"  # no number alone, which would be a sample of a problem called task_id/sample
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") >> 1


class RowRandomStreams:
    """One uniform number per row and token, each row from its own stream."""

    def __init__(self, seeds: Sequence[int] = ()) -> None:
        self._generators: list[torch.Generator] = []
        self._block = torch.empty(0, _BLOCK_TOKENS, dtype=torch.float64)
        self.add(seeds)

    def add(self, seeds: Sequence[int]) -> None:
        """Add rows behind the present ones."""
        self._generators += [torch.Generator().manual_seed(seed) for seed in seeds]
        self._block = torch.cat([self._block, self._block.new_empty(len(seeds), _BLOCK_TOKENS)])

    def draw(self, steps: Tensor, rows: Tensor) -> Tensor:
        """Draw a number in [0, 1) for a token of each of the given rows.

        Args:
            steps: [n] int64 token positions, 0-based. Those of a row must come in order, with none left out.
            rows: [n] int64 row numbers on the CPU.

        Returns:
            [n] float64 on the CPU.
        """
        column = steps % _BLOCK_TOKENS
        for row in rows[column == 0].tolist():
            self._block[row] = torch.rand(_BLOCK_TOKENS, generator=self._generators[row], dtype=torch.float64)
        return self._block[rows, column]


_TOKENS_PER_LOOK = 16
"""Tokens that a device samples before the host checks which rows ended; tokens beyond a row's end are dropped."""

# Rows that ended stay in the batch, sampling for nothing, until only this share of its rows is running: dropping rows
# copies the cache, which costs about one step.
_COMPACT_BELOW = 0.75


_LOGITS_AT_ONCE = 2**19
"""Logits that a CPU turns into probabilities at a time: such temporaries stay in its caches, larger ones do not."""


def sample_tokens(logits: Tensor, sampling: Sampling, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
    """Sample one token per row by inverting the cumulative distribution.

    One uniform number decides a row's token, so a row's samples depend on its own stream alone.
    (``torch.multinomial`` draws V numbers per row and is several times slower on a CPU.)

    Returns:
        ids [n] int64 and their log-probabilities [n] float32 (nats) under the distribution that was sampled
        from. Greedy choices are scored at temperature 1.
    """
    rows = max(1, _LOGITS_AT_ONCE // logits.shape[-1] if logits.device.type == "cpu" else len(logits))
    chosen, scores = [], []
    for start in range(0, len(logits), rows):
        wide = logits[start : start + rows].float()
        if sampling.temperature == 0 or uniforms is None:
            logprobs = wide.log_softmax(-1)
            ids = wide.argmax(-1, keepdim=True)
        else:
            logprobs = filter_top_k_top_p(wide / sampling.temperature, sampling).log_softmax(-1)
            cumulative = logprobs.to(torch.float64, copy=True).exp_().cumsum_(-1)
            total = cumulative[:, -1:]
            drawn = uniforms[start : start + rows, None].to(total.device)
            # Just below the total at most, so that rounding never lands on a token of probability zero.
            target = torch.minimum(drawn * total, total.nextafter(torch.zeros_like(total)))
            ids = torch.searchsorted(cumulative, target, right=True).clamp(max=wide.shape[-1] - 1)
        chosen.append(ids[:, 0])
        scores.append(logprobs.gather(-1, ids)[:, 0])
    return torch.cat(chosen), torch.cat(scores)


def filter_top_k_top_p(logits: Tensor, sampling: Sampling) -> Tensor:
    """Set the logits of tokens outside top-k and top-p to minus infinity.

    Returns:
        [n, V]; the same tensor if nothing is filtered.
    """
    if 0 < sampling.top_k < logits.shape[-1]:
        smallest = logits.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if sampling.top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        drop = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= sampling.top_p)
        logits = logits.masked_fill(drop, -torch.inf)
    return logits


@dataclass(eq=False)
class RunningRow:
    """Tokens written so far for a request."""

    request: Request
    limit: int = 0
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: bool = False

    def to_generation(self, reason: StopReason, version: int) -> Generation:
        """Return the answer, with the version of the weights that wrote it."""
        return Generation(self.request.row, tuple(self.ids), tuple(self.logprobs), reason, version)


class RunningBatch:
    """Requests sampled side by side; each step samples one more token per request, or several on an accelerator.

    Equal prompts of requests that start together are read once.
    """

    def __init__(
        self, decoding: BatchDecoder, requests: Sequence[Request], sampling: Sampling, weights_version: int = 0
    ) -> None:
        self._decoding = decoding
        self._sampling = sampling
        self._version = weights_version
        self._joining = list(requests)
        self._rows: list[RunningRow] = []
        self._num_ended = 0
        self._uniforms = RowRandomStreams()
        self._held = torch.zeros(0, dtype=torch.long)  # numbers of the rows that the decoding still has
        self._lengths = torch.zeros(0, dtype=torch.long)  # tokens that each of them has
        self._chosen: Tensor | None = None

    @property
    def num_running(self) -> int:
        """Number of requests that have not ended."""
        return len(self._rows) - self._num_ended + len(self._joining)

    @property
    def num_rows_in_memory(self) -> int:
        """Number of rows that take up memory: rows that have not ended and the few that were not dropped yet."""
        return len(self._held) + len(self._joining) if self.num_running else 0

    @property
    def can_add_rows(self) -> bool:
        """True if further requests can be sampled in the same batch."""
        return self._decoding.can_add_rows

    def add_requests(self, requests: Sequence[Request]) -> None:
        """Sample further requests from the next step on."""
        self._joining += requests

    def step(self) -> list[Generation]:
        """Sample one or a few tokens for each row; return the answers of requests that ended with these tokens."""
        read = [] if self._chosen is None else [self._decoding.decode_step(self._chosen)]
        if self._joining:
            read.append(self._prefill_new_requests())
        logits = torch.cat(read)
        steps = 1
        if logits.device.type != "cpu":
            rows = [row for index in self._held.tolist() if not (row := self._rows[index]).ended]
            steps = min(_TOKENS_PER_LOOK, max(row.limit - len(row.ids) for row in rows))
        found = [self._sample_tokens(logits)]
        for _ in range(1, steps):
            found.append(self._sample_tokens(self._decoding.decode_step(found[-1][0])))
        ids, logprobs = zip(*found, strict=True)
        chosen, scores = torch.stack(ids, 1), torch.stack(logprobs, 1)
        generations = []
        for index, tokens, of_row in zip(self._held.tolist(), *_ids_and_scores_to_lists(chosen, scores), strict=True):
            row = self._rows[index]
            for token, score in zip(tokens, of_row, strict=True):
                if row.ended:
                    break
                row.ids.append(token)
                row.logprobs.append(score)
                # EOS as the last allowed token is EOS, not a cut.
                reason = self._decoding.stop_reason_if_ended(row.request.prompt_ids, row.ids, row.request.stop_strings)
                reason = StopReason.LENGTH if reason is None and len(row.ids) >= row.limit else reason
                if reason is not None:
                    row.ended = True
                    self._num_ended += 1
                    generations.append(row.to_generation(reason, self._version))
        self._chosen = self._drop_ended_rows(chosen[:, -1])
        return generations

    def _sample_tokens(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        numbers = self._uniforms.draw(self._lengths, self._held) if self._sampling.temperature > 0 else None
        self._lengths += 1
        return sample_tokens(logits, self._sampling, numbers)

    def _prefill_new_requests(self) -> Tensor:
        """Read each distinct prompt of the joining requests once; return the logits [n, V] of their first tokens."""
        joining, self._joining = self._joining, []
        places: dict[tuple[int, ...], int] = {}
        copies = [places.setdefault(request.prompt_ids, len(places)) for request in joining]
        limits = [request.max_tokens for request in joining]
        logits = self._decoding.prefill(list(places), torch.tensor(copies), max(limits))
        new = torch.arange(len(self._rows), len(self._rows) + len(joining))
        self._held, self._lengths = torch.cat([self._held, new]), torch.cat([self._lengths, torch.zeros_like(new)])
        self._rows += map(RunningRow, joining, map(min, limits, self._decoding.room))
        self._uniforms.add([request.stream for request in joining])
        return logits

    def _drop_ended_rows(self, chosen: Tensor) -> Tensor:
        """Drop the ended rows once there are enough of them; return the tokens of the rows that stay."""
        going = [i for i, index in enumerate(self._held.tolist()) if not self._rows[index].ended]
        if not going or len(going) > _COMPACT_BELOW * len(self._held):
            return chosen
        stay = torch.tensor(going)
        self._held, self._lengths = self._held[stay], self._lengths[stay]
        self._decoding.keep_rows(stay)
        return chosen[stay.to(chosen.device)]


def _ids_and_scores_to_lists(ids: Tensor, scores: Tensor) -> tuple[list[list[int]], list[list[float]]]:
    """Return ids and float32 numbers as lists, with one copy from the device: the numbers' bits travel as integers."""
    if ids.device.type == "cpu":
        return ids.tolist(), scores.tolist()
    both = torch.stack([ids, scores.view(torch.int32).long()]).cpu()
    return both[0].tolist(), both[1].int().view(torch.float32).tolist()


def make_sampling_requests(
    codec: Codec, problems: Sequence[Problem], sampling: Sampling, key: RandomKey
) -> list[Request]:
    """Return one request for each sample of each problem, prompt-major: row ``b * num_samples + g``."""
    prompts = [(problem, codec.encode_fitting_prompt(problem)) for problem in problems]
    asked = [(problem, ids, g) for problem, ids in prompts for g in range(sampling.num_samples)]
    return [
        Request(row, ids, key.seed_of_stream(problem.task_id, g), sampling.max_tokens, problem.stop_strings)
        for row, (problem, ids, g) in enumerate(asked)
    ]
