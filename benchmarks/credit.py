r"""What credit is worth: signal and noise of the policy gradient under each rule, from identical rows, at equal tokens.

    python benchmarks/credit.py robots                     # programs of two errands, a policy of 650,000 weights
    python benchmarks/credit.py mbpp --model FOLDER        # SmolLM2-135M-Instruct on MBPP's training problems
    python benchmarks/credit.py --table                    # what is there so far

A *group* is K rows of one problem; each problem gives two groups, drawn independently. A rule turns the group into the
gradient estimate g, the mean over its rows of sum_t A_t grad log pi(token t). With P problems i and groups a of each:

    signal     mean of g_ia . g_jb over i != j: |E g|^2 without bias, since two problems share no sample
    noise      mean of |g_ia|^2 - signal: E|g - E g|^2 of one group
    sampling   mean of |g_i1 - g_i2|^2 / 2: the part of the noise that does not come from drawing problems
    S/N        signal / noise; the mean of n groups has n times as much
    equal      S/N per sampled token, over that of ``terminal``: whoever samples m times as many tokens a group gets 1/m
               as many groups, of other problems. Continuations count, the critic's own rows do not
    by noise   the same from the noise alone, for rules without bias: they have the signal of ``terminal``, and the
               estimate of a small signal need not be paid for
    cosine     of the sums over two random halves of the problems, mean over 200 splits

Intervals are percentiles of 2000 resamples of the problems, the same for all rules; a problem is never paired with
itself, however often it was drawn. A rule that is biased has a signal too: ``to terminal`` is the cosine between the
two mean gradients, again from different problems only.

Rules: ``terminal``, ``spans`` and ``tokens`` are those of ``place_rewards``: reward-to-go minus the mean reward of the
group's other rows. The critic is a linear value head on the policy's own states, fitted by ridge regression to the
rewards of the first pass; A is GAE of the terminal reward. At the prompt its first value is the baseline of all tokens,
which is no credit but another baseline than the other rows. ``prefixes``: from the end of every line k continuations are
sampled and run (VinePPO, arXiv 2410.01679); A of a line's tokens is the value at its end minus that at its beginning;
the first value is the mean of the other rows, the last the row's reward. Equal prefixes of a group share theirs.

Problems are chosen by a first pass of four rows each: those of which some rows passed and some did not. The settings
stand in ``WORKS`` and were written before the first result. Each measured problem is a file; the same command goes on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from on_gpu.measuring import as_markdown
from public import ASKED
from reproductions import places
from torch import Tensor

from lit_rl import CausalLM, LoRA, Sampling, Sandbox, TestsReward, evaluate
from lit_rl.advantages import GAE
from lit_rl.data import MBPP
from lit_rl.engines.in_process import InProcess
from lit_rl.functional.returns import reward_to_go
from lit_rl.models.padding import pad_right
from lit_rl.models.sampling import StreamKey
from lit_rl.modules.ppo import explained_variance
from lit_rl.rewards import SimulatorReward, SyntaxReward
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.places import place_rewards
from lit_rl.rollout.records import Judge, find_program
from lit_rl.types import Completions, Judgement, Problem, Request

RULES = (
    "terminal",
    "spans",
    "tokens",
    "critic, at the prompt",
    "critic, λ 1",
    "critic, λ 0.95",
    "prefixes, k = 1",
    "prefixes, k = 4",
)
BIASED = ("tokens", "critic, λ 0.95")
FIRST, CONTINUATIONS, RESAMPLES, SPLITS = 4, 4, 2000, 200


@dataclass(frozen=True)
class Work:
    """A task to measure on.

    Args:
        candidates: problems of the first pass.
        measured: most problems that are measured.
        rows: of a group.
        sampling: token limit and temperature, in all passes and in the gradient.
        rewards: of a row.
        weights: names of the parameters whose gradient is taken.
    """

    candidates: int
    measured: int
    rows: int
    sampling: Sampling
    rewards: Composite
    weights: str
    load: Callable[[argparse.Namespace, Path], tuple[CausalLM, list[Problem]]]


def load_robots(given: argparse.Namespace, folder: Path) -> tuple[CausalLM, list[Problem]]:
    """The policy of docs/experiments.md's longer programs after its imitation; training problems of two errands."""
    if not (folder / "start").exists():
        places.prepare(folder)
    return CausalLM(str(folder / "start")), places.task(0).problems("train")


def load_mbpp(given: argparse.Namespace, folder: Path) -> tuple[CausalLM, list[Problem]]:
    """A model with new adapters in its last ten layers, and MBPP's training problems, short references first; a second function ends a row."""
    asked = ASKED | {"stop_strings": [*ASKED["stop_strings"], "\ndef ", "\nassert", "\n#"]}
    data = MBPP(str(given.data / "mbpp" / "mbpp.jsonl.gz"), **asked)
    lora = LoRA(4, 8.0, target_modules=r".*\.layers\.2\d\..*_proj")
    return CausalLM(given.model, dtype="bfloat16", lora=lora, init_seed=0), sorted(
        data.problems("train"), key=lambda one: len(str(one.reference))
    )


WORKS = {
    "robots": Work(192, 48, 8, Sampling(max_tokens=128), Composite([SimulatorReward()]), "", load_robots),
    "mbpp": Work(
        160,
        24,
        4,
        Sampling(max_tokens=64, temperature=0.6),
        Composite([TestsReward(0.9), SyntaxReward(0.1)]),
        "lora_B",
        load_mbpp,
    ),
}


# -- rules: from rewards to advantages ---------------------------------------------------------------------------------


def others(rewards: Tensor) -> Tensor:
    """[n] mean reward of the other rows."""
    return (rewards.sum() - rewards) / (len(rewards) - 1)


def centred(placed: Tensor, mask: Tensor, baseline: Tensor) -> Tensor:
    """[n, T] rewards-to-go of placed rewards minus a baseline of each row."""
    return (reward_to_go(placed, mask) - baseline[:, None]) * mask


def by_lines(ends: Sequence[int], known: Sequence[float], width: int) -> Tensor:
    """[width] differences of the values between which a line stands.

    Args:
        ends: column after the last token of each line; of the last line the row's length.
        known: values at the beginning of the row and at each of the ends, the last of them the reward.
    """
    advantages = torch.zeros(width)
    for (start, end), (before, after) in zip(pairwise([0, *ends]), pairwise(known), strict=True):
        advantages[start:end] = after - before
    return advantages


def line_ends(completions: Completions, row: int) -> list[int]:
    """Columns of the tokens that end a line with something on it; the last line's end is not among them."""
    turn, ends, begin = completions.turns[row][-1], [], 0
    text = turn.text.encode()
    for column, (start, end) in enumerate(turn.token_bytes):
        at = text.find(b"\n", start, end)
        if at >= 0:
            if text[begin:at].strip() and text[at:].strip() and column:
                ends.append(column)
            begin = at
    return ends


# -- measures of many gradients ----------------------------------------------------------------------------------------


def moments(products: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Signal, noise and the sampling's part of it.

    Args:
        products: [P, 2, P, 2] inner products of the estimates of P problems with two groups each.
        weights: [P] how often each problem was drawn.
    """
    between, own = products.mean((1, 3)), torch.diagonal(products.flatten(0, 1).flatten(1)).unflatten(0, (-1, 2))
    pairs = torch.outer(weights, weights).fill_diagonal_(0)
    signal = (pairs * between).sum() / pairs.sum()
    share = weights / weights.sum()
    within = torch.diagonal(products[:, 0, :, 1])
    return signal, (share * own.mean(1)).sum() - signal, (share * (own.sum(1) / 2 - within)).sum()


def measures(products: Tensor, tokens: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Measures of all rules, [R] each.

    Args:
        products: [R, P, 2, R, P, 2] inner products of all estimates.
        tokens: [R, P] sampled for a problem.
        weights: as of :func:`moments`.
    """
    found = [moments(products[rule, :, :, rule], weights) for rule in range(len(products))]
    signal, noise, sampling = (torch.stack(each) for each in zip(*found, strict=True))
    to_first = torch.stack([moments(products[rule, :, :, 0], weights)[0] for rule in range(len(products))])
    spent = (tokens * weights).sum(1)
    rate = signal.clamp(min=0) / (noise * spent)
    return {
        "signal": signal,
        "noise": noise,
        "sampling": sampling,
        "S/N": signal / noise,
        "equal": rate / rate[0],
        "equal by noise": (noise * spent)[0] / (noise * spent),
        "to terminal": to_first / (signal * signal[0]).sqrt(),
        "tokens": spent / spent[0],
    }


def half_cosine(products: Tensor, generator: torch.Generator) -> float:
    """Mean cosine of the sums over two halves of the problems; [P, P] inner products of the problems' sums."""
    found = []
    for _ in range(SPLITS):
        a, b = torch.randperm(len(products), generator=generator).tensor_split(2)
        own = products[a][:, a].sum() * products[b][:, b].sum()
        found.append(products[a][:, b].sum() / own.sqrt())
    return float(torch.stack(found).mean())


def table(folder: Path) -> str:
    """Measures of all rules on a task, with intervals."""
    files = sorted(folder.glob("problem_*.pt"))
    cells = [torch.load(path, mmap=True) for path in files]
    size = cells[0]["gradients"].shape[-1]
    products: Any = 0.0
    for start in range(0, size, 1 << 15):
        block = torch.stack([cell["gradients"][..., start : start + (1 << 15)] for cell in cells], 1).float()
        flat = block.flatten(0, 2)
        products = products + (flat @ flat.T).double()
    shape = (len(RULES), len(cells), 2)
    products, tokens = products.view(*shape, *shape), torch.stack([cell["tokens"] for cell in cells], 1).double()
    generator, ones = torch.Generator().manual_seed(0), torch.ones(len(cells), dtype=torch.float64)
    drawn = [torch.randint(len(cells), (len(cells),), generator=generator) for _ in range(RESAMPLES)]
    drawn = [torch.bincount(one, minlength=len(cells)).double() for one in drawn]
    again = [measures(products, tokens, weights) for weights in drawn]
    found, rows = measures(products, tokens, ones), []
    for at, rule in enumerate(RULES):
        row: dict[str, Any] = {"rule": rule}
        for name, values in found.items():
            row[name] = f"{float(values[at]):.3g}"
            if name == "equal by noise" and rule in BIASED:
                row[name] = ""
            elif "/" in name or "equal" in name:
                low, high = torch.stack([one[name][at] for one in again]).nanquantile(
                    torch.tensor([0.025, 0.975]).double()
                )
                row[name] += f" [{low:.3g}, {high:.3g}]"
        own = products[at, :, :, at].sum((1, 3))
        rows.append(row | {"cosine": f"{half_cosine(own, generator):.3f}"})
    facts = {name: sum(cell["facts"][name] for cell in cells) / len(cells) for name in cells[0]["facts"]}
    facts = {name: round(value, 3) for name, value in facts.items()}
    return f"{folder.name}: {len(cells)} problems, {size:,} weights, {facts}\n\n{as_markdown(rows)}\n"


# -- sampling and gradients --------------------------------------------------------------------------------------------


def continued(
    policy: CausalLM, sandbox: Sandbox, work: Work, problem: Problem, prefixes: Sequence[tuple[int, ...]], number: int
) -> tuple[Tensor, Tensor]:
    """Rewards [prefixes, k] of rows that continue these ids, and the tokens that were sampled for each."""
    prompt, codec, key = policy.codec.prompt(problem), policy.codec, StreamKey(0, "continuations", number)
    requests = [
        Request(
            row=at * CONTINUATIONS + k,
            prompt_ids=(*prompt, *prefix),
            stream=key.seed_of(problem.task_id, at, k),
            max_tokens=work.sampling.max_tokens - len(prefix),
            stop_strings=problem.stop_strings,
        )
        for at, prefix in enumerate(prefixes)
        for k in range(CONTINUATIONS)
    ]
    answers = []
    with InProcess().session(policy, work.sampling) as session:
        session.submit(requests)
        while session.num_unfinished:
            answers += session.step()
    answers.sort(key=lambda one: one.row)
    ids = [[*prefixes[one.row // CONTINUATIONS], *one.ids] for one in answers]
    written = [codec.decode(row, one.reason, problem.stop_strings) for row, one in zip(ids, answers, strict=True)]
    judge, programs = Judge(sandbox), [find_program(problem, text) for text, _ in written]
    outcomes = [judge.start(problem, program, problem.check) for program in programs]
    completions = Completions.single_turn(
        problems=(problem,) * len(ids),
        prompt_ids=torch.tensor([prompt] * len(ids)),
        prompt_mask=torch.ones(len(ids), len(prompt), dtype=torch.bool),
        completion_ids=pad_right(ids, codec.pad_id, torch.long),
        completion_mask=pad_right([[True] * len(row) for row in ids], False, torch.bool),
        sampler_logprobs=pad_right([[0.0] * len(row) for row in ids], 0.0, torch.float32),
        stop_reasons=[one.reason for one in answers],
        texts=[text for text, _ in written],
        token_bytes=[spans for _, spans in written],
    )
    judged = [Judgement(problem, *pair) for pair in zip(programs, (one.result() for one in outcomes), strict=True)]
    rewards, lengths = work.rewards(completions, judged), torch.tensor([len(one.ids) for one in answers])
    return rewards.rewards.view(-1, CONTINUATIONS), lengths.view(-1, CONTINUATIONS)


def states(policy: CausalLM, completions: Completions) -> Tensor:
    """[N, T, H + 1] what the value head reads before each token, and a one."""
    with torch.no_grad():
        hidden = policy(completions, head=lambda found: found)[:, : completions.completion_ids.shape[1]].float()
    return torch.cat([hidden, torch.ones_like(hidden[..., :1])], -1)


def first_pass(policy: CausalLM, sandbox: Sandbox, work: Work, problems: Sequence[Problem]) -> dict[str, Any]:
    """Choose problems, and fit the value head; its ridge is the best on a quarter of the problems that is held out."""
    chosen: list[str] = []
    products: dict[bool, list[Any]] = {False: [0.0, 0.0, 0.0], True: [0.0, 0.0, 0.0]}
    sampling = Sampling(FIRST, work.sampling.temperature, max_tokens=work.sampling.max_tokens)
    passed = 0
    for first in range(0, len(problems), 16):
        batch = problems[first : first + 16]
        rollout = evaluate(policy, batch, sampling=sampling, sandbox=sandbox, batch_size=16, seed=1).rollouts[0]
        rewards = work.rewards(rollout.completions, rollout.judgements).rewards
        for at, problem in enumerate(batch):
            rows = list(range(FIRST * at, FIRST * at + FIRST))
            count = sum(rollout.judgements[row].outcome.passed for row in rows)
            passed += count
            chosen += [problem.task_id] if 0 < count < FIRST else []
            own = rollout.completions.select(rows).trim()
            x = states(policy, own)[own.completion_mask].double()
            y = rewards[rows][:, None].expand_as(own.completion_mask)[own.completion_mask].double()
            found = products[at % 4 == 3]
            for index, product in enumerate((x.T @ x, x.T @ y, y @ y)):
                found[index] = found[index] + product
        print(f"first pass: {first + len(batch)} problems, {passed} rows passed, {len(chosen)} chosen", flush=True)

    def head(parts: Sequence[Any], strength: float) -> Tensor:
        return torch.linalg.solve(parts[0] + strength * torch.eye(len(parts[0])), parts[1])

    def error(strength: float) -> float:
        w, (xx, xy, yy) = head(products[False], strength), products[True]
        return float(w @ xx @ w - 2 * w @ xy + yy)

    best = min((10.0**power for power in range(-2, 8)), key=error)
    whole = [a + b for a, b in zip(products[False], products[True], strict=True)]
    return {"chosen": chosen[: work.measured], "head": head(whole, best).float(), "ridge": best}


def advantages(
    policy: CausalLM, work: Work, head: Tensor, rows: Completions, judged: Sequence[Judgement], continue_: Any
) -> tuple[Tensor, Tensor, dict[str, float]]:
    """[R, n, T] advantages of a group under each rule, [R] sampled tokens, and facts about the group."""
    out, mask = work.rewards(rows, judged), rows.completion_mask
    if not bool(out.valid.all()):
        raise SystemExit(f"a program could not be judged: {out.reasons}")
    baseline, at_end, spans = (
        others(out.rewards),
        place_rewards(out, mask, "terminal"),
        place_rewards(out, mask, "spans"),
    )
    found = [centred(place_rewards(out, mask, rule), mask, baseline) for rule in ("terminal", "spans", "tokens")]
    values, none = (states(policy, rows) @ head) * mask, torch.zeros(len(rows))
    found += [centred(at_end, mask, values[:, 0])]
    found += [GAE(gae_lambda=each).estimate(at_end, values, mask, none)[0] for each in (1.0, 0.95)]
    ends = [line_ends(rows, row) for row in range(len(rows))]
    of_row = [[tuple(ids[:end].tolist()) for end in of] for ids, of in zip(rows.completion_ids, ends, strict=True)]
    prefixes = list(dict.fromkeys(prefix for of in of_row for prefix in of))
    rewards, lengths = continue_(prefixes) if prefixes else (torch.zeros(0, CONTINUATIONS),) * 2
    place = {prefix: at for at, prefix in enumerate(prefixes)}
    own = rows.lengths.sum()
    spent = [own] * len(found)
    for k in (1, CONTINUATIONS):
        means = rewards[:, :k].mean(1).tolist()
        known = [[means[place[prefix]] for prefix in of] for of in of_row]
        whole = zip(ends, known, rows.lengths.tolist(), baseline.tolist(), out.rewards.tolist(), strict=True)
        lines = [by_lines([*of, n], [b, *v, r], mask.shape[1]) for of, v, n, b, r in whole]
        found.append(torch.stack(lines) * mask)
        spent.append(own + lengths[:, :k].sum())
    facts = {
        "passed": sum(one.outcome.passed for one in judged) / len(judged),
        "placed before the end": float(((spans != at_end).any(-1)).float().mean()),
        "tokens of a row": float(own) / len(rows),
        "line ends of a row": sum(map(len, ends)) / len(rows),
        "explained variance": float(explained_variance(values, out.rewards[:, None].expand_as(values), mask)),
    }
    return torch.stack(found), torch.stack([torch.as_tensor(one).double() for one in spent]), facts


def measure(given: argparse.Namespace, name: str) -> None:
    """Sample, continue, and take the gradients of every problem that has no file yet."""
    work, folder = WORKS[name], given.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    policy, problems = work.load(given, folder)
    policy.load()
    weights = [weight for key, weight in policy.named_parameters() if weight.requires_grad and work.weights in key]
    with Sandbox(1) as sandbox:
        if not (folder / "first.pt").exists():
            torch.save(first_pass(policy, sandbox, work, problems[: work.candidates]), folder / "first.pt")
        first, by_id = torch.load(folder / "first.pt"), {problem.task_id: problem for problem in problems}
        sampling = Sampling(2 * work.rows, work.sampling.temperature, max_tokens=work.sampling.max_tokens)
        for number, task_id in enumerate(first["chosen"]):
            path, started, problem = folder / f"problem_{number:03d}.pt", time.process_time(), by_id[task_id]
            if path.exists():
                continue
            rollout = evaluate(policy, [problem], sampling=sampling, sandbox=sandbox, seed=2).rollouts[0]
            gradients, tokens, facts = [], [], []
            for group in range(2):
                chosen = range(group * work.rows, (group + 1) * work.rows)
                rows, judged = rollout.completions.select(list(chosen)).trim(), [rollout.judgements[i] for i in chosen]

                def go_on(prefixes: Any, group: int = group, problem: Problem = problem) -> tuple[Tensor, Tensor]:
                    return continued(policy, sandbox, work, problem, prefixes, group)

                of_rules, spent, fact = advantages(policy, work, first["head"], rows, judged, go_on)
                logprobs, _ = policy(rows, work.sampling.temperature)
                parts = [
                    torch.autograd.grad(logprobs, weights, one.to(logprobs) / len(rows), retain_graph=True)
                    for one in of_rules
                ]
                flat = [torch.cat([part.flatten() for part in of_rule]).bfloat16() for of_rule in parts]
                gradients, tokens, facts = [*gradients, torch.stack(flat)], [*tokens, spent], [*facts, fact]
            mean = {key: (facts[0][key] + facts[1][key]) / 2 for key in facts[0]}
            cell = {"gradients": torch.stack(gradients, 1), "tokens": sum(tokens), "facts": mean}
            torch.save(cell, path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)
            print(name, number, task_id, f"{time.process_time() - started:.0f} CPU s", mean, flush=True)


def main() -> None:
    """Measure what is not measured yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", nargs="*", choices=[*WORKS, []], help="tasks to measure")
    parser.add_argument("--model", help="hub id or folder, for mbpp")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of the data sets")
    parser.add_argument("--folder", type=Path, default=Path("runs/credit"))
    parser.add_argument("--table", action="store_true", help="only print what is there")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.works if not given.table else ():
        measure(given, name)
    for name in WORKS:
        if (given.folder / name / "first.pt").exists():
            print(table(given.folder / name))


if __name__ == "__main__":
    main()
