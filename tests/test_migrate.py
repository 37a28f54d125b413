"""``lit-rl migrate``: a configuration of version 0.3 becomes one of this version, and means the same."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import torch
import yaml
from jsonargparse import ArgumentParser, Namespace
from support.command_line import TINY, answer

from lit_rl.__main__ import main
from lit_rl.cli.migrate import migrate_text
from lit_rl.modules import PolicyModule
from lit_rl.renamed import ARGUMENTS, BASELINES, CLASSES, LOSSES, MODULES, OF_PPO, REMOVED, REMOVED_LATER, migrate

ROOT = Path(__file__).parents[1]
POLICY = {"class_path": "lit_rl.models.CausalLM", "init_args": {"config": TINY, "tokenizer": "x"}}
CRITIC = {"class_path": "lit_rl.models.CorridorCritic", "init_args": {"num_cells": 5}}
VALUES: dict[str, Any] = {
    "optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.25}},
    "lr_scheduler": {"class_path": "torch.optim.lr_scheduler.ConstantLR", "init_args": {"factor": 0.5}},
    "gradient_clip_norm": None,
    "aggregate": "sequence_mean",
    "mask_truncated": True,
    "engine": "lit_rl.engines.InProcess",
    "environment": "lit_rl.rollout.Repair",
    "sampler_check": None,
    "staleness": 1,
    "max_infrastructure_failures": 0.5,
    "validation_sampling": {"greedy": {"temperature": 0.0, "max_tokens": 7}},
    "predict_sampling": {"num_samples": 3},
    "critic_lr": 0.125,
    "critic_gradient_clip_norm": None,
    "value_coef": 0.5,
    "value_clip": 0.5,
    "largest_kl": 0.5,
}
"""Values of keys of 0.3; the others are counts."""


def old(algorithm: str = "PPO", **arguments: Any) -> dict[str, Any]:
    """A configuration of version 0.3."""
    given = {"policy": POLICY, "rewards": [{"class_path": "lit_rl.rewards.TestsReward"}]}
    given |= {"critic": CRITIC} if algorithm == "PPO" else {}
    return {"model": {"class_path": f"lit_rl.modules.{algorithm}", "init_args": given | arguments}}


def migrated(config: dict[str, Any]) -> dict[str, Any]:
    """The same in the form of this version."""
    text, changes = migrate_text(yaml.safe_dump(config, sort_keys=False))
    assert changes
    assert migrate_text(text) == (text, []), "a second time there is nothing to rewrite"
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def parsed(config: dict[str, Any]) -> Namespace:
    """Arguments of the algorithm as this version's parser reads them."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(PolicyModule, "model")
    arguments: Namespace = parser.parse_object({"model": config["model"]}).model.init_args
    return arguments


def at(arguments: Namespace, path: str) -> Any:
    """A value by its dotted key, as plain data."""
    value = arguments[path]
    return value.as_dict() if isinstance(value, Namespace) else value


def holds(found: Any, given: Any) -> bool:
    """Return whether the parsed arguments have all that was given; a class path alone is one without arguments."""
    if isinstance(given, dict):
        return all(holds(found[name], value) for name, value in given.items())
    return bool(found == given or (isinstance(found, dict) and found.get("class_path") == given))


def test_each_key_arrives_at_its_new_place_with_its_value() -> None:
    places = ARGUMENTS | OF_PPO
    values = dict.fromkeys(places, 4) | dict.fromkeys(OF_PPO, 0.75) | {"whiten_advantages": False} | VALUES
    found = migrated(old(**values))
    assert not {*places} - {place.partition(".")[0] for place in places.values()} & found["model"]["init_args"].keys()
    arguments = parsed(found)
    for key, place in places.items():
        assert holds(at(arguments, place), values[key]), key


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_by_name_becomes_a_class_with_the_same_numbers(name: str) -> None:
    bounds = {"clip_low": 0.1, "clip_high": 0.3} if name in ("clipped", "cispo") else {}
    bounds |= {"importance_cap": 3.0} if name == "importance_sampling" else {}
    loss = parsed(migrated(old("GRPO", objective={"loss": name, **bounds}))).objective.loss
    assert loss.class_path == f"lit_rl.losses.{LOSSES[name]}"
    given = {"cap" if key == "importance_cap" else key: value for key, value in bounds.items()}
    assert holds(loss.init_args.as_dict() if loss.get("init_args") else {}, given)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_by_name_becomes_a_class(name: str) -> None:
    algorithm = "REINFORCE" if name == "mean" else "GRPO"
    baseline = migrated(old(algorithm, baseline=name, sampling={"num_samples": 4}))["model"]["init_args"]["baseline"]
    kind, values = BASELINES[name]
    assert baseline == {"class_path": f"lit_rl.advantages.{kind}"} | ({"init_args": values} if values else {})


def test_scale_goes_into_the_baseline() -> None:
    scaled = migrated(old("GRPO", scale_by="none"))["model"]["init_args"]["baseline"]
    assert scaled == {"class_path": "lit_rl.advantages.GroupMean", "init_args": {"normalize": "none"}}


@pytest.mark.parametrize(
    ("treatment", "place"), [("bootstrap", "critic_update.bootstrap_truncated"), ("mask", "update.mask_truncated")]
)
def test_truncation_is_a_switch_of_the_group_it_concerns(treatment: str, place: str) -> None:
    arguments = parsed(migrated(old(truncation=treatment)))
    assert arguments[place] is True
    assert "truncation" not in arguments
    assert "update" not in migrated(old(truncation="zero"))["model"]["init_args"]


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_option_is_left_out_where_it_did_nothing_and_refused_elsewhere(name: str) -> None:
    config = old(num_epochs=2, **{name: REMOVED[name]})
    assert name not in migrated(config)["model"]["init_args"]
    with pytest.raises(ValueError, match=f"{name}: version 0.4 has removed it"):
        migrate(old(**{name: 7}))


@pytest.mark.parametrize("option", REMOVED_LATER)
def test_a_removed_option_of_a_task_or_reward_is_left_out_at_its_default_and_refused_else(option: str) -> None:
    kind, name = option.split(".")
    model = "model:\n  init_args:\n    seed: 3\n"
    kept = f"{model}data:  # of a run\n  class_path: lit_rl.data.{kind}\n  init_args:\n    seed: 3  # kept\n"
    assert migrate_text(f"{kept}    {name}: {json.dumps(REMOVED_LATER[option])}\n") == (kept, [ANY])
    with pytest.raises(ValueError, match=f"{option}: this version has removed it; leave it out"):
        migrate({"data": {"class_path": kind, "init_args": {name: 7}}})


@pytest.mark.parametrize(("old", "new"), MODULES.items())
def test_a_class_is_found_in_the_file_that_has_it_now(old: str, new: str) -> None:
    before = f"model:\n  init_args:\n    rewards:\n    - class_path: {old}.Some  # kept\n"
    text, changes = migrate_text(before)
    assert text == before.replace(f"{old}.", f"{new}.")
    assert changes == [f"{old}.Some is {new}.Some"]
    assert find_spec(new) is not None and find_spec(old) is None


@pytest.mark.parametrize("name", CLASSES)
def test_a_renamed_class_is_renamed_wherever_it_stands(name: str) -> None:
    config = {"trainer": {"callbacks": [{"class_path": f"lit_rl.callbacks.{name}"}]}, **old()}
    config["model"]["init_args"]["critic"] = f"lit_rl.models.{name}"
    text, _ = migrate_text(yaml.safe_dump(config))
    found = yaml.safe_load(text)
    assert found["trainer"]["callbacks"][0]["class_path"] == f"lit_rl.callbacks.{CLASSES[name]}"
    assert found["model"]["init_args"]["critic"] == f"lit_rl.models.{CLASSES[name]}"


COMMENTED = """\
# About the run.
model:
  class_path: lit_rl.modules.GRPO
  init_args:
    # Twice, because programs are slow.
    num_epochs: 2  # not three
    policy:
      class_path: lit_rl.models.CorridorPolicy
      # Of the policy.
      init_args: {num_cells: 5}
    # Of the optimizer.
    optimizer:
      class_path: torch.optim.Adam
      init_args: {lr: 0.05}  # of Adam
    rewards:
      - class_path: lit_rl.rewards.CorridorReward
# Of the data.
data:
  class_path: lit_rl.data.Corridor
  init_args: {num_cells: 5}  # at the end
"""
MIGRATED = """\
# About the run.
model:
  class_path: lit_rl.modules.GRPO
  init_args:
    policy:
      class_path: lit_rl.models.CorridorPolicy
      # Of the policy.
      init_args: {num_cells: 5}
    rewards:
      - class_path: lit_rl.rewards.CorridorReward
    update:
      # Twice, because programs are slow.
      epochs: 2  # not three
      # Of the optimizer.
      optimizer:
        class_path: torch.optim.Adam
        init_args: {lr: 0.05}  # of Adam
# Of the data.
data:
  class_path: lit_rl.data.Corridor
  init_args: {num_cells: 5}  # at the end
"""


def test_comments_and_what_does_not_change_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(COMMENTED)
    main(["migrate", str(file)])
    assert file.read_text() == MIGRATED
    assert capsys.readouterr().out == (
        f"{file}: rewritten\n  num_epochs is update.epochs\n  optimizer is update.optimizer\n"
    )
    main(["migrate", str(file)])
    assert file.read_text() == MIGRATED
    assert capsys.readouterr().out == f"{file}: nothing to rewrite\n"


def test_the_command_validates_what_it_rewrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(COMMENTED)
    with pytest.raises(SystemExit) as refused:
        main(["validate", "--config", str(file), "--print_config"])
    assert refused.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        f"lit-rl: error: {file}: model.optimizer is unknown to GRPO: give model.update.optimizer; "
        f"lit-rl migrate {file} rewrites a configuration of version 0.3"
    ]
    main(["migrate", str(file)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as accepted:
        main(["validate", "--config", str(file), "--print_config"])
    assert not accepted.value.code
    assert yaml.safe_load(capsys.readouterr().out)["model"]["init_args"]["update"]["epochs"] == 2


def test_the_shipped_configurations_are_of_this_version() -> None:
    for file in (ROOT / "configs").rglob("*.yaml"):
        assert migrate_text(file.read_text())[1] == [], file


MISTAKES = {
    "a list": ("- 1\n- 2\n", "is not a configuration"),
    "nothing": ("", "is empty"),
    "no YAML": ("a: [", "line 1, column"),
    "another file": ("name: x\n", "there is no section name"),
    "a removed option": (yaml.safe_dump(old("GRPO", token_weights=True)), "token_weights: version 0.4 has removed it"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_configuration_is_one_line(mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, said = MISTAKES[mistake]
    file = tmp_path / "file.yaml"
    file.write_text(text)
    status, error = answer(f"migrate {file}", capsys)
    assert (status, error.count("\n"), file.read_text()) == (1, 1, text)
    assert f"lit-rl: error: {file}" in error and said in error


def test_a_checkpoint_of_0_3_builds_its_module(tmp_path: Path) -> None:
    arguments = {
        "policy": {"class_path": "lit_rl.models.CorridorPolicy", "init_args": {"num_cells": 5}},
        "critic": CRITIC,
        "rewards": [{"class_path": "lit_rl.rewards.CorridorReward"}],
        "optimizer": VALUES["optimizer"],
        "num_epochs": 4,
        "num_minibatches": 2,
        "gamma": 0.9,
        "gae_lambda": 0.95,
        "whiten_advantages": False,
        "truncation": "bootstrap",
        "critic_warmup_rollouts": 2,
        "kl_horizon": 10000,
        "estimator": None,
        "objective": {"loss": "clipped", "clip_low": 0.1, "clip_high": 0.3, "kl_in": "reward", "kl_kind": "k1"},
        "validation_sampling": {"greedy": {"temperature": 0.0, "max_tokens": 40}},
        "max_rollouts": 60,
        "seed": 3,
    }
    built = parsed_module(arguments)
    checkpoint = {
        "state_dict": built.state_dict(),
        "rollout_step": 7,
        "global_step": 56,
        "policy_version": 56,
        "pytorch-lightning_version": "2.5.0",
        "config": yaml.safe_dump({"seed_everything": 3, "model": old("PPO")["model"] | {"init_args": arguments}}),
    }
    torch.save(checkpoint, tmp_path / "rollout_000007.ckpt")
    module: Any = PolicyModule.load_from_checkpoint(tmp_path / "rollout_000007.ckpt")
    assert (module.update.epochs, module.update.minibatches, module.clock.count, module.clock.limit) == (4, 2, 7, 60)
    assert (module.estimator.gamma, module.estimator.gae_lambda, module.estimator.whiten) == (0.9, 0.95, False)
    assert (module.objective.loss.clip_low, module.objective.loss.clip_high) == (0.1, 0.3)
    assert module.critic_update.bootstrap_truncated and module.critic_update.warmup_rollouts == 2
    assert module.validation_sampling["greedy"].max_tokens == 40
    assert module.seed == 3
    for name, value in built.state_dict().items():
        assert torch.equal(module.state_dict()[name], value), name


def parsed_module(arguments: dict[str, Any]) -> Any:
    """The module whose weights the checkpoint holds."""
    config = old("PPO")["model"] | {"init_args": dict(arguments)}
    found = {"model": config}
    migrate(found)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(PolicyModule, "model")
    module = parser.instantiate_classes(parser.parse_object(found)).model
    module.load_weights()
    return module
