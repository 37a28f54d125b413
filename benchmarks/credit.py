r"""Measure credit: signal and noise of the policy gradient under each rule, from identical rows, at equal tokens.

    python benchmarks/credit.py robots                     # programs of two errands, a policy of 650,000 weights
    python benchmarks/credit.py mbpp --model FOLDER        # SmolLM2-135M-Instruct on MBPP's training problems
    python benchmarks/credit.py                            # the results so far

A *group* is K rows of one problem; each problem gives two groups, drawn independently. A rule turns a group into the
estimate g, the mean over its rows of sum_t A_t grad log pi(token t). With problems i and groups a of each:

    signal     mean of g_ia . g_jb over i != j: |E g|^2 without bias, since two problems share no sample
    noise      mean of |g_ia|^2 - signal: E|g - E g|^2 for one group
    S/N        signal / noise; the mean of n groups has n times as much
    equal      S/N per sampled token, over that of ``terminal``: a rule that samples m times as many tokens per group
               gets 1/m as many groups, of other problems. Continuations count, the critic's own rows do not
    by noise   the same from the noise alone, for rules without bias: they share the signal of ``terminal``

Intervals are percentiles over 2000 resamples of the problems, with the same resamples for all rules; a problem is never
paired with itself, however often it was drawn.

``terminal``, ``spans`` and ``tokens`` are those of ``assign_credit``: reward-to-go minus the mean of the group's other
rows. The critic is a linear value head on the policy's states, fitted by ridge regression to the rewards of the first
pass; A is GAE of the terminal reward. ``at the prompt`` takes the first value as the baseline of all tokens: no credit,
but a baseline without the other rows' noise. ``prefixes``: k continuations from the end of every line are run (VinePPO,
arXiv 2410.01679). A line's A is the value at its end minus the value at its beginning; the first value is the mean
of the other rows, and the last value is the row's reward. Equal prefixes of a group share their continuations.

The problems had, in a first pass of four rows each, rows that passed and rows that did not. ``WORKS`` was settled by
pass rates and speed, before any gradient; ``at the prompt`` was added when 21 of the robots' problems were measured.
Each measured problem is a file; the same command goes on after the last one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from on_gpu.measuring import as_markdown
from public import ASKED
from reproductions import places
from torch import Tensor

from lit_rl import CausalLM, LoRA, Sampling, Sandbox, TestsReward, evaluate
from lit_rl.data import MBPP, SimulatorReward
from lit_rl.engines.in_process import InProcess
from lit_rl.math.advantages import GAE
from lit_rl.math.returns import reward_to_go
from lit_rl.models.sampling import RandomKey
from lit_rl.rewards import SyntaxReward
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.token_credit import assign_credit
from lit_rl.rollout.records import Judge, find_program
from lit_rl.types import Completions, Judgement, Problem, Request

PLACED, LAMBDAS, CONTINUED = ("terminal", "spans", "tokens"), (1.0, 0.95), (1, 4)
RULES = (*PLACED, "critic, at the prompt", *(f"critic, λ {each:g}" for each in LAMBDAS))
RULES = (*RULES, *(f"prefixes, k = {k}" for k in CONTINUED))
BIASED = ("tokens", "critic, λ 0.95")
FIRST, K, RESAMPLES = 4, max(CONTINUED), 2000
Loaded = tuple[CausalLM, list[Problem]]


@dataclass(frozen=True)
class Work:
    """A task: problems of the first pass, most problems measured, rows per group, part of the weights' names."""

    candidates: int
    measured: int
    rows: int
    sampling: Sampling
    rewards: Composite
    weights: str
    load: Callable[[argparse.Namespace, Path], Loaded]


def load_robots(_: argparse.Namespace, folder: Path) -> Loaded:
    """Load the policy of docs/experiments.md's longer programs after imitation, and problems of two errands."""
    if not (folder / "start").exists():
        places.prepare(folder)
    return CausalLM(str(folder / "start")), places.task(0).problems("train")


def load_mbpp(given: argparse.Namespace, _: Path) -> Loaded:
    """Load a model with adapters in its last ten layers, and problems, short references first; a row is a function."""
    asked = ASKED | {"stop_strings": [*ASKED["stop_strings"], "\ndef ", "\nassert", "\n#"]}
    problems = MBPP(str(given.data / "mbpp" / "mbpp.jsonl.gz"), **asked).problems("train")
    lora = LoRA(4, 8.0, target_modules=r".*\.layers\.2\d\..*_proj")
    policy = CausalLM(given.model, dtype="bfloat16", lora=lora, init_seed=0)
    return policy, sorted(problems, key=lambda one: len(str(one.reference)))


OF_MBPP = (Sampling(max_tokens=64, temperature=0.6), Composite([TestsReward(0.9), SyntaxReward(0.1)]))
WORKS = {
    "robots": Work(192, 48, 8, Sampling(max_tokens=128), Composite([SimulatorReward()]), "", load_robots),
    "mbpp": Work(64, 24, 16, *OF_MBPP, "lora_B", load_mbpp),
}

# -- rules: from rewards to advantages ---------------------------------------------------------------------------------


def centred(placed: Tensor, mask: Tensor, baseline: Tensor) -> Tensor:
    """Return [n, T] rewards-to-go of placed rewards, minus each row's baseline."""
    return (reward_to_go(placed, mask) - baseline[:, None]) * mask


def by_lines(ends: Sequence[int], known: Sequence[float], width: int) -> Tensor:
    """Return [width] the value at each line's end minus that at its start, for a row with line ends as columns."""
    advantages = torch.zeros(width)
    for (start, end), (before, after) in zip(pairwise([0, *ends]), pairwise(known), strict=True):
        advantages[start:end] = after - before
    return advantages


def line_ends(completions: Completions, row: int) -> list[int]:
    """Return the columns of tokens that end a line with something on it, except the last line's end."""
    turn, ends, begin = completions.turns[row][-1], [], 0
    text = turn.text.encode()
    for column, (start, end) in enumerate(turn.token_byte_spans):
        at = text.find(b"\n", start, end)
        if at >= 0:
            if text[begin:at].strip() and text[at:].strip() and column:
                ends.append(column)
            begin = at
    return ends


# -- measures of many gradients ----------------------------------------------------------------------------------------


def moments(products: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return signal and noise from inner products [P, 2, P, 2] and the number of draws per problem [P]."""
    own = torch.diagonal(products.flatten(0, 1).flatten(1)).unflatten(0, (-1, 2))
    pairs, share = torch.outer(weights, weights).fill_diagonal_(0), weights / weights.sum()
    signal = (pairs * products.mean((1, 3))).sum() / pairs.sum()
    return signal, (share * own.mean(1)).sum() - signal


def measures(products: Tensor, tokens: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Return the measures [R] of all rules, from inner products [R, P, 2, P, 2], sampled tokens [R, P], draws [P]."""
    found = [moments(of_rule, weights) for of_rule in products]
    signal, noise = (torch.stack(each) for each in zip(*found, strict=True))
    spent = (tokens * weights).sum(1)
    rate, by_noise = signal.clamp(min=0) / (noise * spent), 1 / (noise * spent)
    parts = {"signal": signal, "noise": noise, "S/N": signal / noise, "tokens": spent / spent[0]}
    return parts | {"equal": rate / rate[0], "by noise": by_noise / by_noise[0]}


def resampled(products: Tensor, tokens: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
    """Return [2, R] the ends of the 95% intervals of all measures, over resamples of the problems."""
    number = tokens.shape[1]
    draws = [torch.randint(number, (number,), generator=generator) for _ in range(RESAMPLES)]
    again = [measures(products, tokens, torch.bincount(one, minlength=number).double()) for one in draws]
    ends = torch.tensor([0.025, 0.975], dtype=torch.float64)
    each = {name: torch.stack([one[name] for one in again]) for name in again[0]}
    return {name: values.nanquantile(ends, 0, interpolation="nearest") for name, values in each.items()}


def table(folder: Path) -> str:
    """Return a table of the measures of all rules on a task, with intervals."""
    cells = [torch.load(path, mmap=True) for path in sorted(folder.glob("problem_*.pt"))]
    size, shape = cells[0]["gradients"].shape[-1], (len(cells), 2)
    products, generator = torch.zeros(len(RULES), *shape, *shape, dtype=torch.float64), torch.Generator().manual_seed(0)
    for start in range(0, size, 1 << 15):
        block = torch.stack([cell["gradients"][..., start : start + (1 << 15)] for cell in cells], 1).float()
        products += (block.flatten(1, 2) @ block.flatten(1, 2).mT).view_as(products)
    tokens = torch.stack([cell["tokens"] for cell in cells], 1).double()
    found = measures(products, tokens, torch.ones(len(cells), dtype=torch.float64))
    ends, rows = resampled(products, tokens, generator), []
    for at, rule in enumerate(RULES):
        row = {"rule": rule} | {name: f"{float(values[at]):.3g}" for name, values in found.items()}
        for name in ("S/N", "equal", "by noise"):
            row[name] += " [{:.3g}, {:.3g}]".format(*ends[name][:, at].tolist())
        row["by noise"] = "" if rule in BIASED else row["by noise"]
        rows.append(row)
    return f"{folder.name}: {len(cells)} problems, {size:,} weights\n\n{as_markdown(rows)}\n"


# -- sampling and gradients --------------------------------------------------------------------------------------------


def continued(
    policy: CausalLM, sandbox: Sandbox, work: Work, problem: Problem, prefixes: Sequence[tuple[int, ...]], number: int
) -> tuple[Tensor, Tensor]:
    """Return the rewards [prefixes, K] of rows that continue these ids, and the tokens sampled for each."""
    prompt, stops = policy.codec.encode_fitting_prompt(problem), problem.stop_strings
    stream, most, answers = RandomKey(0, "continuations", number).seed_of_stream, work.sampling.max_tokens, []
    with InProcess().session(policy, work.sampling) as session:
        for at, ids in enumerate(prefixes):
            streams = [stream(problem.task_id, at, k) for k in range(K)]
            of_prefix = [(at * K + k, (*prompt, *ids), streams[k], most - len(ids), stops) for k in range(K)]
            session.submit([Request(*one) for one in of_prefix])
        while session.num_unfinished:
            answers += session.step()
    answers.sort(key=lambda one: one.row)
    whole = [replace(one, ids=(*prefixes[one.row // K], *one.ids)) for one in answers]
    completions = policy.codec.completions_from_generations([problem], whole, len(whole))
    judge, programs = Judge(sandbox), [find_program(problem, text) for text in completions.texts]
    outcomes = [judge.start_program(problem, program, problem.check) for program in programs]
    judged = [Judgement(problem, found, one.result()) for found, one in zip(programs, outcomes, strict=True)]
    lengths = torch.tensor([len(one.ids) for one in answers])
    return work.rewards(completions, judged).rewards.view(-1, K), lengths.view(-1, K)


def states(policy: CausalLM, completions: Completions) -> Tensor:
    """Return [N, T, H + 1] what the value head reads before each token, with a one appended."""
    with torch.no_grad():
        hidden = policy(completions, head=lambda found: found)[:, : completions.completion_ids.shape[1]].float()
    return torch.cat([hidden, torch.ones_like(hidden[..., :1])], -1)


def first_pass(policy: CausalLM, sandbox: Sandbox, work: Work, problems: Sequence[Problem]) -> dict[str, Any]:
    """Choose problems, and fit the value head with the ridge that is best on a held-out quarter of the problems."""
    chosen: list[str] = []
    products: list[list[Any]] = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]  # of fitted and of held-out problems
    sampling = Sampling(FIRST, work.sampling.temperature, max_tokens=work.sampling.max_tokens)
    for first in range(0, len(problems), 16):
        batch = problems[first : first + 16]
        rollout = evaluate(policy, batch, sampling=sampling, sandbox=sandbox, batch_size=16, seed=1).rollouts[0]
        rewards = work.rewards(rollout.completions, rollout.judgements).rewards
        for at, problem in enumerate(batch):
            rows = list(range(FIRST * at, FIRST * at + FIRST))
            passed = sum(rollout.judgements[row].outcome.passed for row in rows)
            chosen += [problem.task_id] if 0 < passed < FIRST else []
            own = rollout.completions.select(rows).trim()
            x = states(policy, own)[own.completion_mask].double()
            y = rewards[rows][:, None].expand_as(own.completion_mask)[own.completion_mask].double()
            held = products[at % 4 == 3]
            held[:] = [before + new for before, new in zip(held, (x.T @ x, x.T @ y, y @ y), strict=True)]
        print(f"first pass: {first + len(batch)} problems, {len(chosen)} chosen", flush=True)

    def head(xx: Tensor, xy: Tensor, strength: float) -> Tensor:
        return torch.linalg.solve(xx + strength * torch.eye(len(xx)), xy)

    def error(strength: float) -> float:
        w, (xx, xy, yy) = head(*products[0][:2], strength), products[1]
        return float(w @ xx @ w - 2 * w @ xy + yy)

    best = min((10.0**power for power in range(-2, 8)), key=error)
    both = [a + b for a, b in zip(*products, strict=True)]
    return {"chosen": chosen[: work.measured], "head": head(*both[:2], best).float(), "ridge": best}


def advantages(
    policy: CausalLM, work: Work, head: Tensor, rows: Completions, judged: Sequence[Judgement], go_on: Any
) -> tuple[Tensor, Tensor]:
    """Return [R, n, T] the advantages of a group under each rule, and [R] the sampled tokens."""
    out, mask = work.rewards(rows, judged), rows.completion_mask
    if not bool(out.valid.all()):
        raise SystemExit(f"a program could not be judged: {out.reasons}")
    placed = {rule: assign_credit(out, mask, rule) for rule in PLACED}
    baseline = (out.rewards.sum() - out.rewards) / (len(rows) - 1)  # the mean reward of the other rows
    values, none = (states(policy, rows) @ head) * mask, torch.zeros(len(rows))
    found = [*(centred(one, mask, baseline) for one in placed.values())]
    found += [centred(placed["terminal"], mask, values[:, 0])]
    found += [GAE(gae_lambda=each).estimate(placed["terminal"], values, mask, none)[0] for each in LAMBDAS]
    ends, own = [line_ends(rows, row) for row in range(len(rows))], rows.lengths.sum().double()
    of_row = [[tuple(ids[:end].tolist()) for end in of] for ids, of in zip(rows.completion_ids, ends, strict=True)]
    place = {prefix: at for at, prefix in enumerate(dict.fromkeys(prefix for of in of_row for prefix in of))}
    rewards, lengths = go_on(list(place)) if place else (torch.zeros(0, K), torch.zeros(0, K))
    spent = [own] * len(found) + [own + lengths[:, :k].sum() for k in CONTINUED]
    for k in CONTINUED:
        means = rewards[:, :k].mean(1).tolist()
        of_rows = zip(ends, of_row, rows.lengths.tolist(), baseline.tolist(), out.rewards.tolist(), strict=True)
        lines = [([*of, n], [b, *(means[place[one]] for one in before), r]) for of, before, n, b, r in of_rows]
        found.append(torch.stack([by_lines(*line, mask.shape[1]) for line in lines]))
    return torch.stack(found), torch.stack(spent)


def measure(given: argparse.Namespace, name: str) -> None:
    """Sample, continue, and take the gradients of every problem that has no file yet."""
    work, folder = WORKS[name], given.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    policy, problems = work.load(given, folder)
    policy.load()
    weights = [weight for key, weight in policy.named_parameters() if weight.requires_grad and work.weights in key]
    sampling = Sampling(2 * work.rows, work.sampling.temperature, max_tokens=work.sampling.max_tokens)
    with Sandbox(1) as sandbox:
        if not (folder / "first.pt").exists():
            torch.save(first_pass(policy, sandbox, work, problems[: work.candidates]), folder / "first.pt")
        first, by_id = torch.load(folder / "first.pt"), {problem.task_id: problem for problem in problems}
        for number, problem in enumerate(by_id[task_id] for task_id in first["chosen"]):
            path = folder / f"problem_{number:03d}.pt"
            if path.exists():
                continue
            rollout = evaluate(policy, [problem], sampling=sampling, sandbox=sandbox, seed=2).rollouts[0]
            cells = []
            for group in range(2):
                chosen = list(range(group * work.rows, (group + 1) * work.rows))
                rows, judged = rollout.completions.select(chosen).trim(), [rollout.judgements[i] for i in chosen]

                def go_on(found: Any, group: int = group, problem: Problem = problem) -> tuple[Tensor, Tensor]:
                    return continued(policy, sandbox, work, problem, found, group)

                of_rules, tokens = advantages(policy, work, first["head"], rows, judged, go_on)
                logprobs, gradients = policy(rows, work.sampling.temperature)[0], []
                for one in of_rules.to(logprobs) / len(rows):
                    parts = torch.autograd.grad(logprobs, weights, one, retain_graph=True)
                    gradients.append(torch.cat([part.flatten() for part in parts]).bfloat16())
                cells.append((torch.stack(gradients), tokens))
            gradients, tokens = zip(*cells, strict=True)
            cell = {"gradients": torch.stack(gradients, 1), "tokens": sum(tokens)}
            torch.save(cell, path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)
            print(name, number, problem.task_id, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", metavar="TASK", help=", ".join(WORKS))
    parser.add_argument("--model", help="hub id or folder, for mbpp")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--folder", type=Path, default=Path("runs/credit"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.works:
        measure(given, name)
    for name in WORKS:
        if list((given.folder / name).glob("problem_*.pt")):
            print(table(given.folder / name))


if __name__ == "__main__":
    main()
