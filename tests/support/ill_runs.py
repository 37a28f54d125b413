"""Causes that make small runs ill: engines that are off, rewards and judges that do harm, tasks that fit neither."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

import torch
from torch import Tensor

from lit_rl.advantages import GroupMean, RowAdvantages
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import InProcess
from lit_rl.engines.engine import Engine, Session
from lit_rl.execution import AssertTests
from lit_rl.execution.interface import Check, Outcome, ProgramRunner, Verdict
from lit_rl.losses import Clipped, Tokens
from lit_rl.models.adapters import using_adapter
from lit_rl.models.causal_lm import CausalLM
from lit_rl.rewards import TestsReward
from lit_rl.rewards.term import TermScore
from lit_rl.types import Completions, Generation, Judgement, Problem, Request, Sampling, StopReason
from support.small_runs import EvenBytes, Scored

# -- rewards -------------------------------------------------------------------------------------------------


class Constant(Scored):
    """The same for all rows."""

    def __init__(self) -> None:
        super().__init__(0.0, "constant")


class Falling(EvenBytes):
    """A tenth of itself after some rollouts."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after, self.calls = after, 0

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        self.calls += 1
        scale = 1.0 if self.calls <= self.after else 0.1
        return [TermScore(scale * (one.value or 0.0)) for one in super().score(completions, judgements)]


class AsCompleted(TestsReward):
    """Returns its values in the order in which programs happened to end."""

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        found = super().score(completions, judgements)
        Random(len(found)).shuffle(found)
        return [TermScore(one.value) for one in found]  # a span of another row's text would end the run


class OncePerProblem(TestsReward):
    """Keeps the value of a problem's first row for all others."""

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        found: dict[str, TermScore] = {}
        scores = zip(completions.problems, super().score(completions, judgements), strict=True)
        return [TermScore(found.setdefault(problem.task_id, one).value) for problem, one in scores]


class FlippedLoss(Clipped):
    """Lost its minus sign."""

    def token_losses(self, tokens: Tokens) -> Tensor:
        return -super().token_losses(tokens)


class FlippedAdvantages(GroupMean):
    """The group's mean minus the reward."""

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        return -super().advantages(scores, valid, group_ids)


class MixesGroups(RowAdvantages):
    """Takes rows for sorted by sample, eight of a problem, which are sorted by problem."""

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        table = scores.view(8, -1)
        return (table - table.mean(0)).flatten()


class NoAdvantages(RowAdvantages):
    """Loses all advantages in a division of integers."""

    def advantages(self, scores: Tensor, valid: Tensor, group_ids: Tensor) -> Tensor:
        return (scores.long() // 2).to(scores)


# -- tasks and judges ----------------------------------------------------------------------------------------


class Programs(TaskDataModule):
    """Prompts whose completions are programs."""

    name = "programs"

    def __init__(self, stops: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(**options)
        self.stops = stops

    def load_problems(self, split: Split) -> list[Problem]:
        check = AssertTests("assert True")
        return [Problem(f"{split}{i}", "p" * (1 + i % 5), check, stop_strings=self.stops) for i in range(12)]


LETTERS = tuple(map(chr, range(128)))


class AskedOtherwise(Programs):
    """Cuts what is written for validation at its first letter."""

    def load_problems(self, split: Split) -> list[Problem]:
        problems = super().load_problems(split)
        return problems if split == "train" else [replace(one, stop_strings=LETTERS) for one in problems]


class Judged(ProgramRunner):
    """Runs nothing: says of each program what it is told."""

    def __init__(self, verdict: Verdict = Verdict.PASSED, share: float = 1.0) -> None:
        self.verdict, self.share = verdict, share
        self.calls = 0.0

    def judge(self, program: str) -> Verdict:
        before, self.calls = self.calls, self.calls + self.share
        return self.verdict if int(before) < int(self.calls) else Verdict.WRONG_ANSWER

    def submit(self, program: str, check: Check) -> Future[Outcome]:
        done: Future[Outcome] = Future()
        done.set_result(Outcome(self.judge(program)))
        return done

    def close(self) -> None:
        pass


# -- engines -------------------------------------------------------------------------------------------------


class Around(Engine):
    """Another engine's sessions, their answers changed on the way."""

    in_rounds = True
    shares_weights = True

    def __init__(self) -> None:
        self.inner = InProcess()

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        with self.inner.session(policy, sampling) as session:
            yield _Changed(session, self)

    def change(self, generation: Generation) -> Generation:
        return generation

    def change_all(self, done: list[Generation]) -> list[Generation]:
        return done

    def ask(self, requests: Sequence[Request]) -> Sequence[Request]:
        return requests


class _Changed(Session):
    def __init__(self, inner: Session, engine: Around) -> None:
        self.inner, self.engine = inner, engine

    def submit(self, requests: Sequence[Request]) -> None:
        self.inner.submit(self.engine.ask(requests))

    def step(self) -> list[Generation]:
        return self.engine.change_all([self.engine.change(generation) for generation in self.inner.step()])

    @property
    def num_unfinished(self) -> int:
        return self.inner.num_unfinished


class Shifted(Around):
    """Reports log-probabilities that are those of no weights."""

    def change(self, generation: Generation) -> Generation:
        return replace(generation, logprobs=tuple(p - 0.2 for p in generation.logprobs))


class Reports(Around):
    """Reports something else than the log-probabilities of its tokens."""

    def __init__(self, change: Callable[[tuple[float, ...]], Sequence[float]]) -> None:
        super().__init__()
        self.reported = change

    def change(self, generation: Generation) -> Generation:
        return replace(generation, logprobs=tuple(self.reported(generation.logprobs)))


class Permuted(Around):
    """Gives the requests of a session each other's answers, or each other's log-probabilities."""

    def __init__(self, whole: bool) -> None:
        super().__init__()
        self.whole = whole

    def change_all(self, done: list[Generation]) -> list[Generation]:
        half = len(done) // 2
        pairs = zip(done, done[half:] + done[:half], strict=True)
        if self.whole:
            return [replace(other, row=one.row) for one, other in pairs]
        return [replace(one, logprobs=other.logprobs) for one, other in pairs]


class Says(Around):
    """Answers everything with a text, in some rollouts."""

    def __init__(self, text: str, rollouts: int) -> None:
        super().__init__()
        self.ids = tuple(byte_ids(text))
        self.rollouts, self.sessions = rollouts, 0

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        self.sessions += 1
        with super().session(policy, sampling) as session:
            yield session

    def change(self, generation: Generation) -> Generation:
        if self.sessions > self.rollouts:
            return generation
        return replace(generation, ids=self.ids, logprobs=(-1.0,) * len(self.ids), reason=StopReason.LENGTH)


class NeverRenewed(Engine):
    """Keeps the weights that it had at its first session, and may claim to have the policy's."""

    in_rounds = True

    def __init__(self, claims: bool = False) -> None:
        self.inner, self.claims = InProcess(), claims
        self.copy: Any = None

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        self.copy = copy.deepcopy(policy) if self.copy is None else self.copy
        self.copy.version = policy.version if self.claims else self.copy.version
        with self.inner.session(self.copy, sampling) as session:
            yield session


class OtherSampling(Around):
    """Samples with a temperature or a filter that nobody asked for."""

    def __init__(self, changes: dict[str, Any]) -> None:
        super().__init__()
        self.changes = changes

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        with super().session(policy, replace(sampling, **self.changes)) as session:
            yield session


class OtherDtype(Around):
    """Samples with a copy of the weights in another precision."""

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        with torch.autocast("cpu", dtype=torch.bfloat16), super().session(policy, sampling) as session:
            yield session


class WithoutAdapters(Around):
    """Samples with the base alone."""

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        with using_adapter(policy.model, None), super().session(policy, sampling) as session:
            yield session


class Dropping(Around):
    """Samples in training mode."""

    @contextmanager
    def session(self, policy: Any, sampling: Sampling) -> Iterator[Session]:
        with super().session(policy, sampling) as session:
            policy.train()
            yield session


class Padding(Around):
    """Pads short prompts to the longest on the left, and takes the pads for tokens."""

    def ask(self, requests: Sequence[Request]) -> Sequence[Request]:
        longest = max(len(request.prompt_ids) for request in requests)
        pads = [(0,) * (longest - len(request.prompt_ids)) for request in requests]
        return [
            replace(request, prompt_ids=(*pad, *request.prompt_ids))
            for request, pad in zip(requests, pads, strict=True)
        ]


# -- policies ------------------------------------------------------------------------------------------------


class ReadsPads(CausalLM):
    """Takes pads for tokens when it trains."""

    def forward(self, completions: Completions, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        everywhere = torch.ones_like(completions.prompt_mask)
        return super().forward(replace(completions, prompt_mask=everywhere), *args, **kwargs)


class AlwaysDrops(CausalLM):
    """Drops something when it trains, in eval mode too."""

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
        logprobs, entropy = super().forward(*args, **kwargs)
        return torch.nn.functional.dropout(logprobs, 0.3, training=True), entropy


def byte_ids(text: str) -> list[int]:
    """Ids of a text under the tests' tokenizer, which counts printable bytes first."""
    from tokenizers import pre_tokenizers

    alphabet = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    (encoded,) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return [alphabet[letter] for letter in encoded[0]]
