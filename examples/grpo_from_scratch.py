"""GRPO in one file: sample programs, run them, compare the answers to one problem, learn from the difference.

``python examples/grpo_from_scratch.py`` needs no model and no data: it builds a small one, shows it flawed
demonstrations for a minute, and then lets it learn from the tests of its own programs for another. Of the library it
uses the policy (``CausalLM``), the sandbox (``Sandbox``) and a task (``Basics``); the algorithm is all here.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import lightning.pytorch as pl
import torch
from lit_rl import Basics, CausalLM, Problem, Sampling, Sandbox
from lit_rl.types import Completions
from torch import Tensor

# -- three formulas ----------------------------------------------------------------------------------------------------


def group_advantages(rewards: Tensor) -> Tensor:
    """Compare each completion with its group: A = (r - mean) / (std + 1e-6), over the row of its problem.

    ``rewards`` is [problems, samples]; a NaN is a program that could not be judged, whose advantage is 0. Advantages
    are also 0 in a group whose rewards are all the same.
    """
    judged = ~rewards.isnan()
    centred = (rewards - rewards.nanmean(-1, keepdim=True)).nan_to_num()
    variance = centred.square().sum(-1, keepdim=True) / (judged.sum(-1, keepdim=True) - 1).clamp(min=1)
    return centred / (variance.sqrt() + 1e-6)


def clipped_losses(logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip: float = 0.2) -> Tensor:
    """Return each token's loss, -min(ratio * A, clip(ratio, 1 - c, 1 + c) * A), where ratio = new / old probability.

    All tensors are [rows, tokens]. Raising a good token's probability pays until it is 1.2 times that when sampled.
    """
    ratio = (logprobs - old_logprobs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)


def token_mean(losses: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over all tokens: each token counts the same, whatever the length of its completion."""
    return (losses * mask).sum() / mask.sum()


# -- the algorithm -----------------------------------------------------------------------------------------------------


class GRPOFromScratch(pl.LightningModule):
    """Group Relative Policy Optimization (Shao et al. 2024) without a KL term.

    Args:
        policy: learns to write programs.
        sandbox: runs them.
        samples: completions per problem, which are compared with each other.
        epochs: optimizer steps on the same completions.
        max_tokens: a completion is cut after this many.
        lr: learning rate of AdamW.
    """

    def __init__(
        self,
        policy: CausalLM,
        sandbox: Sandbox,
        *,
        samples: int = 8,
        epochs: int = 2,
        max_tokens: int = 40,
        lr: float = 4e-4,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # one batch of problems is several optimizer steps
        self.policy, self.sandbox = policy, sandbox
        self.sampling = Sampling(num_samples=samples, max_tokens=max_tokens)
        self.greedy = Sampling(temperature=0.0, max_tokens=max_tokens)
        self.epochs, self.lr = epochs, lr

    def training_step(self, problems: Sequence[Problem], batch_idx: int) -> None:
        """Sample, run, compare, learn."""
        rows = self.policy.sample(problems, self.sampling, seed=batch_idx)
        rewards = self.run_programs(rows)
        advantages = group_advantages(rewards.view(len(problems), -1)).view(-1, 1)
        with torch.no_grad():
            old_logprobs = self.policy.logprobs(rows)
        for _ in range(self.epochs):
            losses = clipped_losses(self.policy.logprobs(rows), old_logprobs, advantages)
            self.step(token_mean(losses, rows.completion_mask))
        self.log("reward", rewards.nanmean(), prog_bar=True, batch_size=len(problems))

    def run_programs(self, rows: Completions) -> Tensor:
        """Return [rows] 1 if a program passes its tests, 0 if it does not, NaN if the sandbox itself failed."""
        programs = [problem.program_prefix + text for problem, text in zip(rows.problems, rows.texts, strict=True)]
        checks = [problem.check for problem in rows.problems]
        outcomes = self.sandbox.judge_many(zip(programs, checks, strict=True))
        failed = "infrastructure_failure"
        rewards = [float("nan") if one.verdict == failed else float(one.passed) for one in outcomes]
        return torch.tensor(rewards, device=self.device)

    def step(self, loss: Tensor) -> None:
        """Take one optimizer step down the loss, with the gradient's norm clipped at 1."""
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(loss)
        self.clip_gradients(optimizer, gradient_clip_val=1.0, gradient_clip_algorithm="norm")
        optimizer.step()

    def validation_step(self, problems: Sequence[Problem], batch_idx: int) -> None:
        """Log pass@1 of greedy completions on problems that training never sees."""
        passed = self.run_programs(self.policy.sample(problems, self.greedy))
        self.log("pass@1", passed.nanmean(), prog_bar=True, batch_size=len(problems))

    def transfer_batch_to_device(self, batch: Sequence[Problem], *_: object) -> Sequence[Problem]:
        """Return the problems: they are text and stay where they are."""
        return batch

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW on all weights."""
        return torch.optim.AdamW(self.policy.parameters(), lr=self.lr, betas=(0.9, 0.95), weight_decay=0.0)


# -- a policy to begin with --------------------------------------------------------------------------------------------


def small_policy() -> CausalLM:
    """Return a Llama of 650,000 parameters with random weights and the tokenizer of the task."""
    config = {
        "model_type": "llama",
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "initializer_range": 0.04,
    }
    policy = CausalLM(config=config, tokenizer="package:lit_rl/data/basics/tokenizer")
    policy.load()
    return policy


def imitate(policy: CausalLM, data: Basics, updates: int, peak_lr: float = 6e-3) -> None:
    """Raise the probability of demonstrations. Six in ten of them hold a bug, so imitation alone stays mediocre."""
    optimizer = torch.optim.AdamW(policy.parameters(), lr=peak_lr, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak_lr, updates, pct_start=0.15, cycle_momentum=False)
    loader = data.train_dataloader()
    batches = (batch for _ in range(updates) for batch in loader)
    for _, problems in zip(range(updates), batches, strict=False):
        rows = policy.codec.completions_from_texts(problems, [problem.fields["demonstration"] for problem in problems])
        loss = token_mean(-policy.logprobs(rows), rows.completion_mask)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def main(warm_start: int = 500, rollouts: int = 80, batch_size: int = 16, problems: int = 260) -> tuple[float, float]:
    """Imitate, then learn; print and return pass@1 before and after learning."""
    pl.seed_everything(0)
    torch.set_num_threads(1)  # a second thread costs a model this small more than it gives
    policy = small_policy()
    imitate(policy, Basics(batch_size=2 * batch_size), warm_start)
    data = Basics(batch_size=batch_size, num_validation_problems=problems, validation_batch_size=problems)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=1, limit_train_batches=rollouts, num_sanity_val_steps=0, **quiet)
    with Sandbox() as sandbox:
        module = GRPOFromScratch(policy, sandbox)
        measure = partial(trainer.validate, module, data, verbose=False)
        before = measure()[0]["pass@1"]
        trainer.fit(module, data)
        after = measure()[0]["pass@1"]
    print(
        f"pass@1 on {problems} held-out problems: {before:.3f} after imitation, {after:.3f} after {rollouts} rollouts"
    )
    return before, after


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm_start", type=int, default=500, help="updates of imitation")
    parser.add_argument("--rollouts", type=int, default=80)
    main(**vars(parser.parse_args()))
