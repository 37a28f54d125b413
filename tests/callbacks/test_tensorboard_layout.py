"""Logs that TensorBoard and other loggers get of a real small run, read back from their files.

Weights & Biases (offline) and MLflow with their real packages; skipped, by name, where these are missing.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from support.small_runs import Words, build_module
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import plugin_data_pb2

from lit_rl.callbacks import CompletionLog, ExecutionEvaluation, TensorBoardLayout
from lit_rl.callbacks.tensorboard_layout import OVERVIEW
from lit_rl.models import SeparateCritic
from lit_rl.modules import GRPO, PPO, Objective
from lit_rl.trainer import Trainer

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def run(
    tokenizer: str, folder: Path, logger: Logger, *callbacks: Any, validate_first: bool = False, **arguments: Any
) -> None:
    module = build_module(tokenizer, **({"max_rollouts": 4} | arguments))
    trainer = Trainer(
        accelerator="cpu",
        devices=1,
        logger=logger,
        callbacks=[*callbacks, ExecutionEvaluation()],
        limit_val_batches=1,
        val_check_interval=2,
        check_val_every_n_epoch=None,
        enable_progress_bar=False,
        default_root_dir=folder,
    )
    if validate_first:
        trainer.validate(module, datamodule=Words(batch_size=3), verbose=False)
    trainer.fit(module, Words(batch_size=3))


@pytest.fixture(scope="module")
def events(byte_tokenizer: str, tmp_path_factory: pytest.TempPathFactory) -> EventAccumulator:
    folder = tmp_path_factory.mktemp("board")
    logger = TensorBoardLogger(str(folder), name="run")
    watching = TensorBoardLayout(histograms_every=2), CompletionLog(num_problems=2)
    run(byte_tokenizer, folder, logger, *watching, validate_first=True)
    found = EventAccumulator(logger.log_dir, size_guidance={"histograms": 0, "tensors": 0})
    found.Reload()
    return found


def test_the_overview_is_there_and_its_charts_have_curves(events: EventAccumulator) -> None:
    layout = layout_pb2.Layout.FromString(events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    assert [category.title for category in layout.category] == list(OVERVIEW)
    scalars = events.Tags()["scalars"]
    empty = []
    for category in layout.category:
        for chart in category.chart:
            series = chart.margin.series
            tags = [series[0].value, series[0].lower, series[0].upper] if series else list(chart.multiline.tag)
            if not any(re.match(tag, name) for tag in tags for name in scalars):
                empty.append(chart.title)
    # The task runs no programs.
    assert empty == [
        "pass@1 on validation problems",
        "how programs end",
        "length by verdict (tokens)",
        "programs: seconds to run, and in the queue",
    ]


def test_runs_can_be_compared_by_their_settings(events: EventAccumulator) -> None:
    metadata = events.SummaryMetadata("_hparams_/session_start_info")
    data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    settings = data.session_start_info.hparams
    assert settings["model"].string_value == "GRPO" and settings["seed"].number_value == 0
    assert settings["model.update.optimizer.lr"].number_value == 0.5
    assert settings["model.sampling.num_samples"].number_value == 4
    assert settings["model.objective.loss"].string_value == "Clipped"
    metadata = events.SummaryMetadata("_hparams_/experiment")
    data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
    compared = {info.name.tag for info in data.experiment.metric_infos}
    assert compared == {"val/greedy/reward/mean", "reward/mean"} and compared <= set(events.Tags()["scalars"])


def test_distributions_are_written_every_few_rollouts(events: EventAccumulator) -> None:
    names = {f"distribution/{name}" for name in ("reward", "length", "advantage", "log_ratio_to_sampler")}
    assert set(events.Tags()["histograms"]) == names
    for name in names:
        assert [event.step for event in events.Histograms(name)] == [2, 4]
    assert events.Histograms("distribution/reward")[0].histogram_value.num == 12


def test_curves_and_texts_count_rollouts_from_1_and_a_validation_before_them_is_at_0(events: EventAccumulator) -> None:
    assert [event.step for event in events.Scalars("reward/mean")] == [1, 2, 3, 4]
    assert [event.step for event in events.Scalars("val/greedy/reward/mean")] == [0, 2, 4]
    for name, steps in (("completions/greedy/validation0", [0, 2, 4]),):
        (tag,) = [tag for tag in events.Tags()["tensors"] if tag.startswith(name)]
        assert [event.step for event in events.Tensors(tag)] == steps
    assert "step" not in events.Tags()["scalars"]


# -- the page -----------------------------------------------------------------------------------------------------


def documented() -> list[re.Pattern[str]]:
    """Names in the tables of docs/metrics.md; what stands in angle brackets may be anything."""
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    return [re.compile(re.sub(r"<\w+>", "[^/]+", name)) for name in names]


@pytest.mark.parametrize(
    ("cls", "arguments"),
    [
        (GRPO, {"objective": Objective(kl_coef=0.1, entropy_coef=0.01), "minibatches": 2, "max_resamples": 1}),
        (PPO, {"critic": SeparateCritic(), "objective": Objective(kl_coef=0.1, kl_in="reward", kl_kind="k1")}),
    ],
)
def test_the_page_explains_every_number(byte_tokenizer: str, tmp_path: Path, cls: Any, arguments: Any) -> None:
    logger = TensorBoardLogger(str(tmp_path), name="run")
    run(byte_tokenizer, tmp_path, logger, cls=cls, **arguments)
    found = EventAccumulator(logger.log_dir)
    found.Reload()
    names = set(found.Tags()["scalars"]) - {"epoch", "hp_metric"}
    assert len(names) > 40
    patterns = documented()
    shortened = {name: re.sub(r"^val/greedy/(?!pass@|num_|median)", "", name) for name in names}
    assert [name for name, short in shortened.items() if not any(p.fullmatch(short) for p in patterns)] == []
