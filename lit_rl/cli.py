"""The command line: ``lit-rl fit | validate | test | predict --config FILE``, and the verbs around a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from jsonargparse import ArgumentError
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI

from lit_rl.callbacks.checkpointing import Checkpointing
from lit_rl.data.base import TaskDataModule
from lit_rl.messages import fail
from lit_rl.models.phase import where
from lit_rl.models.strategy import check_strategy
from lit_rl.modules.base import PolicyModule
from lit_rl.shipped_configs import with_paths
from lit_rl.trainer import TRAINER_DEFAULTS, quiet

DEBUG_VARIABLE = "LIT_RL_DEBUG"

AROUND_A_RUN = "check-data | configs | export | report"
"""The verbs of :mod:`lit_rl.commands`, for the help."""


class OneLineParser(LightningArgumentParser):
    """Errors in one line: what is wrong, what came, what to do; no usage dump before it."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the error and exit with status 2; where the parser only tries something, raise as it expects."""
        if not self.exit_on_error:
            super().error(message, ex)
        fail(message, status=2)


class Cli(LightningCLI):
    """LightningCLI with modules and tasks chosen by ``class_path`` and errors in one line."""

    def __init__(self, args: Sequence[str], run: bool = True) -> None:
        quiet()
        super().__init__(
            PolicyModule,
            TaskDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            trainer_defaults=TRAINER_DEFAULTS,
            # Modules build their own optimizer; a top-level --optimizer would silently replace it.
            auto_configure_optimizers=False,
            save_config_kwargs={"overwrite": True},
            seed_everything_default=0,
            args=list(args),
            run=run,
        )

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """A parser whose errors are one line, and whose help knows the verbs that are not Lightning's."""
        about = {
            "description": "Train and measure language models that write code.",
            "epilog": f"Around a run, each with a --help of its own: lit-rl {AROUND_A_RUN}.",
        }
        parser = OneLineParser(**{**kwargs, **about})
        parser.add_argument(
            "-c", "--config", action="config", help="Path to a configuration file in json or yaml format."
        )
        return parser

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        """Look at the strategy first: Lightning's own messages do not know which ones work here."""
        check_strategy(self._get(self.config_init, "trainer", default={}).get("strategy", "auto"))
        return super().instantiate_trainer(**kwargs)

    def before_fit(self) -> None:
        """A run that saves itself goes on where it stopped."""
        for callback in self.trainer.checkpoint_callbacks:
            if isinstance(callback, Checkpointing):
                callback.config = self._parser("fit").dump(self.config["fit"], skip_none=False)
                options = self.config_init["fit"]
                options["ckpt_path"] = callback.prepare(self.trainer, options.get("ckpt_path"))

    def before_predict(self) -> None:
        """Callbacks write what was predicted; keeping all of it in memory as well has no reader."""
        self.config_init["predict"]["return_predictions"] = False

    def after_fit(self) -> None:
        """A run that was told to stop says by its exit status that it wants to go on."""
        for callback in self.trainer.checkpoint_callbacks:
            if isinstance(callback, Checkpointing) and callback.exit_status:
                raise SystemExit(callback.exit_status)


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of ``lit-rl``."""
    arguments = list(sys.argv[1:] if args is None else args)
    import lit_rl.commands as commands  # also registers classes under their short names

    # A task or reward in a file beside the configuration is found; last, so that it hides no package.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    verb = commands.VERBS.get(arguments[0]) if arguments else None
    try:
        arguments = with_paths(arguments)
    except FileNotFoundError as error:
        fail(str(error), status=2)
    try:
        if verb is not None:
            verb(arguments[1:])
        else:
            Cli(arguments)
    except KeyboardInterrupt:
        fail("interrupted", status=130)
    except ArgumentError as error:
        fail(str(error), status=2)
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        place = where()
        fail((f"{place}: " if place else "") + f"{error}\n(set {DEBUG_VARIABLE}=1 to see where)", status=1)
