"""Losses on pairs of a better (chosen) and a worse (rejected) completion of one prompt.

Letter: M pairs. Log-probabilities are nats, summed over the tokens of a completion.
"""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from lit_rl.functional.shapes import require_no_grad, require_same_shape, shape_of

PreferenceLoss = Literal["sigmoid", "ipo", "hinge"]
"""Shape of the loss over the difference of implicit rewards; see :func:`preference_loss`."""


def implicit_rewards(logprobs: Tensor, ref_logprobs: Tensor, *, beta: float) -> Tensor:
    """The reward for which the policy would be optimal, up to a constant per prompt (KL of weight ``beta``).

        r_i = beta * (logprobs_i - ref_logprobs_i)

    Args:
        logprobs: [M] nats, summed, under the policy. May carry the gradient.
        ref_logprobs: [M] nats, summed, under the reference. No gradient.
        beta: reward units per nat, > 0.

    Returns:
        [M] in reward units. Chosen minus rejected is the margin that is logged.

    Raises:
        ValueError: shapes that are not one [M], ``ref_logprobs`` requires grad, or ``beta`` <= 0.

    Source:
        Rafailov et al. 2023, eq. 5, https://arxiv.org/abs/2305.18290

    Example:
        >>> implicit_rewards(torch.tensor([-3.0]), torch.tensor([-5.0]), beta=0.1)
        tensor([0.2000])
    """
    if logprobs.dim() != 1:
        raise ValueError(f"logprobs must be [M], summed over tokens, got {shape_of(logprobs)}")
    if not beta > 0:
        raise ValueError(f"beta must be > 0, got {beta}")
    require_same_shape(logprobs=logprobs, ref_logprobs=ref_logprobs)
    require_no_grad(ref_logprobs=ref_logprobs)
    return beta * (logprobs - ref_logprobs)


def preference_loss(
    chosen_logprobs: Tensor,
    rejected_logprobs: Tensor,
    ref_chosen_logprobs: Tensor,
    ref_rejected_logprobs: Tensor,
    *,
    beta: float,
    kind: PreferenceLoss = "sigmoid",
    target_margin: Tensor | float | None = None,
) -> Tensor:
    """Loss of each pair: make the chosen completion likelier than the rejected one, against the reference.

        margin   = implicit_rewards(chosen) - implicit_rewards(rejected)      reward units
        sigmoid:  -log sigmoid(margin - target_margin)                        DPO; target 0
        hinge:    max(0, target_margin - margin)                              SLiC; target 1
        ipo:      (margin / beta - 1 / (2 beta))^2                            IPO; has its own target

    Beyond its target ``sigmoid`` keeps pushing, ever less, ``hinge`` stops, and ``ipo`` pulls back.

    Args:
        chosen_logprobs: [M] nats, summed, under the policy. Carries the gradient.
        rejected_logprobs: [M] the same of the rejected completions. Carries the gradient.
        ref_chosen_logprobs: [M] under the reference. No gradient.
        ref_rejected_logprobs: [M] under the reference. No gradient.
        beta: reward units per nat, > 0; smaller lets the policy go further from the reference.
        kind: see above.
        target_margin: wanted margin in reward units, one number or [M], such as the difference of the
            execution rewards; None: the default of the kind.

    Returns:
        [M] loss per pair; average it over the pairs of the whole update.

    Raises:
        ValueError: shapes that are not one [M], a reference requires grad, ``beta`` <= 0, or a
            ``target_margin`` for ``ipo``.

    Source:
        sigmoid: Rafailov et al. 2023, eq. 7, https://arxiv.org/abs/2305.18290
        with a target: Amini et al. 2024, https://arxiv.org/abs/2402.10571
        hinge: Zhao et al. 2023, https://arxiv.org/abs/2305.10425
        ipo: Azar et al. 2023, eq. 17, https://arxiv.org/abs/2310.12036

    Example:
        >>> chosen, rejected, reference = torch.tensor([-1.0]), torch.tensor([-3.0]), torch.tensor([-2.0])
        >>> preference_loss(chosen, rejected, reference, reference, beta=0.5)  # margin 1: log(1 + 1/e)
        tensor([0.3133])
    """
    require_same_shape(chosen_logprobs=chosen_logprobs, rejected_logprobs=rejected_logprobs)
    chosen = implicit_rewards(chosen_logprobs, ref_chosen_logprobs, beta=beta)
    rejected = implicit_rewards(rejected_logprobs, ref_rejected_logprobs, beta=beta)
    margin = chosen - rejected
    if isinstance(target_margin, Tensor) and target_margin.dim():
        require_same_shape(chosen_logprobs=chosen_logprobs, target_margin=target_margin)
    match kind:
        case "sigmoid":
            return -logsigmoid(margin - (0.0 if target_margin is None else target_margin))
        case "hinge":
            return torch.relu((1.0 if target_margin is None else target_margin) - margin)
        case "ipo":
            if target_margin is not None:
                raise ValueError("ipo sets its own target, 1 / (2 beta); got a target_margin, leave it out")
            return (margin / beta - 1.0 / (2.0 * beta)).square()
        case _:
            assert_never(kind)
