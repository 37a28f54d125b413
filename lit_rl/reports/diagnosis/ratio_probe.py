"""Causes of a gap between sampler and trainer: each known one is tried on a few fresh rows.

Letters: n fresh rows, T their tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from math import inf, isfinite, log
from statistics import mean
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lit_rl.models.adapters import has_adapter, using_adapter
from lit_rl.models.policy import Policy
from lit_rl.models.sampling import StreamKey, keep_likely
from lit_rl.rollout import Rollout
from lit_rl.training.ranks import evaluating, max_over_ranks, unsharded, world_size
from lit_rl.types import Completions, Generation, Problem, Request, Sampling

_NUM_ROWS, _MOST_TOKENS, _NUM_PASSES = 4, 16, 6
_EXPLAINED = 0.5
"""A change explains the gap if it leaves less than this share of it."""
_RIGHT = 0.1
"""It is the whole cause if it leaves less than this share."""
_ROUNDING = 0.02
"""Changes are as good as each other if what they leave differs by less than this share of it."""

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": None}


class Tried(NamedTuple):
    """One change, and what it left of the distance between sampler and trainer.

    Args:
        change: what was changed, in a few words.
        gap: what is left, nats per token.
        meaning: what it means if this is little, and what to do then.
    """

    change: str
    gap: float
    meaning: str = ""


@dataclass
class Findings:
    """Changes that were tried, and the one that explains the gap.

    Args:
        cause: in one line, with what to do.
        tried: the rows as they are first, then each change.
        is_known: whether a change explains the whole gap.
    """

    cause: str = ""
    tried: list[Tried] = field(default_factory=list)
    is_known: bool = False

    def table(self) -> str:
        """One line for each change under which the sampled tokens are possible at all."""
        return "\n".join(f"{one.gap:8.4f} nats a token  {one.change}" for one in self.tried if isfinite(one.gap))


def probe_ratio(module: Any, rollout: Rollout, at_most: float) -> Findings:
    """Sample a few rows anew and change one thing after the other until sampler and trainer agree.

    The random numbers of the run are not touched. All ranks call it together; what it says is about the first.

    Args:
        module: with policy, engine and sampling.
        rollout: the last, whose problems are sampled again.
        at_most: distance that rounding explains (nats per token).
    """
    if max_over_ranks(int(not rollout.completions.problems), module.device):
        return Findings("a rank had no rows, so the cause was not looked for")
    policy = module.policy
    devices = [policy.device] if policy.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.no_grad(), evaluating(module):
        try:
            return _Probe(module, rollout, at_most).findings()
        except Exception as error:  # a probe may fail where a run does not, and must not end it
            return Findings(f"the probe that looks for the cause failed ({type(error).__name__}: {error})")


class _Probe:
    """Fresh rows with the sampler's log-probabilities, and the trainer's under each change."""

    def __init__(self, module: Any, rollout: Rollout, at_most: float) -> None:
        self.module, self.policy, self.at_most = module, module.policy, at_most
        self.temperature: float = module.sampling.temperature
        by_name = {problem.task_id: problem for problem in rollout.completions.problems}
        self.problems: list[Problem] = list(by_name.values())[:_NUM_ROWS]
        self.generations = self.sample(range(len(self.problems)))
        self.completions = self.completions_of(self.generations)

    # -- rows ------------------------------------------------------------------------------------------------

    def sample(self, numbers: Sequence[int]) -> list[Generation]:
        """Ask the engine for some of the rows, all in one session; the same rows each time."""
        key = StreamKey(self.module.seed, "probe", self.module.clock.count)
        requests = [
            Request(
                row=number,
                prompt_ids=tuple(self.policy.codec.encode(self.problems[number])),
                stream=key.seed_of(self.problems[number].task_id, 0),
                max_tokens=min(_MOST_TOKENS, self.module.sampling.max_tokens),
                stop_strings=self.problems[number].stop_strings,
            )
            for number in numbers
        ]
        done: list[Generation] = []
        with self.module.sampler.engine.session(self.policy, self.module.sampling) as session:
            session.submit(requests)
            while session.num_unfinished:
                done += session.step()
        return sorted(done, key=lambda generation: generation.row)

    def completions_of(self, generations: Sequence[Generation]) -> Completions:
        """The rows as training gets them, padded together."""
        problems = [self.problems[generation.row] for generation in generations]
        prompts = self.policy.codec.prompts(problems, self.policy.device)
        done: Completions = self.policy.codec.completions(prompts, generations, 1)
        return done

    def score(self, completions: Completions | None = None) -> Tensor:
        """[n, T] nats of the training forward."""
        logprobs: Tensor = self.policy.logprobs(completions or self.completions, self.temperature)
        return logprobs

    def gap(self, logprobs: Tensor, completions: Completions | None = None) -> float:
        """Mean distance between given log-probabilities and the sampler's, nats per token."""
        rows = completions or self.completions
        distance = (logprobs - rows.sampler_logprobs.to(logprobs))[rows.completion_mask].abs()
        return float(distance.mean())

    # -- the search ------------------------------------------------------------------------------------------

    def findings(self) -> Findings:
        """Try every change; name the one that leaves the smallest gap."""
        present = self.score()
        before = self.gap(present)
        if not isfinite(before):
            found = next(misreported(self.policy, self.completions, self.temperature))
            return Findings(found.meaning, [Tried("as it is", before), found], is_known=True)
        tried = [Tried("as it is", before), *self._each(present)]
        stale = [g.weights_version for g in self.generations if g.weights_version != self.policy.version]
        # The first change that leaves as little as any, up to rounding: the more special ones come later.
        least = min(one.gap for one in tried[1:])
        best = next(one for one in tried[1:] if one.gap <= least + _ROUNDING * before)
        known = True
        if before < self.at_most:
            cause = (
                f"rows that were sampled anew agree ({before:.2g} nats), so the engine's weights were old or its rows "
                "were changed on their way"
            )
        elif stale:
            cause = (
                f"stale weights: the engine sampled with version {min(stale)} of the weights and the policy has "
                f"{self.policy.version}; check whether new weights reach it (mark_stale, then the next session)"
            )
        elif best.gap <= _EXPLAINED * before:
            known = best.gap <= _RIGHT * before
            doubt = "" if known else "in part, likely "
            cause = f"{doubt}{best.meaning} ({before:.2g} nats without that, {best.gap:.2g} with it)"
        else:
            known = False
            cause = (
                f"none of the {len(tried) - 1} changes that were tried explains it (numbers shifted or of other rows, "
                "dropout, temperature, positions, dtype, adapters, filters); that leaves other weights or another "
                "tokenizer in the engine"
            )
        return Findings(cause, tried, known)

    def _each(self, present: Tensor) -> Iterator[Tried]:
        if world_size() == 1:
            yield from misreported(self.policy, self.completions, self.temperature)
        yield from self._dropout(present)
        yield from self._positions()
        model = getattr(self.policy, "model", None)
        if model is not None and has_adapter(model):
            with using_adapter(model, None):
                gap = self.gap(self.score())
            said = "adapters: the sampler's numbers are those of the base without LoRA; load the adapter there"
            yield Tried("no adapters in the trainer", gap, said)
        for name, dtype in _DTYPES.items():
            with torch.autocast(self.policy.device.type, dtype=dtype, enabled=dtype is not None):
                gap = self.gap(self.score())
            said = f"dtype: the sampler's numbers are those of {name}; give engine and trainer the same precision"
            yield Tried(f"the trainer computes in {name}", gap, said)
        # Temperature and filters, from the logits of the policy's own decoding.
        sampled = list(chain(*(generation.logprobs for generation in self.generations)))
        for recipe, rows in recompute(self.policy, self.generations, self.completions, self.temperature).items():
            pairs = zip(chain(*rows), sampled, strict=True)
            gap = mean([abs(recomputed - reported) for recomputed, reported in pairs])
            yield Tried(f"the policy's own decoding, {recipe}", gap, meaning(recipe, self.temperature))

    def _dropout(self, present: Tensor) -> Iterator[Tried]:
        """Yield tests of whether one of the two is random: then its numbers tell nothing else."""
        mask, before = self.completions.completion_mask, self.gap(present)
        # Several passes: with few rows, the parts that two of them drop are alike now and then.
        passes = [present, *(self.score() for _ in range(_NUM_PASSES - 1))]
        random = mean([float((one - other)[mask].abs().mean()) for one, other in pairwise(passes)])
        usual = mean([self.gap(one) for one in passes])
        parts = [one for one in self.policy.named_modules() if isinstance(one[1], nn.modules.dropout._DropoutNd)]
        active = [name for name, part in parts if part.p > 0 and part.training][:3]
        where = ", ".join(active) or "none of torch's modules, so look for functional.dropout"
        yield Tried(
            "no dropout in the training forward",
            0.0 if random > _EXPLAINED * usual else before,
            f"dropout in the training forward: two passes over the same rows differ; active: {where}",
        )
        again = {generation.row: generation for generation in self.sample(range(len(self.problems)))}
        random = mean([unlike(one, again[one.row], before) for one in self.generations])
        yield Tried(
            "no dropout in the sampler",
            0.0 if random > _EXPLAINED * before else before,
            "dropout in the sampler: the same request twice gives different numbers; put its model in eval mode",
        )

    def _positions(self) -> Iterator[Tried]:
        rows = [self.completions.select([row]).trim() for row in range(len(self.completions))]
        yield Tried(
            "the trainer reads each row alone",
            mean([self.gap(self.score(row), row) for row in rows]),
            "positions: rows agree when the trainer reads each alone, so its forward pass depends on padding; check "
            "attention mask and position ids",
        )
        rows = [self.completions_of(self.sample([number])) for number in range(len(self.problems))]
        yield Tried(
            "the engine samples each row alone",
            mean([self.gap(self.score(row), row) for row in rows]),
            "positions: rows agree when the engine samples each alone, so its numbers depend on the other rows; check "
            "its padding and position ids",
        )


def meaning(recipe: Recipe, temperature: float) -> str:
    """Explain why the sampler's numbers would be those of a recipe."""
    if recipe.top_k or recipe.top_p < 1:
        return (
            f"sampler filters: its numbers are those of {recipe}, which the run did not ask for; look at the "
            "engine's defaults, such as the model's generation_config.json"
        )
    if recipe.temperature != temperature:
        return (
            f"temperature: the sampler's numbers are those of {recipe}, and training takes {temperature:g}; set both "
            "alike, or have the engine report the log-probabilities that it sampled from"
        )
    return (
        "positions: the sampler agrees with the policy's own decoding, and the training forward does not; check "
        "attention mask, position ids and caches of this model"
    )


def unlike(one: Generation, other: Generation, otherwise: float) -> float:
    """Mean distance between two answers to the same request, up to where their ids part.

    Args:
        one: of the answers.
        other: of the same request.
        otherwise: nats to return where already the first ids differ.
    """
    pairs = zip(one.ids, other.ids, strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one.ids), len(other.ids)))
    distances = [abs(a - b) for a, b in zip(one.logprobs[:same], other.logprobs[:same], strict=True)]
    return mean(distances) if distances else otherwise


# -- other temperatures and filters -----------------------------------------------------------------------------


class Recipe(NamedTuple):
    """Recipe that turns logits into probabilities."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __str__(self) -> str:
        filters = [f"top_k {self.top_k}"] * bool(self.top_k) + [f"top_p {self.top_p:g}"] * (self.top_p < 1)
        return " and ".join([f"temperature {self.temperature:g}", *filters])


TEMPERATURES = tuple(number / 10 for number in range(1, 21))
FILTERS = (
    *((k, 1.0) for k in (1, 2, 5, 10, 20, 40, 50, 64, 100)),
    *((0, p) for p in (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)),
    # defaults of models and servers
    *((k, p) for k in (20, 40, 50) for p in (0.8, 0.9, 0.95)),
)
"""Filters to try at the run's temperature: single ones, and both kinds together."""


def recompute(
    policy: Policy, generations: Sequence[Generation], completions: Completions, temperature: float
) -> dict[Recipe, list[list[float]]]:
    """Log-probabilities of each row's tokens under each recipe.

    Args:
        policy: whose decoding gives the logits.
        generations: n rows.
        completions: the same rows, for their prompts.
        temperature: the run's.
    """
    prompts = [
        tuple(ids[mask].tolist()) for ids, mask in zip(completions.prompt_ids, completions.prompt_mask, strict=True)
    ]
    recipes = dict.fromkeys(Recipe(one) for one in (temperature, *TEMPERATURES))  # the run's own first
    recipes |= dict.fromkeys(Recipe(temperature, k, p) for k, p in FILTERS)
    found: dict[Recipe, list[list[float]]] = {recipe: [[] for _ in generations] for recipe in recipes}
    longest = max(len(generation.ids) for generation in generations)
    distinct = list(dict.fromkeys(prompts))
    copies = torch.tensor([distinct.index(prompt) for prompt in prompts])
    with unsharded(policy):
        decoding = policy.decoding()
        logits = decoding.read(distinct, copies, longest)
        for step in range(longest):
            tokens = torch.tensor([one.ids[min(step, len(one.ids) - 1)] for one in generations], device=logits.device)
            for recipe, rows in found.items():
                # Minus infinity where the recipe filters the token out.
                filters = Sampling(temperature=recipe.temperature, top_k=recipe.top_k, top_p=recipe.top_p)
                logprobs = keep_likely(logits.float() / recipe.temperature, filters).log_softmax(-1)
                values = logprobs.gather(-1, tokens[:, None])[:, 0].tolist()
                for row, generation, value in zip(rows, generations, values, strict=True):
                    if step < len(generation.ids):
                        row.append(value)
            if step + 1 < longest:
                logits = decoding.append(tokens)
    return found


_MOST_SHIFTS, _TELLING = 8, 3
"""Other rows that are tried for one, and tokens of a row that can tell it from another."""


def misreported(policy: Policy, some: Completions, temperature: float) -> Iterator[Tried]:
    """Try ways in which an engine reports something else than the log-probability of its token.

    Args:
        policy: in eval mode.
        some: n rows.
        temperature: of the sampling.
    """
    own, mask = policy.logprobs(some, temperature), some.completion_mask
    said = some.sampler_logprobs.to(own)
    before, reported = _distance(own, some), said[mask]
    if not own[mask].isfinite().all():
        todo = "its weights are broken, not the engine: start again with a lower learning rate"
        yield Tried("finite numbers of the trainer", 0.0, f"the policy's own log-probabilities are not finite: {todo}")
    if not isfinite(before):
        return
    if len(reported) > 1 and float(reported.std()) == 0:
        value = float(reported[0])
        todo = "have it return the log-probability of each sampled token"
        yield Tried("no constant", 0.0, f"constant: the engine reports {value:.3g} for every token: {todo}")
        return
    for unit, values in (
        ("logarithms to base 2", own / log(2)),
        ("logarithms to base 10", own / log(10)),
    ):
        yield Tried(unit, _distance(values, some), f"the engine reports {unit}: have it report natural logarithms")
    for change, later, earlier in (("the token after", own, said), ("the token before", said, own)):
        both = mask[:, 1:] & mask[:, :-1]
        gap = float((later[:, 1:] - earlier[:, :-1])[both].abs().mean()) if both.any() else before
        meaning = f"shifted by one: the engine reports for each token the log-probability of {change}"
        yield Tried(f"numbers of {change}", gap, f"{meaning}; look at where its list begins")
    yield from _of_other_rows(policy, some, temperature, own)


def _of_other_rows(policy: Policy, some: Completions, temperature: float, own: Tensor) -> Iterator[Tried]:
    """Try the numbers, then the prompts, of the other rows, up to a few."""
    mask, said = some.completion_mask, some.sampler_logprobs.to(own)

    def apart(values: Tensor, counted: Tensor) -> Tensor:
        """[n] nats per token; infinite where too few tokens tell one row from another."""
        number = counted.sum(-1)
        distances = ((values - said).abs() * counted).sum(-1) / number.clamp(min=1)
        return distances.masked_fill(number < _TELLING, inf)

    nearest = {"log-probabilities": apart(own, mask), "answers": apart(own, mask)}
    for shift in range(1, min(len(some), _MOST_SHIFTS)):
        numbers = apart(own.roll(shift, 0), mask & mask.roll(shift, 0))
        names = ("prompt_ids", "prompt_mask", "group_ids")
        other = replace(some, **{name: getattr(some, name).roll(shift, 0) for name in names})
        answers = apart(policy.logprobs(other, temperature), mask)
        nearest = {
            "log-probabilities": torch.minimum(nearest["log-probabilities"], numbers),
            "answers": torch.minimum(nearest["answers"], answers),
        }
    for name, distances in nearest.items():
        meaning = f"rows permuted: the engine's {name} are those of other requests; look at where it sets their row"
        known = distances[distances.isfinite()]
        yield Tried(f"{name} of other rows", float(known.mean()) if len(known) else inf, meaning)


def _distance(logprobs: Tensor, some: Completions) -> float:
    """Mean distance from the sampler's numbers, nats per token."""
    return float((logprobs - some.sampler_logprobs.to(logprobs))[some.completion_mask].abs().mean())
