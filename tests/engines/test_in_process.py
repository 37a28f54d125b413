"""Sessions of the trainer's own process: samples depend on the request alone, not on its timing or its company."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from models.test_weight_export import sharded
from support.families import language_model
from support.ranks import on_ranks
from support.sampling import KEY

from lit_rl.data import Corridor, CorridorPolicy, Sorting, SortingPolicy
from lit_rl.engines import Engine, Generation, InProcess, Request
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM, Policy
from lit_rl.models.sampling import make_sampling_requests
from lit_rl.types import Problem, Sampling, StopReason

FAMILIES = ("qwen2", "mamba2", "granitemoehybrid")
"""Attention, recurrent states, a hybrid of the two."""

SAMPLING = Sampling(num_samples=3, temperature=0.7, max_tokens=12)


class Passes:
    """Notes the shape of what each forward pass of a model reads."""

    def __init__(self, policy: CausalLM) -> None:
        self.shapes: list[tuple[int, ...]] = []
        policy.make_batch_decoder()  # tries how the model can decode
        policy.model.register_forward_pre_hook(self.note, with_kwargs=True)

    def note(self, module: Any, args: Any, kwargs: dict[str, torch.Tensor]) -> None:
        self.shapes.append(tuple(kwargs["input_ids"].shape))


def answers(
    policy: Policy,
    requests: Sequence[Request],
    sampling: Sampling = SAMPLING,
    engine: Engine | None = None,
    late: Iterable[Sequence[Request]] = (),
) -> dict[int, Generation]:
    """Generations by row; ``late`` requests come one lot a step after the first five steps."""
    coming = list(late)
    done: dict[int, Generation] = {}
    with (engine or InProcess()).session(policy, sampling) as session:
        session.submit(requests)
        steps = 0
        while session.num_unfinished or coming:
            for generation in session.step():
                assert generation.row not in done
                done[generation.row] = generation
            steps += 1
            if steps >= 5 and coming:
                session.submit(coming.pop(0))
    return done


def assert_same(got: dict[int, Generation], expected: dict[int, Generation]) -> None:
    """Ids and ends are the same; log-probabilities too, up to what other company in a matrix product rounds."""
    assert got.keys() == expected.keys()
    for row, one in expected.items():
        assert (got[row].ids, got[row].reason) == (one.ids, one.reason)
        assert got[row].logprobs == pytest.approx(one.logprobs, abs=5e-4)


@pytest.fixture(scope="module", params=[*FAMILIES, "sorting", "corridor"])
def policy_and_requests(request: pytest.FixtureRequest, byte_tokenizer: str) -> tuple[Policy, list[Request]]:
    if request.param in FAMILIES:
        policy: Policy = language_model(request.param, byte_tokenizer)
        texts = ("def f(x):", "a", "hello there")
        problems = [Problem(text, text, TokenTarget(), stop_strings=("a", "zz")) for text in texts]
    elif request.param == "sorting":
        policy, problems = SortingPolicy(init_seed=1), Sorting().problems("train")
        policy.load()
    else:
        policy, problems = CorridorPolicy(num_cells=4), Corridor(num_cells=4).problems("train")
        policy.load()
    return policy, make_sampling_requests(policy.codec, problems, SAMPLING, KEY)


def test_a_rows_samples_depend_on_its_request_alone(policy_and_requests: tuple[Policy, list[Request]]) -> None:
    """Item 54: not on a limit of rows, on order, on other requests, or on the time at which it comes."""
    policy, requests = policy_and_requests
    expected = answers(policy, requests)
    assert len({one.ids for one in expected.values()}) > len(expected) / 2
    shuffled = random.Random(0).sample(requests, len(requests))
    for engine in (InProcess(max_rows=1), InProcess(max_rows=4)):
        assert_same(answers(policy, shuffled, engine=engine), expected)
    assert_same(answers(policy, shuffled), expected)
    for some in ([requests[-1]], requests[1::2]):
        assert_same(answers(policy, some), {one.row: expected[one.row] for one in some})
    late = [requests[2:3], requests[3:6], requests[6:]]
    assert_same(answers(policy, requests[:2], late=late), expected)
    assert_same(answers(policy, requests[:2], late=late, engine=InProcess(max_rows=3)), expected)


def test_equal_prompts_are_read_once_wherever_they_stand(byte_tokenizer: str) -> None:
    policy = language_model("qwen2", byte_tokenizer)
    long, short = (1, 2, 3, 4, 5), (6, 7)
    prompts = [long, short, long, tuple(range(1, 6)), short, long]
    requests = [Request(i, prompt, stream=i, max_tokens=4) for i, prompt in enumerate(prompts)]
    apart = {one.row: answers(policy, [one])[one.row] for one in requests}
    passes = Passes(policy)
    done = answers(policy, requests)
    longest = max(len(one.ids) for one in done.values())
    assert passes.shapes[0] == (2, 5)
    assert len(passes.shapes) == longest and all(shape[1] == 1 for shape in passes.shapes[1:])
    assert_same(done, apart)


@pytest.mark.parametrize("max_rows", [1, 5, 8])
def test_at_most_max_rows_are_sampled_and_rows_that_ended_make_room(byte_tokenizer: str, max_rows: int) -> None:
    policy = language_model("qwen2", byte_tokenizer)
    policy.codec.eos_ids = frozenset()
    lengths = [3, 17, 4, 9, 2, 12, 5, 5, 8, 1, 16, 7]
    requests = [Request(i, (1 + i, 2), i, max_tokens=length) for i, length in enumerate(lengths)]
    passes = Passes(policy)
    running: list[int] = []
    with InProcess(max_rows).session(policy, Sampling()) as session:
        session.submit(requests)
        done = []
        while session.num_unfinished:
            before = len(passes.shapes)
            done += session.step()
            running.append(sum(rows for rows, _ in passes.shapes[before:]))
    assert max(running) <= max_rows
    assert {one.row: len(one.ids) for one in done} == dict(enumerate(lengths))
    read = [rows for rows, width in passes.shapes if width == 2]
    assert sum(read) == len(requests)
    assert max_rows < 8 or 1 not in read
    assert sum(lengths) / len(running) > 0.5 * max_rows


def test_limits_and_stop_strings_are_those_of_each_request(byte_tokenizer: str) -> None:
    policy = language_model("qwen2", byte_tokenizer)
    policy.codec.eos_ids = frozenset()
    plain = Request(0, (100, 101), stream=5, max_tokens=30)
    whole = answers(policy, [plain], Sampling())[0]
    texts = [policy.codec.decode(whole.ids[:n], StopReason.LENGTH, ())[0] for n in range(31)]
    stop = next(pair for i in range(5, 29) if (pair := texts[30][i : i + 2]).isascii() and pair.isprintable())
    first = next(n for n, text in enumerate(texts) if stop in text)
    requests = [plain, replace(plain, row=1, max_tokens=4), replace(plain, row=2, stop_strings=("\0never", stop))]
    done = answers(policy, requests, Sampling())
    assert [(len(done[row].ids), done[row].reason) for row in range(3)] == [
        (30, StopReason.LENGTH),
        (4, StopReason.LENGTH),
        (first, StopReason.STOP_STRING),
    ]
    assert all(done[row].ids == whole.ids[: len(done[row].ids)] for row in range(3))


def test_a_session_that_fails_leaves_the_policy_as_it_was(byte_tokenizer: str) -> None:
    policy = language_model("qwen2", byte_tokenizer).train()
    policy.model.lm_head.eval()
    modes = [part.training for part in policy.modules()]
    with pytest.raises(InterruptedError), InProcess().session(policy, SAMPLING) as session:
        session.submit([Request(0, (1,), 0, max_tokens=9)])
        session.step()
        assert not policy.training and not torch.is_grad_enabled() and session.num_unfinished == 1
        raise InterruptedError
    assert [part.training for part in policy.modules()] == modes and torch.is_grad_enabled()
    assert session.num_unfinished == 0


def test_a_session_that_fails_on_sharded_weights_spreads_them_again(byte_tokenizer: str) -> None:
    """One rank has two requests, the other none; both leave by an exception and sample again."""

    def on_two() -> Any:
        policy = sharded(byte_tokenizer)
        requests = [Request(i, (1, 2), i, max_tokens=3 + i) for i in range(2)]
        mine = requests if torch.distributed.get_rank() == 0 else []
        with pytest.raises(InterruptedError), InProcess().session(policy, Sampling()) as session:
            session.submit(mine)
            session.step()
            raise InterruptedError
        own = [p for n, p in policy.named_parameters() if "frozen_reference" not in n]
        shares = sum(p.to_local().numel() for p in own), sum(p.numel() for p in own)
        return shares, {row: one.ids for row, one in answers(policy, mine, Sampling()).items()}

    ((held, whole), done), ((held_too, _), none) = on_ranks(on_two)
    assert [len(ids) for ids in done.values()] == [3, 4] and none == {}
    assert held + held_too == whole
