"""What an update saw of each token is kept for callbacks, row by row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from support.small_runs import fit

from lit_rl.modules import Objective, RolloutModule
from lit_rl.rollout import FinishedRollout

Make = Callable[..., RolloutModule]


class Watch(pl.Callback):
    """Keeps what the last rollout came to."""

    def on_rollout_end(self, trainer: Any, module: Any, finished: FinishedRollout) -> None:
        self.completions, self.experience = finished.rollout.completions, finished.experience
        self.seen = module.trace.found


def watch(make_module: Make, folder: Path, **options: Any) -> tuple[torch.Tensor, torch.Tensor, Watch]:
    """Log-probabilities that the sampler reported and that the last update saw, where tokens were trained."""
    watch = Watch()
    fit(make_module(max_rollouts=1, microbatch_size=5, **options), folder, callbacks=[watch])
    trained = watch.experience.loss_mask & (watch.experience.advantages != 0)
    assert trained.any() and watch.seen["logprobs"].shape == trained.shape
    return watch.completions.sampler_logprobs[trained], watch.seen["logprobs"][trained], watch


def test_in_the_first_update_every_row_is_where_it_was_sampled(make_module: Make, tmp_path: Path) -> None:
    """Micro-batches are sorted by length: a row in another's place would show."""
    sampled, seen, _ = watch(make_module, tmp_path)
    assert torch.allclose(sampled.double(), seen.double(), atol=1e-5)


def test_in_the_second_epoch_the_policy_has_moved(make_module: Make, tmp_path: Path) -> None:
    sampled, seen, _ = watch(make_module, tmp_path, epochs=2)
    assert (sampled - seen).abs().max() > 1e-3


def test_rows_that_were_not_trained_were_not_seen(make_module: Make, tmp_path: Path) -> None:
    """Three problems of four rows; those whose advantage is 0 skip the forward pass."""
    _, _, watched = watch(make_module, tmp_path)
    trained = (watched.experience.advantages != 0).any(-1)
    seen = watched.seen["logprobs"].isfinite().any(-1)
    assert torch.equal(seen, trained)


def test_entropy_is_kept_where_it_is_computed(make_module: Make, tmp_path: Path) -> None:
    _, _, watched = watch(make_module, tmp_path, objective=Objective(entropy_coef=0.01))
    entropy, mask = watched.seen["entropy"], watched.experience.loss_mask
    assert (entropy[mask] > 0).all()
