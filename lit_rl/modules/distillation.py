"""Distillation: the policy learns a teacher's next-token distributions on tokens that it sampled itself.

    1. sample completions and run their programs                              RolloutModule.collect
    2. let the teacher read each row, with hindsight if there is any          make_experience, Hindsight.view
    3. minimise weight * divergence(policy, teacher) - reward_weight * advantage of the rewards, per token

With :class:`~lit_rl.rollout.Hindsight` and the policy itself as teacher this is self-distillation from feedback (SDPO).

Letters: N rows, T completion tokens, n rows of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Unpack

from torch import Tensor

from lit_rl.errors import UsageError
from lit_rl.execution.interface import Verdict
from lit_rl.math.divergences import JSD, Divergence, SampledReverseKL
from lit_rl.math.masking import aggregate
from lit_rl.models.policy import Policy
from lit_rl.models.reference import NoGradScorer
from lit_rl.modules.grpo import GRPO, GRPOOptions
from lit_rl.modules.minibatches import all_microbatches, divide_into_microbatches
from lit_rl.modules.setup_check import task_of_trainer
from lit_rl.rewards.composite import Composite
from lit_rl.rewards.term import RewardOutput, RewardTerm
from lit_rl.rewards.token_credit import CreditSpreader, score_charging_failed_line
from lit_rl.rollout import Rollout
from lit_rl.rollout.hindsight import Hindsight
from lit_rl.signature_check import NonNegativeFloat, PositiveFloat, checked_dataclass
from lit_rl.training.ranks import Means
from lit_rl.types import Experience, Problem


@checked_dataclass
@dataclass(frozen=True)
class DistillationConfig:
    """Settings of learning from a teacher and from rewards.

    Args:
        divergence: distance from the teacher, over the vocabulary (``JSD``; with ``beta: 1`` the reverse KL) or of
            the sampled token (``SampledReverseKL``).
        weight: weight of the divergence in a token's loss, or of ``SampledReverseKL`` in a token's advantage.
        reward_weight: factor of the advantages that the rewards give; 0 leaves rewards to the logs.
        rows: rows that the teacher corrects: ``all``, or those that ``failed``.
        tokens: tokens of those rows: ``all``, or only those of the ``failing_line`` if the run names that line.
    """

    divergence: Divergence = JSD(beta=1.0)  # noqa: RUF009  # frozen
    weight: PositiveFloat = 1.0
    reward_weight: NonNegativeFloat = 0.0
    rows: Literal["all", "failed"] = "all"
    tokens: Literal["all", "failing_line"] = "all"

    def teacher_mask(self, rollout: Rollout) -> Tensor:
        """Return [N, T] bool: True for tokens that the teacher may correct."""
        rows = rollout.completions
        chosen = rows.completion_mask.clone()
        for row, judgement in enumerate(rollout.judgements):
            if self.rows == "failed" and judgement.outcome.verdict is Verdict.PASSED:
                chosen[row] = False
            elif self.tokens == "failing_line" and judgement.program is not None:
                turn = rows.turns[row][-1]
                spans = score_charging_failed_line(turn.text, judgement, 0.0, 1.0).spans
                if spans and not judgement.outcome.passed:
                    mask = rows.on_host.completion_mask[row]
                    places = CreditSpreader(turn.token_byte_spans, mask, judgement.program, turn.start)
                    chosen[row] = False
                    chosen[row, places.columns_overlapping(spans[0].start, spans[0].end).to(chosen.device)] = True
        return chosen & rows.completion_mask


class Distillation(GRPO):
    """On-policy distillation, alone or beside GRPO; with hindsight the policy teaches itself (SDPO).

    Args:
        policy: the policy to train.
        rewards: reward terms; logged, and learned from where ``distil.reward_weight`` is above 0.
        teacher: model whose distributions are learned: another model with the policy's tokenizer, which is frozen;
            ``reference``, the policy's start or moving average; ``policy``, the policy's present weights; or a
            :class:`~lit_rl.models.NoGradScorer` of your own.
        hindsight: what the teacher reads besides the policy's prompt; ``None`` for nothing.
        distil: divergence, weights, rows and tokens.
        **options: arguments of :class:`~lit_rl.modules.GRPO`; ``update.refresh_reference_every`` and ``_share`` move a
            ``reference`` that teaches.

    Source:
        Agarwal et al. 2023 (GKD), https://arxiv.org/abs/2306.13649; Hübotter et al. 2026 (SDPO),
        https://arxiv.org/abs/2601.20802
    """

    def __init__(
        self,
        policy: Policy,
        rewards: list[RewardTerm] | Composite,
        teacher: Policy | NoGradScorer | Literal["reference", "policy"],
        *,
        hindsight: Hindsight | None = None,
        distil: DistillationConfig = DistillationConfig(),  # frozen
        **options: Unpack[GRPOOptions],
    ) -> None:
        super().__init__(policy, rewards, **options)
        if teacher == "policy" and hindsight is None:
            raise UsageError(
                "a policy that is its own teacher learns nothing without hindsight: set hindsight, or take another "
                "model or the reference as teacher"
            )
        self.teacher, self.hindsight, self.distil = teacher, hindsight, distil
        self.reads_reference = teacher == "reference"
        self.scorer: NoGradScorer | None = None  # the teacher, once it is loaded
        self.teacher_mask: Tensor | None = None  # [N, T] bool, tokens of the present rollout that the teacher corrects
        self._gap = Means()

    # -- experience ----------------------------------------------------------------------------------------

    def make_experience(self, rollout: Rollout, rewards: RewardOutput) -> Experience:
        view, self.teacher_mask = rollout.completions, self.distil.teacher_mask(rollout)
        if self.hindsight is not None:
            view, shown = self.hindsight.teacher_inputs(rollout, self.policy.codec, self.collector.runner)
            self.teacher_mask &= shown[:, None]
        self._gap = Means()
        experience = super().make_experience(rollout, rewards)
        experience = replace(
            experience,
            advantages=self.distil.reward_weight * experience.advantages,
            teacher_mask=self.teacher_mask,
            teacher_inputs=view,
        )
        if isinstance(self.distil.divergence, SampledReverseKL):
            return self._add_teacher_advantages(experience, self.distil.divergence)
        return experience

    def _add_teacher_advantages(self, experience: Experience, divergence: SampledReverseKL) -> Experience:
        """Add the teacher's advantages, for which one number per token is enough, to the advantages of the rewards."""
        assert self.teacher_mask is not None and experience.teacher_inputs is not None
        view, microbatches = experience.teacher_inputs, all_microbatches(self.dealt)
        if view is not experience.completions:  # longer prompts, which would exceed the limits of these micro-batches
            rows = (experience.row_mask & self.teacher_mask.any(-1)).nonzero()[:, 0].cpu()
            size, tokens = self.update.microbatch_size, self.update.microbatch_tokens
            microbatches = divide_into_microbatches(view, rows, size, tokens, self.policy.shares_prompts)
        assert self.scorer is not None
        theirs = self.logprobs.compute_under(self.scorer, view, microbatches)
        ours = experience.old_logprobs
        ours = self.logprobs.old_logprobs(experience.completions, self.dealt) if ours is None else ours
        counted = self.teacher_mask & experience.loss_mask
        self._record_teacher_gap(ours - theirs, counted)
        found = divergence.advantages(ours, theirs.to(ours.dtype)) * counted
        return replace(experience, advantages=experience.advantages + self.distil.weight * found)

    def rows_to_train(self, row_mask: Tensor, advantages: Tensor) -> Tensor:
        assert self.teacher_mask is not None
        return super().rows_to_train(row_mask, advantages) | (row_mask & self.teacher_mask.any(-1).to(row_mask.device))

    # -- loss ----------------------------------------------------------------------------------------------

    def learn_from(self, experience: Experience) -> Means:
        """Learn as every algorithm does; then free the weights gathered for teacher and reference."""
        means = super().learn_from(experience)
        assert self.scorer is not None
        self.scorer.free_gathered_weights()
        if self.reference is not None:
            self.reference.free_gathered_weights()
        return means

    def policy_loss(self, micro: Experience, denominator: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        divergence = self.distil.divergence
        if isinstance(divergence, SampledReverseKL):
            return super().policy_loss(micro, denominator)
        assert isinstance(divergence, JSD) and self.scorer is not None
        assert micro.teacher_inputs is not None and micro.teacher_mask is not None
        logprobs, entropy, gap = self.policy.logprobs_and_divergence(
            micro.completions,
            self.scorer.lazy_token_logits(micro.teacher_inputs.trim()),
            divergence,
            self.sampling.temperature,
            self.objective.has_entropy_bonus,
        )
        loss, metrics = self.token_losses_and_metrics(micro, logprobs, entropy)
        self._record_teacher_gap(gap.detach(), micro.teacher_mask & micro.loss_mask)
        loss = loss + self.distil.weight * gap * micro.teacher_mask
        return aggregate(loss, micro.loss_mask, mode=self.update.aggregate, denominator=denominator), metrics

    def _record_teacher_gap(self, gap: Tensor, teacher_mask: Tensor) -> None:
        self._gap.add_sum("teacher/gap", (gap * teacher_mask).sum(), teacher_mask.sum())

    def algorithm_metrics(self, batch: Sequence[Problem], rollout: Rollout, experience: Experience) -> Means:
        assert experience.teacher_mask is not None
        means = super().algorithm_metrics(batch, rollout, experience)
        mask = experience.loss_mask
        means.add_sum("teacher/taught_fraction", (experience.teacher_mask & mask).sum(), mask.sum())
        means.merge(self._gap)
        return means

    # -- life of a run -------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        super().setup(stage)
        task = task_of_trainer(self.trainer)
        if stage == "fit" and task is not None and self.hindsight is not None:
            self.hindsight.require_any_hint(task.problems("train"), self.sampling.num_samples)

    def configure_model(self) -> None:
        super().configure_model()
        if not self.is_fitting:
            return
        if isinstance(self.teacher, NoGradScorer):
            self.scorer = self.teacher
        elif isinstance(self.teacher, Policy):
            self.teacher.load()
            self.teacher.requires_grad_(False)
            ours, theirs = (getattr(one, "tokenizer", None) for one in (self.policy, self.teacher))
            if ours is not None and theirs is not None:
                differing = sorted(dict(ours.get_vocab().items() ^ theirs.get_vocab().items()))
                if differing:
                    raise UsageError(
                        f"teacher: expected the policy's tokenizer, got one with {len(differing)} differing tokens, "
                        f"such as {', '.join(map(repr, differing[:3]))}; a teacher scores the policy's token ids, so "
                        "take a model of the same family"
                    )
            self.scorer = NoGradScorer(self.teacher, own=self.teacher)
        else:
            self.scorer = self.reference if self.teacher == "reference" else NoGradScorer(self.policy)
        self.configure_threads()  # for the teacher, too
