"""Rows, masks, turns and requests fit together, whatever is sampled and whatever the limits."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rollout.scripted import Passing
from transformers import AutoTokenizer

from lit_rl.engines import Engine, Generation, Request, Session
from lit_rl.execution import AssertTests
from lit_rl.models.codecs.text_codec import TextCodec
from lit_rl.models.sampling import RandomKey
from lit_rl.rollout import Attempt, Environment, Rollout, sample_rows
from lit_rl.types import Problem, Sampling, StopReason

CHAT = (
    "{% for m in messages %}[{{ m['role'][0] }}]{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}<eos>\n{% endif %}{% endfor %}{% if add_generation_prompt %}[a]{% endif %}"
)
LETTERS = st.text("abc é", max_size=14)
LONG = st.text("xyz\n", max_size=90)


@pytest.fixture(scope="module")
def codec(byte_tokenizer: str) -> TextCodec:
    tokenizer = AutoTokenizer.from_pretrained(byte_tokenizer)
    tokenizer.chat_template = CHAT
    return TextCodec(tokenizer, frozenset({tokenizer.eos_token_id}))


class Drawn(Engine):
    """Says the texts of a script in any order, some at a time or none; remembers what was asked and answered."""

    def __init__(self, texts: Sequence[str], order: random.Random, in_rounds: bool) -> None:
        self.texts = texts
        self.order = order
        self.in_rounds = in_rounds
        self.requests: list[Request] = []
        self.answers: list[Generation] = []

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        yield DrawnSession(self, policy.codec)


class DrawnSession(Session):
    def __init__(self, engine: Drawn, codec: TextCodec) -> None:
        self.engine = engine
        self.codec = codec
        self.open: list[Request] = []

    def submit(self, requests: Sequence[Request]) -> None:
        self.open += requests
        self.engine.requests += requests

    def step(self) -> list[Generation]:
        taken = [request for request in self.open if self.engine.order.random() < 0.4]
        self.open = [request for request in self.open if request not in taken]
        answers = [self.answer(request) for request in taken]
        self.engine.answers += answers
        return answers

    def answer(self, request: Request) -> Generation:
        text = self.engine.texts[request.stream % len(self.engine.texts)]
        ids = self.codec.encode_completion(text)[0][: request.max_tokens]
        reason = StopReason.EOS if ids[-1] in self.codec.eos_ids else StopReason.LENGTH
        logprobs = tuple(-1.0 - i - request.row for i in range(len(ids)))
        return Generation(request.row, ids, logprobs, reason, weights_version=0)

    @property
    def num_unfinished(self) -> int:
        return len(self.open)


class Says(Environment):
    """Answers with one of some messages, or with nothing."""

    def __init__(self, messages: Sequence[str | None], **limits: Any) -> None:
        super().__init__(**limits)
        self.messages = messages

    def answer(self, problem: Problem, attempts: Sequence[Attempt]) -> str | None:
        return self.messages[sum(map(len, (a.text for a in attempts))) % len(self.messages)]


@st.composite
def plays(draw: st.DrawFn) -> dict[str, Any]:
    chat = draw(st.booleans())
    prompts = draw(st.lists(LETTERS.filter(str.strip), min_size=0, max_size=3))
    longest = max((len(prompt.encode()) for prompt in prompts), default=0) + 8
    return {
        "prompts": [({"role": "user", "content": prompt},) if chat else prompt for prompt in prompts],
        "texts": draw(st.lists(LETTERS, min_size=1, max_size=5)),
        "messages": draw(st.lists(st.none() | LONG, min_size=1, max_size=4)),
        "num_samples": draw(st.integers(1, 3)),
        "max_tokens": draw(st.integers(1, 12)),
        "max_turns": draw(st.integers(1, 4)),
        "max_message_tokens": draw(st.none() | st.integers(44, 70)),
        "max_row_tokens": draw(st.none() | st.integers(longest, 140)),
        "max_positions": draw(st.sampled_from([longest, 60, 1 << 30])),
        "in_rounds": draw(st.booleans()),
        "seed": draw(st.integers(0, 99)),
    }


def play(codec: TextCodec, drawn: dict[str, Any]) -> tuple[Rollout, Drawn]:
    codec.max_positions = drawn["max_positions"]
    problems = [Problem(f"p{i}", prompt, AssertTests("x")) for i, prompt in enumerate(drawn["prompts"])]
    engine = Drawn(drawn["texts"], random.Random(drawn["seed"]), drawn["in_rounds"])
    environment = Says(
        drawn["messages"], **{k: drawn[k] for k in ("max_turns", "max_message_tokens", "max_row_tokens")}
    )
    sampling = Sampling(num_samples=drawn["num_samples"], max_tokens=drawn["max_tokens"])
    policy: Any = SimpleNamespace(codec=codec, device=torch.device("cpu"), version=0)
    key = RandomKey(drawn["seed"], "test", 0)
    return sample_rows(policy, engine, Passing(), problems, sampling, key, environment).finish(), engine


@given(plays())
@settings(max_examples=100, deadline=None)
def test_rows_masks_turns_and_requests_fit_together(codec: TextCodec, drawn: dict[str, Any]) -> None:
    rollout, engine = play(codec, drawn)
    rows = rollout.completions
    assert len(rows) == len(drawn["prompts"]) * drawn["num_samples"] == len(rollout.judgements)
    assert len(engine.requests) == len(engine.answers) == sum(map(len, rows.turns))
    assert rows.group_ids.tolist() == [i // drawn["num_samples"] for i in range(len(rows))]
    for row, turns in enumerate(rows.turns):
        asked = [request for request in engine.requests if request.row == row]
        answers = [answer for answer in engine.answers if answer.row == row]
        length, width = int(rows.token_counts[row]), rows.completion_ids.shape[1]
        ids = rows.completion_ids[row].tolist()
        prompt = rows.prompt_ids[row][rows.prompt_mask[row]].tolist()
        # masks and columns
        assert rows.token_mask[row].tolist() == [t < length for t in range(width)]
        chosen = {t for turn in turns for t in range(turn.start, turn.end)}
        assert rows.completion_mask[row].tolist() == [t in chosen for t in range(width)]
        assert turns[0].start == 0 and turns[-1].end == length
        assert all(turn.start < turn.end for turn in turns)
        assert all(before.end < after.start for before, after in pairwise(turns))
        assert all(i == codec.pad_id for i in ids[length:])
        # requests and answers, each once and in order
        assert len(asked) == len(answers) == len(turns) == len(rollout.turn_judgements[row]) <= drawn["max_turns"]
        for request, answer, turn in zip(asked, answers, turns, strict=True):
            assert list(request.prompt_ids) == prompt + ids[: turn.start]
            assert list(answer.ids) == ids[turn.start : turn.end]
            assert rows.sampler_logprobs[row, turn.start : turn.end].tolist() == list(answer.logprobs)
            assert len(turn.token_byte_spans) == turn.end - turn.start <= request.max_tokens <= drawn["max_tokens"]
            assert turn.stop_reason is answer.reason
        assert (rows.sampler_logprobs[row] == 0).tolist() == [t not in chosen for t in range(width)]
        # limits
        assert len(prompt) + length <= min(drawn["max_row_tokens"] or 1 << 30, drawn["max_positions"])
        frame = 8  # what the template writes around a message
        for before, after in pairwise(turns):
            assert after.start - before.end <= (drawn["max_message_tokens"] or 1 << 30) + frame


@given(plays())
@settings(max_examples=25, deadline=None)
def test_whether_rows_wait_for_each_other_changes_no_row(codec: TextCodec, drawn: dict[str, Any]) -> None:
    """Answers depend on problem, sample and turn, and not on the order in which they come."""
    first, _ = play(codec, drawn)
    second, _ = play(codec, drawn | {"in_rounds": not drawn["in_rounds"]})
    assert first.completions.completion_ids.equal(second.completions.completion_ids)
    assert first.completions.turns == second.completions.turns
