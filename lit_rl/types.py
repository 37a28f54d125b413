"""Data types shared by all layers: problems, requests and answers, completions, judgements, experience.

Letters (the same everywhere): B prompts of one rank, G completions per prompt, N = B * G rows,
prompt-major (row ``b * G + g``), P prompt tokens (padded left), T completion tokens (padded right).
Masks are bool; True counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from lit_rl.errors import ArgumentError, UsageError, short_repr
from lit_rl.execution.checks import Check
from lit_rl.execution.interface import Outcome
from lit_rl.execution.program import Extraction
from lit_rl.signature_check import NonNegativeFloat, NonNegativeInt, PositiveInt, PositiveShare, checked_dataclass

Message = Mapping[str, str]
Rows = TypeVar("Rows", "Completions", "Experience")


@dataclass(frozen=True)
class Problem:
    """One problem of a task: the prompt, and the check that judges a program.

    Args:
        task_id: unique within its task; also the name of the problem's random stream.
        prompt: text, or chat messages ``({"role": ..., "content": ...}, ...)`` for the chat template; a last message
            of the assistant begins the policy's answer. A special token written in a message is plain text; in a
            text prompt it is that token.
        check: how a program is judged.
        public_check: what an environment may show the policy, such as the examples in the prompt. Feedback between
            turns uses this check and never the hidden tests of ``check``; ``None`` if the task shows none.
        program_prefix: source put before the completion to make the whole program: in completion form, the prompt,
            which the policy continues; in instruct form, imports and helpers that tests need.
        starter_code: what the answer must build on, for display and for prompts.
        reference: source of a correct program, if the task has one.
        stop_strings: the completion ends before the first of these.
        extraction: how the program is found in the completion, see :func:`lit_rl.execution.extract_program`.
        fields: anything else a reward term or a report reads, plain data.
    """

    task_id: str
    prompt: str | tuple[Message, ...]
    check: Check
    program_prefix: str = ""
    starter_code: str = ""
    reference: str | None = None
    stop_strings: tuple[str, ...] = ()
    extraction: Extraction = "answer"
    fields: Mapping[str, Any] = field(default_factory=dict)
    public_check: Check | None = None

    def __post_init__(self) -> None:
        chat = isinstance(self.prompt, Sequence) and not isinstance(self.prompt, str)
        faults = {
            "task_id": ("a text", isinstance(self.task_id, str)),
            "prompt": (
                "a text, or messages such as ({'role': 'user', 'content': 'Write f.'},)",
                (chat and all(isinstance(one, Mapping) and {"role", "content"} <= one.keys() for one in self.prompt))
                or isinstance(self.prompt, str),
            ),
            "check": ("a check such as AssertTests('assert f() == 1')", isinstance(self.check, Check)),
            "public_check": ("a check, or None", isinstance(self.public_check, Check | None)),
            "stop_strings": ("a tuple of texts", not isinstance(self.stop_strings, str)),
        }
        for name, (wanted, fits) in faults.items():
            if not fits:
                raise ArgumentError(f"Problem.{name}", wanted, short_repr(getattr(self, name)))

    @property
    def prompt_text(self) -> str:
        """The prompt as plain text; a chat's messages with a blank line between them."""
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n\n".join(message["content"] for message in self.prompt)

    @property
    def continues_program(self) -> bool:
        """True if the completion continues the prompt, which begins the program (completion form)."""
        return bool(self.program_prefix) and isinstance(self.prompt, str) and self.prompt.endswith(self.program_prefix)

    @property
    def prompt_opens_fence(self) -> bool:
        """True if the prompt has begun the answer with the opening fence of its block."""
        if isinstance(self.prompt, str) or self.prompt[-1]["role"] != "assistant":
            return False
        return self.prompt[-1]["content"].rstrip().rpartition("\n")[2].startswith("```")


@checked_dataclass
@dataclass(frozen=True)
class Sampling:
    """Sampling settings.

    Args:
        num_samples: completions per prompt; the group size G when training.
        temperature: temperature of the softmax; 0 is greedy.
        top_p: keep the smallest set of tokens that has this much probability; 1 keeps all.
        top_k: keep this many of the most likely tokens; 0 keeps all.
        max_tokens: a completion is cut after this many tokens.
    """

    num_samples: PositiveInt = 1
    temperature: NonNegativeFloat = 1.0
    top_p: PositiveShare = 1.0
    top_k: NonNegativeInt = 0
    max_tokens: PositiveInt = 256

    def __post_init__(self) -> None:
        if self.temperature == 0 and self.num_samples > 1:
            raise UsageError(
                f"greedy sampling gives the same completion each time, got num_samples={self.num_samples}: "
                "use num_samples: 1 or a temperature above 0"
            )

    @property
    def filters(self) -> str:
        """Settings that exclude tokens, so that the sampler's probabilities are not the policy's; empty if none."""
        is_filtered = self.top_k or self.top_p < 1
        return f"top_k={self.top_k} and top_p={self.top_p} exclude tokens" if is_filtered else ""


class StopReason(StrEnum):
    """Reason a completion ended; recorded by the sampler, never guessed from ids or lengths."""

    EOS = "eos"
    LENGTH = "length"
    STOP_STRING = "stop_string"


@dataclass(frozen=True)
class Request:
    """Request to an engine to continue these ids.

    Args:
        row: number of the rollout's row, handed back with the answer.
        prompt_ids: everything so far; ids of earlier turns exactly as they were sampled.
        stream: seed of the request's own random stream, see :class:`lit_rl.models.sampling.RandomKey`.
        max_tokens: the completion is cut after this many tokens.
        stop_strings: the completion ends with the token that completes the first of these.
    """

    row: int
    prompt_ids: tuple[int, ...]
    stream: int
    max_tokens: int
    stop_strings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generation:
    """Answer of an engine to a :class:`Request`.

    Args:
        row: row of the request.
        ids: the sampled ids, at least one; EOS and the tokens of a stop string included.
        logprobs: log-probability of each id (nats), under the distribution that it was drawn from.
        reason: why the completion ended.
        weights_version: ``version`` of the policy that sampled the tokens; the lowest, if there were several.
    """

    row: int
    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    reason: StopReason
    weights_version: int


ByteSpan = tuple[int, int]


class ByteSpans(Sequence[ByteSpan]):
    """The ``(start, end)`` byte spans of tokens, in order; reads like a tuple of pairs, and equals that.

    Args:
        starts: [T] int64 on the CPU, first byte of each token.
        ends: [T] int64 on the CPU, byte after the last one of each token.

    Example:
        >>> spans = ByteSpans.of([(0, 2), (2, 5)])
        >>> spans[1], spans == ((0, 2), (2, 5)), spans.ends
        ((2, 5), True, tensor([2, 5]))
    """

    __slots__ = ("ends", "starts")

    def __init__(self, starts: Tensor, ends: Tensor) -> None:
        self.starts = starts
        self.ends = ends

    @classmethod
    def of(cls, spans: Sequence[ByteSpan]) -> ByteSpans:
        """Return the spans of the given pairs."""
        if isinstance(spans, ByteSpans):
            return spans
        pairs = int64_tensor(chain.from_iterable(spans)).view(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def cut(self, start: int, size: int, num_more: int) -> ByteSpans:
        """Return spans in a part of the text; tokens after it, and ``num_more`` others, are empty at its end."""
        more = self.starts.new_full((num_more,), size)
        starts, ends = (self.starts - start).clamp(max=size), (self.ends - start).clamp(max=size)
        return ByteSpans(torch.cat([starts, more]), torch.cat([ends, more]))

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> ByteSpan: ...
    @overload
    def __getitem__(self, index: slice) -> ByteSpans: ...
    def __getitem__(self, index: int | slice) -> ByteSpan | ByteSpans:
        if isinstance(index, slice):
            return ByteSpans(self.starts[index], self.ends[index])
        return int(self.starts[index]), int(self.ends[index])

    def __iter__(self) -> Iterator[ByteSpan]:
        return iter(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, ByteSpans):
            return torch.equal(self.starts, other.starts) and torch.equal(self.ends, other.ends)
        return tuple(self) == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"ByteSpans.of({list(self)})"


def int64_tensor(numbers: Iterable[int]) -> Tensor:
    """Return numbers as [T] int64, several times faster than ``torch.tensor`` does it from a list."""
    held = array("q", numbers)
    return torch.frombuffer(held, dtype=torch.int64) if held else torch.zeros(0, dtype=torch.int64)


@dataclass(frozen=True)
class Turn:
    """One turn of the policy.

    Args:
        start: column of the turn's first token in the completion.
        end: column after the turn's last token.
        text: decoded text, without EOS and cut at the stop string.
        token_byte_spans: entry t is the ``(start, end)`` byte span of the turn's token t in the UTF-8 of the text.
            Tokens beyond the text (EOS, a cut stop string) have an empty span at its end.
        stop_reason: why the turn ended.
        in_thought: whether the prompt before the turn opened a thought (``<think>``), so that the turn begins inside
            the thought. Text before the end of the thought is no answer.
    """

    start: int
    end: int
    text: str
    token_byte_spans: Sequence[ByteSpan]
    stop_reason: StopReason
    in_thought: bool = False


@dataclass(frozen=True)
class Completions:
    """Everything after the prompts: N rows of one or more policy turns, and the environment's messages between them.

        completion_ids   [policy turn][environment][policy turn] padding
        completion_mask   1 1 1 1 1 1  0 0 0 0 0 0  1 1 1 1 1 1   0 0 0
        token_mask        1 1 1 1 1 1  1 1 1 1 1 1  1 1 1 1 1 1   0 0 0

    Args:
        problems: N problems, one per row.
        prompt_ids: [N, P] int64, padded on the left.
        prompt_mask: [N, P] bool.
        completion_ids: [N, T] int64, the ids themselves as they were sampled or read, padded on the right.
        completion_mask: [N, T] bool, tokens that the policy chose, EOS included, to which loss and credit apply. The
            mask may have holes.
        token_mask: [N, T] bool, True for tokens and False for padding: for attention and positions.
        sampler_logprobs: [N, T] nats under the sampler at its temperature; 0 where the policy chose nothing.
        turns: N tuples of the policy's turns, in order, at least one turn each.
        group_ids: [N] int64; rows of one group answer the same prompt and are compared. They need not be adjacent, and
            groups may differ in size.
        weights_versions: N numbers, the lowest version of the weights that sampled each row; empty where nothing was
            sampled.
    """

    problems: tuple[Problem, ...]
    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    token_mask: Tensor
    sampler_logprobs: Tensor
    turns: tuple[tuple[Turn, ...], ...]
    group_ids: Tensor
    weights_versions: tuple[int, ...] = ()

    @classmethod
    def single_turn(
        cls,
        *,
        problems: tuple[Problem, ...],
        prompt_ids: Tensor,
        prompt_mask: Tensor,
        completion_ids: Tensor,
        completion_mask: Tensor,
        sampler_logprobs: Tensor,
        stop_reasons: Sequence[StopReason],
        texts: Sequence[str],
        token_byte_spans: Sequence[Sequence[ByteSpan]],
        group_size: int = 1,
        weights_versions: tuple[int, ...] = (),
    ) -> Completions:
        """Build rows of one turn each, prompt-major: the rows of a prompt are adjacent."""
        rows = zip(completion_mask.sum(-1).tolist(), texts, token_byte_spans, stop_reasons, strict=True)
        return cls(
            problems=problems,
            prompt_ids=prompt_ids,
            prompt_mask=prompt_mask,
            completion_ids=completion_ids,
            completion_mask=completion_mask,
            token_mask=completion_mask,
            sampler_logprobs=sampler_logprobs,
            turns=tuple((Turn(0, length, text, spans, reason),) for length, text, spans, reason in rows),
            group_ids=torch.arange(len(problems), device=completion_ids.device) // group_size,
            weights_versions=weights_versions,
        )

    def __len__(self) -> int:
        return len(self.problems)

    @cached_property
    def on_host(self) -> Completions:
        """The same rows on the CPU, where reading a number needs no synchronization with a device."""
        if self.completion_ids.device.type == "cpu":
            return self
        tensors: dict[str, Any] = {f.name: v for f in fields(self) if isinstance(v := getattr(self, f.name), Tensor)}
        return replace(self, **{name: value.cpu() for name, value in tensors.items()})

    @property
    def texts(self) -> tuple[str, ...]:
        """Text of the last turn of each row."""
        return tuple(turns[-1].text for turns in self.turns)

    @property
    def token_byte_spans(self) -> tuple[Sequence[ByteSpan], ...]:
        """Byte spans of the tokens of each row's last turn, see :class:`Turn`."""
        return tuple(turns[-1].token_byte_spans for turns in self.turns)

    @property
    def stop_reasons(self) -> tuple[StopReason, ...]:
        """Reason the last turn of each row ended."""
        return tuple(turns[-1].stop_reason for turns in self.turns)

    @property
    def truncated(self) -> Tensor:
        """[N] bool: the last turn was stopped by the token limit."""
        flags = [turns[-1].stop_reason is StopReason.LENGTH for turns in self.turns]
        return torch.tensor(flags, dtype=torch.bool, device=self.completion_ids.device)

    @property
    def lengths(self) -> Tensor:
        """[N] int64 tokens that the policy chose in all turns, EOS included."""
        return self.completion_mask.sum(-1)

    @property
    def token_counts(self) -> Tensor:
        """[N] int64 tokens of policy and environment."""
        return self.token_mask.sum(-1)

    def rows_by_group(self) -> dict[int, list[int]]:
        """Return the rows of each group by the group's number, in the order of the groups' first rows."""
        rows: dict[int, list[int]] = {}
        for row, number in enumerate(self.group_ids.tolist()):
            rows.setdefault(number, []).append(row)
        return rows

    def trim(self) -> Completions:
        """Return the same completions without columns that are padding in every row."""
        host = self.on_host
        num_prompt = int(host.prompt_mask.sum(-1).max()) if len(self) else 0
        width = int(host.token_counts.max()) if len(self) else 0
        trimmed = replace(
            self,
            prompt_ids=self.prompt_ids[:, self.prompt_ids.shape[1] - num_prompt :],
            prompt_mask=self.prompt_mask[:, self.prompt_mask.shape[1] - num_prompt :],
            completion_ids=self.completion_ids[:, :width],
            completion_mask=self.completion_mask[:, :width],
            token_mask=self.token_mask[:, :width],
            sampler_logprobs=self.sampler_logprobs[:, :width],
        )
        if host is not self:
            trimmed.__dict__["on_host"] = host.trim()
        return trimmed

    def select(self, rows: Sequence[int] | Tensor) -> Completions:
        """Return the given rows, in the given order, on the same device."""
        index = torch.as_tensor(rows, dtype=torch.long)
        chosen = _select_rows(self, index)
        if self.on_host is not self:
            chosen.__dict__["on_host"] = _select_rows(self.on_host, index)
        return chosen


@dataclass(frozen=True)
class Program:
    """The program found in a completion and its place there.

    Args:
        source: what is executed: the problem's prefix, if any, then the extracted text.
        start: first byte of the extracted text in the UTF-8 of the completion.
        end: byte after the last one.
        prefix_lines: lines of ``source`` that come from the prefix, not from the completion. Line k of
            ``source`` is line ``k - prefix_lines`` of the extracted text.
        fenced: whether the text stood in a fenced block.
        removed: number of bytes of indentation that were removed from each line of the extracted text, such as that of
            a block in a list; empty if none were.
    """

    source: str
    start: int
    end: int
    prefix_lines: int = 0
    fenced: bool = False
    removed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """One completion judged: the program found in it (or none) and what happened to it."""

    problem: Problem
    program: Program | None
    outcome: Outcome


@dataclass(frozen=True)
class Experience:
    """All tensors that one update uses; a field that the algorithm does not use is ``None``.

    Args:
        completions: what was sampled.
        rewards: [N] rewards of the completions, before any KL.
        row_mask: [N] bool; False for rows that do not count in the loss (no reward, or cut under ``mask_truncated``).
        advantages: [N, T]; zero outside the mask.
        old_logprobs: [N, T] nats before the first update: from the training forward or, for stale rows without a
            correction, from the sampler; ``None`` if nothing reads them.
        ref_logprobs: [N, T] nats under the reference.
        token_rewards: [N, T] credit, minus the KL if it is in the reward; only with such a KL, and in PPO.
        old_values: [N, T] the critic's values before the update, reward units.
        returns: [N, T] the critic's target, reward units.
        teacher_mask: [N, T] bool, tokens that a teacher corrects.
        teacher_inputs: the same N rows as the teacher reads them, with prompts that may tell more.
    """

    completions: Completions
    rewards: Tensor
    row_mask: Tensor
    advantages: Tensor
    old_logprobs: Tensor | None = None
    ref_logprobs: Tensor | None = None
    token_rewards: Tensor | None = None
    old_values: Tensor | None = None
    returns: Tensor | None = None
    teacher_mask: Tensor | None = None
    teacher_inputs: Completions | None = None

    def __len__(self) -> int:
        return len(self.completions)

    def trim(self) -> Experience:
        """Return the same rows without completion columns that are padding in every row."""
        completions = self.completions.trim()
        num_tokens = completions.completion_ids.shape[1]
        columns: dict[str, Any] = {
            item.name: value[:, :num_tokens]
            for item in fields(self)
            if isinstance(value := getattr(self, item.name), Tensor) and value.ndim == 2
        }
        return replace(self, completions=completions, **columns)

    @property
    def loss_mask(self) -> Tensor:
        """[N, T] bool: tokens that count in the loss."""
        return self.completions.completion_mask & self.row_mask[:, None]

    def select(self, rows: Sequence[int] | Tensor) -> Experience:
        """Return the given rows, in the given order."""
        index = torch.as_tensor(rows, dtype=torch.long)
        return _select_rows(self, index)


def _select_rows(batch: Rows, index: Tensor) -> Rows:
    """Return the rows of every field: tensors and tuples are indexed, empty fields stay empty."""
    chosen: dict[str, Any] = {}
    for item in fields(batch):
        value = getattr(batch, item.name)
        if isinstance(value, Tensor):
            chosen[item.name] = value[index.to(value.device)]
        elif isinstance(value, tuple) and value:
            chosen[item.name] = tuple(map(value.__getitem__, index.tolist()))
        elif isinstance(value, Completions):
            chosen[item.name] = value.select(index)
    return replace(batch, **chosen)
