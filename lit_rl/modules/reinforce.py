"""REINFORCE: the plain policy gradient, with or without a baseline.

    1. sample completions and run their programs                     RolloutModule.collect
    2. advantage of a token = discounted reward from it on - baseline     make_experience
    3. minimise -advantage * log-probability                         objective.py, ``loss: naive``

The deltas of the lecture on sorting (``rewards``, ``centered_rewards``, ``normalized_rewards``, ``max_rewards``)
replace step 2 where they are chosen by name.

Letters: B problems, G completions per problem, N = B * G rows, T completion tokens.
"""

from __future__ import annotations

from typing import Any, Unpack

from lit_rl.advantages import Baseline, RowAdvantages
from lit_rl.bounds import require_share
from lit_rl.functional.returns import reward_to_go
from lit_rl.models.policy import Policy
from lit_rl.modules.credit import Credit, place_rewards
from lit_rl.modules.named_advantages import Deltas, RunningName, deltas_of, require_group, running_of
from lit_rl.modules.objective import Objective
from lit_rl.modules.options import RolloutOptions
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.rewards.term import RewardOutput
from lit_rl.rollout import Rollout
from lit_rl.types import Experience, Sampling


class REINFORCE(RolloutModule):
    """Vanilla policy gradient on executed programs.

    Args:
        policy: the policy to train.
        sampling: how training samples.
        objective: the policy's loss; by default ``naive``. A KL to the reference is added to the loss.
        baseline: subtracted from the reward-to-go: a :class:`lit_rl.advantages.Baseline`; or by name ``none``,
            ``mean`` (of the rollout's rewards, over all ranks) or ``exponential`` (a running mean of earlier rollouts'
            rewards; the first rollout has none).
        baseline_decay: decay of the ``exponential`` baseline, in [0, 1).
        gamma: discount per token.
        credit: ``terminal`` puts all of the reward on the last token, so that without a discount every token is
            credited with all of it; ``spans`` puts what has a place in the text on the token that decided it and the
            rest on the last token; ``tokens`` spreads it over the tokens of that place and the rest over the
            program, so that later tokens are credited with less of it.
        deltas: instead of reward-to-go and baseline, one number per completion: a class of :mod:`lit_rl.advantages`;
            or by name the bare ``rewards``, ``centered_rewards`` and ``normalized_rewards`` of a problem's
            completions, or ``max_rewards`` (rewards that are not the largest of their problem become 0).
        **options: see :class:`RolloutModule`.

    Source:
        Williams 1992, https://doi.org/10.1007/BF00992696
    """

    def __init__(
        self,
        policy: Policy,
        *,
        sampling: Sampling = Sampling(),  # noqa: B008  # frozen
        objective: Objective = Objective(loss="naive"),  # noqa: B008
        baseline: Baseline | RunningName = "none",
        baseline_decay: float = 0.9,
        gamma: float = 1.0,
        credit: Credit = "terminal",
        deltas: RowAdvantages | Deltas | None = None,
        **options: Unpack[RolloutOptions],
    ) -> None:
        super().__init__(policy, sampling=sampling, objective=objective, **options)
        if objective.kl_coef and objective.kl_in == "reward":
            raise ValueError("REINFORCE takes the KL in the loss, got objective.kl_in=reward: set it to loss")
        if deltas is not None and baseline != "none":
            both = [given if isinstance(given, str) else type(given).__name__ for given in (deltas, baseline)]
            raise ValueError(
                f"deltas take the place of a baseline, got deltas={both[0]} and baseline={both[1]}: give one"
            )
        require_share(gamma=gamma, baseline_decay=baseline_decay)
        self.baseline = running_of(baseline, baseline_decay)
        self.deltas = deltas_of(deltas)
        used = self.deltas or self.baseline
        require_group(used, sampling, f"{'baseline' if deltas is None else 'deltas'} {type(used).__name__}")
        self.gamma = gamma
        self.credit: Credit = credit

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        """Advantages of the tokens; log-probabilities where the loss needs them."""
        completions, mask = rollout.completions, rollout.completions.completion_mask
        if self.deltas is not None:
            advantages = self.deltas(rewards.rewards, rewards.valid, completions.group_ids)[:, None] * mask
        else:
            token_rewards = place_rewards(rewards, mask, self.credit)
            counted = mask & rewards.valid[:, None]
            to_go = reward_to_go(token_rewards, counted, gamma=self.gamma)
            expected = self.baseline.expected(rewards.rewards, rewards.valid, completions.group_ids)
            advantages = (to_go - expected.to(to_go.dtype)[:, None]) * counted
        logprobs = self.logprobs_of(completions, self.rows_to_train(rewards.valid, advantages))
        return Experience(
            completions=completions,
            rewards=rewards.rewards,
            row_mask=rewards.valid,
            advantages=advantages,
            old_logprobs=logprobs.old,
            ref_logprobs=logprobs.ref,
        )

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A baseline may have state, as the running mean has."""
        super().on_save_checkpoint(checkpoint)
        checkpoint["baseline"] = (self.deltas or self.baseline).state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore it."""
        super().on_load_checkpoint(checkpoint)
        # Checkpoints written before 0.3 hold only the number.
        state = checkpoint.get("baseline", {"mean": checkpoint.get("running_baseline")})
        (self.deltas or self.baseline).load_state_dict(state)
