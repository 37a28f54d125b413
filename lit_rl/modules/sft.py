"""Supervised fine-tuning on demonstrations: the warm start, and the baseline to beat."""

from __future__ import annotations

from torch import Tensor

from lit_rl.arguments import UsageError
from lit_rl.functional.masking import aggregate, loss_denominator
from lit_rl.modules.text_module import Metrics, TextModule
from lit_rl.rollout import reference_answer
from lit_rl.types import Completions, Problem


class SFT(TextModule):
    """Imitate demonstrations: cross-entropy of completion tokens and EOS, mean over the tokens of the update.

    A problem's demonstration is ``fields["demonstration"]`` where the task gives one, else its reference. Prompt
    tokens are read, never learned. Adapters, a 4-bit base and packing are the policy's: see
    :class:`lit_rl.models.CausalLM`.

    Its arguments are those of :class:`TextModule`.
    """

    metric_prefix = "sft"

    def texts(self, problem: Problem) -> tuple[str, ...]:
        """The demonstration, if the problem has one."""
        if problem.reference is None and "demonstration" not in problem.fields and not self.trainer.training:
            return ()
        return (demonstration(problem),)

    def share(self, completions: Completions) -> Tensor:
        """Number of completion tokens."""
        return loss_denominator(completions.completion_mask, "token_mean")

    def loss(self, completions: Completions, denominator: Tensor) -> tuple[Tensor, Metrics]:
        """Cross-entropy (nats) of the completions' tokens, divided by the update's count of tokens."""
        logprobs = self.policy.logprobs(completions)
        mask = completions.completion_mask
        return aggregate(-logprobs, mask, mode="token_mean", denominator=denominator), {}


def demonstration(problem: Problem) -> str:
    """The completion to imitate: the task's own, or the reference in the form the prompt asks for.

    Raises:
        ValueError: the problem has neither.
    """
    if "demonstration" in problem.fields:
        return str(problem.fields["demonstration"])
    if problem.reference is None:
        raise UsageError(
            f"problem {problem.task_id} has neither a demonstration nor a reference: SFT needs one of them"
        )
    return reference_answer(problem)
