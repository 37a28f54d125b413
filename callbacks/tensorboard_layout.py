"""TensorBoard views of a run besides its curves: an overview, distributions, and hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import lightning.pytorch as pl

from lit_rl.callbacks.checkpointing import last_validation_metrics
from lit_rl.execution.interface import Verdict
from lit_rl.reports.run_summary import tensorboard_loggers
from lit_rl.rollout import FinishedRollout
from lit_rl.run_files.settings import setting_values_by_name
from lit_rl.signature_check import ArgumentChecks, NonNegativeInt


def headline_metric_names(metrics: Mapping[str, float]) -> list[str]:
    """Return the headline metrics of a validation: pass@k after the last turn or, without it, rewards and losses."""
    passes = [name for name in metrics if name.rpartition("/")[2].startswith("pass@")]
    return passes or [name for name in metrics if name.endswith(("reward/mean", "/loss"))]


def _line_chart(*tags: str) -> list[Any]:
    """Return a chart with a line for each metric whose whole name matches one of these patterns."""
    return ["Multiline", [f"^{tag}$" for tag in tags]]


_VERDICTS = [f"verdict/{verdict}_fraction" for verdict in Verdict]
_PHASES = ("sampling", "judging", "rewarding", "preparing", "updating", "idle")

OVERVIEW: dict[str, dict[str, list[Any]]] = {
    "is it learning": {
        "pass@1 on validation problems": _line_chart("val/([^/]+/)*pass@1"),
        "reward of training: mean and standard deviation": _line_chart("reward/mean", "reward/std"),
        "loss on given texts": _line_chart("(sft|dpo)/loss", "val/([^/]+/)*loss"),
        "length (tokens)": _line_chart("completion/length"),
        "entropy (nats a token)": _line_chart("policy/entropy"),
        "KL (nats a token)": _line_chart("policy/kl_to_reference", "policy/approximate_kl"),
        "gap between sampler and trainer (nats)": _line_chart("sampling/logprob_gap/mean", "sampling/logprob_gap/max"),
        "seconds of a rollout": _line_chart(*(f"time/{phase}_seconds" for phase in _PHASES)),
    },
    "programs and rewards": {
        "how programs end": _line_chart(*_VERDICTS),
        "reward terms": _line_chart("reward/(?!p10|p90|std|invalid).*"),
        "cut by the token limit, no program found, no reward": _line_chart(
            "completion/truncated_fraction", "reward/invalid_fraction", "completion/program_rate"
        ),
        "length by verdict (tokens)": _line_chart("length/.*"),
        "groups that teach nothing, rows that train": _line_chart(
            "group/zero_advantage_fraction", "update/trained_fraction"
        ),
    },
    "the update": {
        "ratio to the old policy": _line_chart("policy/ratio_max", "policy/ratio_min"),
        "tokens whose gradient was clipped away": _line_chart("policy/clip_fraction"),
        "norm of the gradient": _line_chart("(policy|critic)/gradient_norm"),
        "learning rate": _line_chart("optimizer/learning_rate"),
        "critic": _line_chart("critic/explained_variance", "critic/value_loss"),
    },
    "speed and memory": {
        "tokens a second": _line_chart("time/tokens_per_second"),
        "programs: seconds to run, and in the queue": _line_chart("sandbox/.*seconds.*"),
        "memory (GB)": _line_chart("memory/peak_gigabytes"),
    },
}
"""Charts of the overview by heading, the most important first; TensorBoard shows them under CUSTOM SCALARS."""

_TEXT_CHARTS = ("loss on given texts", "pass@1 on validation problems", "norm of the gradient", "tokens a second")


class TensorBoardLayout(pl.Callback, ArgumentChecks):
    """Arranges what TensorBoard shows; does nothing for other loggers, which get the same curves.

    At the start of a run the first rank writes an overview (CUSTOM SCALARS) with the most important curves first. After
    the first validation it writes the run's settings (HPARAMS), so that runs can be compared by their pass@k and
    reward. Every few rollouts it writes distributions of rewards, advantages, lengths, and log-ratios between the
    policy, as the last update saw it, and the sampler. ``lit_rl.Trainer`` and ``lit-rl`` add this callback if there is
    a TensorBoard logger.

    Args:
        histograms_every: number of rollouts between two sets of distributions; 0 for none.
    """

    def __init__(self, histograms_every: NonNegativeInt = 10) -> None:
        self.histograms_every = histograms_every
        self._has_settings = False

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._has_settings = False
        for logger in tensorboard_loggers(trainer) if trainer.is_global_zero else ():
            logger.experiment.add_custom_scalars(tensorboard_overview(pl_module))

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.state.fn == "fit" and not self._has_settings:
            self._write_settings(trainer, pl_module, headline_metric_names(last_validation_metrics(trainer)))

    def on_train_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if not self._has_settings:
            self._write_settings(trainer, pl_module, [])

    def _write_settings(self, trainer: pl.Trainer, module: Any, measured: Sequence[str]) -> None:
        """Write the settings, and the metrics by which runs are compared: the table shows their last values."""
        from torch.utils.tensorboard import summary

        self._has_settings = True
        settings = setting_values_by_name(module.settings()) | {"seed": module.seed, "ranks": trainer.world_size}
        known = {name: value for name, value in settings.items() if isinstance(value, str | int | float)}
        training_metric = f"{module.metric_prefix}/loss" if module.metric_prefix else "reward/mean"
        hparams: Any = summary.hparams
        for event in hparams(known, dict.fromkeys([*measured, training_metric], 0.0)):
            for logger in tensorboard_loggers(trainer) if trainer.is_global_zero else ():
                logger.experiment._get_file_writer().add_summary(event)

    def on_rollout_end(self, trainer: pl.Trainer, module: Any, finished: FinishedRollout) -> None:
        if not trainer.is_global_zero or not self.histograms_every or module.clock.count % self.histograms_every:
            return
        rewards, experience, seen = finished.rewards, finished.experience, module.trace.recorded
        mask = experience.loss_mask
        found = {
            "distribution/reward": rewards.rewards[rewards.valid],
            "distribution/length": experience.completions.lengths,
            "distribution/advantage": experience.advantages[mask],
        }
        if "logprobs" in seen:
            sampler = experience.completions.sampler_logprobs.to(seen["logprobs"])
            found["distribution/log_ratio_to_sampler"] = (seen["logprobs"] - sampler)[mask]
        finite = {name: value.float()[value.isfinite()].cpu() for name, value in found.items()}
        for logger in tensorboard_loggers(trainer):
            for name, value in finite.items():
                if len(value):
                    logger.experiment.add_histogram(name, value, module.clock.count)


def tensorboard_overview(module: Any) -> dict[str, dict[str, list[Any]]]:
    """Return the overview without the charts that stay empty in this run, such as a critic's without a critic."""
    learns_texts, has_critic = bool(module.metric_prefix), "critic" in module.trained_parameters_by_group()

    def applies(chart: str) -> bool:
        if learns_texts:
            return chart in _TEXT_CHARTS
        return chart != _TEXT_CHARTS[0] and (has_critic or chart != "critic")

    found = {
        heading: {name: one for name, one in charts.items() if applies(name)} for heading, charts in OVERVIEW.items()
    }
    return {heading: charts for heading, charts in found.items() if charts}
