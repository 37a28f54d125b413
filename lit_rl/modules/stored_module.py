"""What a checkpoint of a module holds, and how a module resumes from one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import lightning.pytorch as pl
import yaml
from jsonargparse import ArgumentParser
from lightning.pytorch.trainer.states import TrainerFn

from lit_rl.models.model_folders import read_checkpoint
from lit_rl.models.policy import Policy
from lit_rl.modules.epochs import settle_progress


class StoredModule(pl.LightningModule):
    """A module whose checkpoints leave out the frozen weights that its configuration can rebuild."""

    policy: Policy

    def __init__(self) -> None:
        super().__init__()
        self.strict_loading = False  # frozen weights are not in a checkpoint; load_state_dict checks the rest

    @property
    def is_fitting(self) -> bool:
        """Whether a trainer trains this module now, rather than measuring it or being absent."""
        return self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store the version of the weights, with which engines label what they sample, and what an export needs."""
        checkpoint["policy_version"] = self.policy.version
        checkpoint["made_of"] = _made_of(self)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Make a fit resume at the rollout after the checkpoint's, even at the end of an epoch."""
        # Checkpoints of version 0.2 have no such entry; every optimizer step has been one of the trainer's.
        self.policy.version = checkpoint.get("policy_version", checkpoint.get("global_step", 0))
        if self.is_fitting:
            settle_progress(self.trainer, checkpoint)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """All weights but frozen base weights, which the configuration can rebuild."""
        state: dict[str, Any] = super().state_dict(*args, **kwargs)
        frozen = {name for name, p in self.named_parameters(remove_duplicate=False) if not p.requires_grad}
        dropped = {name for name in frozen if not self.policy.keeps(name)}
        # Scales of a 4-bit weight are named after it: base.weight.absmax goes with base.weight.
        return {name: value for name, value in state.items() if dropped.isdisjoint(_and_owners(name))}

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]  # hyperparameters are the configuration that it holds
        cls, checkpoint_path: str | Path, **arguments: Any
    ) -> Self:
        """Build a module with the weights of a checkpoint.

        Args:
            checkpoint_path: a file or a folder of shards.
            **arguments: of the constructor; without any the module is built as the configuration in the
                checkpoint says.

        Raises:
            ValueError: no arguments are given and the checkpoint holds no configuration, or it is of another model.
        """
        checkpoint = read_checkpoint(Path(checkpoint_path))
        module = cls(**arguments) if arguments else cls._as_configured(checkpoint.get("config"), checkpoint_path)
        module.load_weights()
        module.on_load_checkpoint(checkpoint)
        module.load_state_dict(checkpoint["state_dict"])
        return module

    @classmethod
    def _as_configured(cls, config: str | None, path: str | Path) -> Self:
        if not config:
            raise ValueError(
                f"{path} holds no configuration (it was not made by lit-rl fit): give {cls.__name__}'s arguments, "
                "at least policy"
            )
        parser = ArgumentParser(exit_on_error=False)
        parser.add_subclass_arguments(StoredModule, "model")
        parsed = parser.parse_object({"model": yaml.safe_load(config)["model"]})
        module: Self = parser.instantiate_classes(parsed).model
        return module

    def load_weights(self) -> None:
        """Load what the constructor left out; later calls do nothing."""
        self.policy.load()

    def prepare_to_load(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for what a checkpoint holds, and check whether it is of this model.

        Args:
            shapes: of the checkpoint's weights, by name.

        Raises:
            ValueError: the checkpoint is of another model: names or shapes differ.
        """
        self.policy.make_room(shapes.keys())
        own = {name: tuple(value.shape) for name, value in self.state_dict().items()}
        wrong = [name for name in own.keys() | shapes.keys() if own.get(name) != shapes.get(name)]
        if wrong:
            raise ValueError(
                f"the checkpoint is of another model: {len(wrong)} weights differ in name or shape, "
                f"for example {sorted(wrong)[0]}; resume with the configuration it was made with"
            )

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a checkpoint's weights.

        Raises:
            ValueError: the checkpoint is of another model: names or shapes differ.
        """
        self.prepare_to_load({name: tuple(value.shape) for name, value in state_dict.items()})
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def _made_of(module: StoredModule) -> str | None:
    """The part of a configuration that builds the module's policy, as JSON; ``None`` if the policy cannot tell."""
    arguments = module.policy.arguments()
    if arguments is None:
        return None
    policy = {"class_path": _path_of(module.policy), "init_args": arguments}
    config = {"model": {"class_path": _path_of(module), "init_args": {"policy": policy}}}
    return json.dumps(config, default=lambda value: dict(value) if isinstance(value, Mapping) else str(value))


def _path_of(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _and_owners(name: str) -> Iterator[str]:
    """``a``, ``a.b``, ``a.b.c`` of the name ``a.b.c``."""
    return accumulate(name.split("."), "{}.{}".format)
