"""Runs inside the peers' own environment: the losses of TRL and the advantages of torchrl on given tensors.

Usage: ``python peer_losses.py INPUTS.pt OUTPUTS.pt``. The peers' own code computes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch


def trl_loss(case: dict[str, Any], tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and its gradient by log-probability: the method of TRL's trainer on a stand-in for it."""
    from trl import GRPOTrainer

    logprobs = tensors["logprobs"].clone().requires_grad_()
    trainer = SimpleNamespace(
        args=SimpleNamespace(
            delta=case.get("delta"),
            use_bias_correction_kl=case.get("use_bias_correction_kl", False),
            steps_per_generation=1,
        ),
        accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        _get_per_token_logps_and_entropies=lambda *_, **__: (logprobs, torch.zeros_like(logprobs), None),
        model=SimpleNamespace(training=True),
        _metrics={"train": defaultdict(list)},
        _entropy_bonus_enabled=False,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        current_gradient_accumulation_steps=1,
        max_completion_length=case.get("max_completion_length"),
        loss_type=case["loss_type"],
        importance_sampling_level=case.get("level", "token"),
        epsilon_low=case.get("epsilon_low"),
        epsilon_high=case["epsilon_high"],
        beta=case.get("beta", 0.0),
    )
    ids = torch.zeros_like(logprobs, dtype=torch.long)
    mask = tensors["mask"].to(logprobs.dtype)
    inputs = {
        "prompt_ids": ids,
        "prompt_mask": ids,
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": tensors["advantages"],
        "old_per_token_logps": tensors["old_logprobs"],
        "ref_per_token_logps": tensors["ref_logprobs"],
        "num_items_in_batch": mask.sum(),
    }
    loss = GRPOTrainer._compute_loss(trainer, trainer.model, inputs)
    loss.backward()
    return loss.detach(), logprobs.grad


def torchrl_gae(tensors: dict[str, torch.Tensor], gamma: float, lam: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and value targets; the caller says where episodes are done or terminated."""
    from torchrl.objectives.value.functional import generalized_advantage_estimate

    names = ("values", "next_values", "token_rewards", "done", "terminated")
    columns = [tensors[name].unsqueeze(-1) for name in names]
    advantages, targets = generalized_advantage_estimate(gamma, lam, *columns)
    return advantages.squeeze(-1), targets.squeeze(-1)


def main(inputs: str, outputs: str) -> None:
    given = torch.load(inputs)
    answers = {name: trl_loss(case, given["tensors"]) for name, case in given["trl"].items()}
    for name, (gamma, lam) in given["torchrl"].items():
        answers[name] = torchrl_gae(given["gae"], gamma, lam)
    torch.save(answers, outputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
