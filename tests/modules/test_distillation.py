"""Distillation: gradients in every split, what the teacher reads, which tokens it corrects, and exact resume."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout.scripted import Scripted
from support.completions import batch, judged
from support.moved_weights import disturb
from support.privileged import Longer
from support.small_runs import adam, at_start, fit, weights, whole_and_resumed
from support.tiny_models import TINY_QWEN2, loaded
from support.two_turns import LastTurn, Plays
from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.execution import AssertTests, Sandbox
from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.math.divergences import JSD, SampledReverseKL
from lit_rl.models import CausalLM, LoRA
from lit_rl.models.sampling import RandomKey
from lit_rl.modules import Distillation, DistillationConfig, RolloutModule
from lit_rl.modules.minibatches import Minibatch
from lit_rl.rollout import Hindsight, Rollout
from lit_rl.rollout.sampling_loop import sample_rows
from lit_rl.types import Completions, Experience, Problem, Sampling

Make = Callable[..., RolloutModule]


class Gradients(Plays, Distillation):  # type: ignore[misc]
    """Notes the rows and the gradient of each update on hand-made rows."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.found: list[tuple[list[int], Tensor]] = []

    def update_once(self, experience: Experience, minibatch: Minibatch, *args: Any) -> bool:
        self._rows = minibatch.rows.tolist()
        return super().update_once(experience, minibatch, *args)

    def optimizer_step(self) -> dict[str, float]:
        learning = [p for p in self.policy.parameters() if p.requires_grad]
        self.found.append((self._rows, torch.cat([p.grad.flatten() for p in learning if p.grad is not None]).clone()))
        return super().optimizer_step()


def still(make_module: Make, tokenizer: str, **options: Any) -> Any:
    """A module whose one rollout, on hand-made rows beside a teacher of other weights, moves nothing."""
    common: dict[str, Any] = {
        "rewards": [LastTurn()],
        "teacher": CausalLM(config=TINY_QWEN2, tokenizer=tokenizer, dtype="float64", init_seed=5),
        "hindsight": Longer(),
        "optimizer": lambda params: torch.optim.SGD(params, lr=0.0),
        "max_rollouts": 1,
    }
    return make_module(Gradients, **common | options)


def dense_logits(model: Any, rows: Completions, row: int) -> Tensor:
    """[tokens, V] logits of a row's own tokens, from the row alone, without padding."""
    prompt = rows.prompt_ids[row][rows.prompt_mask[row]]
    said = rows.completion_ids[row][rows.token_mask[row]]
    logits = model(input_ids=torch.cat([prompt, said])[None]).logits[0, len(prompt) - 1 : -1]
    return logits[rows.completion_mask[row][rows.token_mask[row]]]


def dense_gradient(module: Any, rows: list[int], experience: Experience) -> Tensor:
    """Gradient of weight * divergence - advantage * log-probability, a mean over tokens, written out."""
    completions, view, teacher_mask = experience.completions, experience.teacher_inputs, experience.teacher_mask
    teacher = module.teacher.model if isinstance(module.teacher, CausalLM) else module.policy.model
    total, count, temperature = torch.zeros((), dtype=torch.float64), 0, module.sampling.temperature
    for row in rows:
        mask = completions.completion_mask[row]
        ours = dense_logits(module.policy.model, completions, row)
        theirs = dense_logits(teacher, view, row).detach()
        gap = module.distil.divergence(ours, theirs, temperature)
        logprobs = (ours / temperature).log_softmax(-1).gather(1, completions.completion_ids[row][mask][:, None])[:, 0]
        advantages = experience.advantages[row][mask]
        total = total + (module.distil.weight * gap * teacher_mask[row][mask]).sum() - (advantages * logprobs).sum()
        count += int(mask.sum())
    learning = [p for p in module.policy.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(total / count, learning, allow_unused=True)
    return torch.cat([g.flatten() for g in gradients if g is not None])


SPLITS: dict[str, dict[str, Any]] = {
    "whole": {},
    "one row": {"microbatch_size": 1},
    "minibatches": {"microbatch_size": 2, "minibatches": 3},
    "by tokens": {"microbatch_tokens": 40},
}


@pytest.mark.parametrize(
    ("divergence", "layout", "split"),
    [
        (JSD(1.0), "shared", "whole"),
        (JSD(1.0), "padded", "by tokens"),
        (JSD(0.0), "alone", "one row"),
        (JSD(0.0), "shared", "minibatches"),
        (JSD(beta=0.3, temperature=2.0), "chunks", "minibatches"),
        (JSD(beta=0.3, temperature=2.0), "padded", "one row"),
    ],
    ids=str,
)
def test_gradients_in_every_split_are_those_of_dense_logits(
    make_module: Make, byte_tokenizer: str, tmp_path: Path, divergence: Any, layout: str, split: str
) -> None:
    """Item 77: rows of one to three turns, with rewards beside the teacher, which reads more and skips some rows."""
    module = still(
        make_module,
        byte_tokenizer,
        distil=DistillationConfig(divergence, weight=0.7, reward_weight=0.4),
        sampling=Sampling(num_samples=3, max_tokens=6, temperature=0.8),
        **SPLITS[split] | ({"teacher": "policy"} if split == "one row" else {}),
    )
    module.policy.share_prompts = layout == "shared"
    module.policy.chunk_tokens = 4 if layout == "chunks" else None
    fit(module, tmp_path)
    experience = module.seen[0]
    assert len(module.found) == SPLITS[split].get("minibatches", 1)
    for rows, gradient in module.found:
        expected = dense_gradient(module, rows, experience)
        assert (gradient - expected).abs().max() < 1e-10 < 1e-3 < expected.abs().max()


def hand_made() -> Rollout:
    """A row that failed in its second line, one that gave a wrong answer, and one that passed."""
    texts = ["a=1\nb=c", "a=2", "a=3"]
    failed = Outcome(Verdict.EXCEPTION, line=2, exception_type="NameError")
    outcomes = [failed, Outcome(Verdict.WRONG_ANSWER), Outcome(Verdict.PASSED)]
    return Rollout(batch(texts), tuple(judged(text, outcome) for text, outcome in zip(texts, outcomes, strict=True)))


@pytest.mark.parametrize(
    ("distil", "expected"),
    [
        (DistillationConfig(), ["########", "####", "####"]),
        (DistillationConfig(rows="failed"), ["########", "####", "...."]),
        (DistillationConfig(tokens="failing_line"), ["....###.", "####", "####"]),
        (DistillationConfig(rows="failed", tokens="failing_line"), ["....###.", "####", "...."]),
    ],
    ids=["all", "failed", "line", "both"],
)
def test_the_teacher_corrects_the_chosen_rows_and_tokens(distil: DistillationConfig, expected: list[str]) -> None:
    """A token a letter, then EOS; a row without a failing line is corrected whole."""
    found = ["".join("#" if one else "." for one in row) for row in distil.teacher_mask(hand_made()).tolist()]
    assert found == [row.ljust(8, ".") for row in expected]


def test_sampled_gaps_are_added_to_weighted_advantages(make_module: Make, byte_tokenizer: str, tmp_path: Path) -> None:
    """A quarter of GRPO's advantage plus twice the clipped gap to the teacher, on rows that were shown."""
    module = still(make_module, byte_tokenizer, distil=DistillationConfig(SampledReverseKL(clip=0.01), 2.0, 0.25))
    fit(module, tmp_path)
    rows, view = module.seen[0].completions, module.seen[0].teacher_inputs
    with torch.no_grad():
        gap = module.teacher.logprobs(view) - module.policy.logprobs(rows)
    shown = Longer.shown(rows)[:, None] & rows.completion_mask
    assert (gap.abs() > 0.01).any() and (gap.abs()[shown] < 0.01).any()
    table = module.seen[1].rewards.view(-1, 4).double()
    grpo = (table - table.mean(1, keepdim=True)) / (table.std(1, keepdim=True) + 1e-6)
    expected = 0.25 * grpo.view(-1, 1) * rows.completion_mask + 2.0 * gap.clamp(-0.01, 0.01) * shown
    assert (module.seen[0].advantages - expected).abs().max() < 1e-6


CANARY = "CANARY7319"
PASSES, FAILS, SLIPS = "    return x + 1\n", "    return x - 1\n", "    return x + (x < 5)\n"


def long(tokenizer: str, **options: Any) -> CausalLM:
    """A policy whose prompts may hold the attempts of others."""
    return loaded(tokenizer, config=TINY_QWEN2 | {"max_position_embeddings": 1024}, **options)


def shown_prompts(hindsight: Hindsight, policy: CausalLM, sandbox: Sandbox, said: list[str], chat: bool) -> list[str]:
    """Texts that the teacher reads before each row of one group, as text; empty for a row that is shown nothing."""
    prefix = "def f(x):\n"
    problem = Problem(
        "p/0",
        ({"role": "user", "content": "Write f."},) if chat else prefix,
        AssertTests(f"assert f(9) == 10, '{CANARY}'"),
        program_prefix=prefix,
        public_check=AssertTests("assert f(1) == 2"),
    )
    sampling = Sampling(num_samples=len(said), max_tokens=60)
    pending = sample_rows(
        policy, Scripted([[text] for text in said]), sandbox, [problem], sampling, RandomKey(0, "t", 0)
    )
    rollout = pending.finish()
    view, shown = hindsight.teacher_inputs(rollout, policy.codec, sandbox)
    assert torch.equal(view.completion_ids, rollout.completions.completion_ids)
    prompts = [ids[kept] for ids, kept in zip(view.prompt_ids, view.prompt_mask, strict=True)]
    special = torch.tensor(policy.tokenizer.all_special_ids)
    assert not any(torch.isin(ids, special).any() for ids in prompts)
    return [policy.tokenizer.decode(ids) if one else "" for ids, one in zip(prompts, shown.tolist(), strict=True)]


@pytest.mark.parametrize("chat", [False, True])
def test_the_teacher_reads_public_feedback_and_solutions_and_nothing_of_the_hidden_tests(
    byte_tokenizer: str, sandbox: Sandbox, chat: bool
) -> None:
    """Item 79: one group of a row that passed, one that failed both checks, one that failed the hidden one alone."""
    policy = long(byte_tokenizer, chat_template="{% for m in messages %}<{{ m.content }}>{% endfor %}")
    said = [PASSES, FAILS, SLIPS, PASSES + "# second\n"]
    both = shown_prompts(Hindsight(), policy, sandbox, said, chat)
    assert CANARY not in "".join(both)
    # A row that passed reads the other solution; one that failed reads the next one, and what its own program did.
    assert "# second" in both[0] and "# second" not in both[3]
    assert "Actual: 0" in both[1] and "# second" in both[1]
    assert "f(1)" in both[1] and "f(9)" not in both[1]
    assert "wrong answer" not in both[2]  # its program passes the public check, so only the solution is shown
    feedback = shown_prompts(Hindsight("feedback"), policy, sandbox, said, chat)
    assert [bool(text) for text in feedback] == [False, True, False, False]
    if not chat:
        own = Hindsight("feedback", feedback_template="{prompt}{attempt}# {case}\n{program_prefix}")
        assert shown_prompts(own, policy, sandbox, said, chat)[1] == f"def f(x):\n{FAILS}# f(1): 2, not 0\ndef f(x):\n"


@pytest.mark.parametrize("chat", [False, True])
def test_what_a_program_says_reaches_the_teacher_as_text(byte_tokenizer: str, sandbox: Sandbox, chat: bool) -> None:
    """An error message that spells out EOS."""
    policy = long(byte_tokenizer, chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")
    said = ["    raise ValueError('<' + 'eos><' + 'pad>')\n"]
    assert "ValueError: <eos><pad>" in shown_prompts(Hindsight(), policy, sandbox, said, chat)[0]


AGAIN = PASSES.replace("x + 1", "1 + x")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ([PASSES, PASSES, AGAIN], [AGAIN, AGAIN, PASSES]),
        ([PASSES, FAILS, PASSES], ["", PASSES, ""]),
        ([PASSES, PASSES + "\n", FAILS, AGAIN], [AGAIN, AGAIN, AGAIN, PASSES]),
        ([PASSES], [""]),
    ],
    ids=["another", "none", "blank lines", "alone"],
)
def test_no_row_reads_its_own_program_as_a_solution(
    said: list[str], shown: list[str], byte_tokenizer: str, sandbox: Sandbox
) -> None:
    """Equal programs of other rows are passed over; a row to which no other one can be shown is not taught."""
    found = shown_prompts(Hindsight("solution"), long(byte_tokenizer), sandbox, said, chat=False)
    assert [text.split("def f(x):\n")[1].strip("\n") if text else "" for text in found] == [
        text.strip("\n") for text in shown
    ]


@pytest.fixture(params=[None, LoRA(rank=2)], ids=str)
def averaging(request: pytest.FixtureRequest, make_module: Make) -> Make:
    """Builds runs that a moving average of their own weights, or of their adapter, teaches."""

    def make(**options: Any) -> Any:
        common = {"teacher": "reference", "refresh_reference_every": 1, "refresh_reference_share": 0.25}
        module: Any = make_module(Distillation, optimizer=adam, **common | options)
        module.policy.lora = request.param
        return module

    return make


def test_a_run_with_a_moving_average_as_teacher_resumes_to_the_bit(averaging: Make, tmp_path: Path) -> None:
    """Item 78: bit for bit, the teacher's weights or adapter included."""
    distil = DistillationConfig(JSD(), reward_weight=0.5)
    make = partial(averaging, hindsight=Longer(), distil=distil, max_rollouts=5)
    whole, resumed = whole_and_resumed(make, tmp_path, 3)
    assert torch.equal(weights(whole), weights(resumed))
    assert not torch.equal(weights(at_start(make())), weights(whole))


def test_the_average_moves_by_its_share(averaging: Make, tmp_path: Path) -> None:
    """After one rollout at 0.25: a quarter of the way from the start to the policy."""
    module, start = averaging(distil=DistillationConfig(reward_weight=1.0), max_rollouts=1), at_start(averaging())
    fit(module, tmp_path)
    now = dict(module.policy.named_parameters())
    names = {name: _of_reference(name) for name in now if "frozen_reference" not in name and ".reference." not in name}
    moved = 0
    for name, first in start.policy.named_parameters():
        if names[name] in now:
            expected = 0.75 * first + 0.25 * now[name]
            assert (now[names[name]] - expected).abs().max() < 1e-12
            moved += int((now[name] - first).abs().max() > 1e-3)
    assert moved


def _of_reference(name: str) -> str:
    adapter = ".policy." in name
    return name.replace(".policy.", ".reference.") if adapter else name.replace("model.", "frozen_reference.", 1)


def test_the_base_without_adapters_is_the_reference_that_teaches(byte_tokenizer: str) -> None:
    policy = loaded(byte_tokenizer, dtype="float64", lora=LoRA(rank=2))
    teacher = policy.make_reference()
    rows = batch(["ab", "c"])
    before = teacher.lazy_token_logits(rows)(slice(1, 5))
    disturb(policy, 1, 0.3)
    assert torch.equal(teacher.lazy_token_logits(rows)(slice(1, 5)), before)
    assert (policy.lazy_token_logits(rows)(slice(1, 5)) - before).abs().max() > 1e-3


def test_what_cannot_teach_is_refused(make_module: Make, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its own teacher learns nothing without hindsight"):
        make_module(Distillation, teacher="policy")
    other = CausalLM(config=TINY_QWEN2, tokenizer="package:lit_rl.data/basics/tokenizer")
    with pytest.raises(UsageError, match=r"teacher: expected the policy's tokenizer"):
        fit(make_module(Distillation, teacher=other), tmp_path)
