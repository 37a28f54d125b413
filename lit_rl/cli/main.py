"""The command line: ``lit-rl fit | validate | test | predict --config FILE``, and the verbs around a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn

import yaml
from jsonargparse import ArgumentError
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback, ProgressBar
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning_utilities.core.enums import StrEnum
from lightning_utilities.core.rank_zero import rank_zero_info

from lit_rl.callbacks.checkpointing import Checkpointing, find_checkpointing_callbacks
from lit_rl.callbacks.progress_screen import ProgressScreen
from lit_rl.cli.check_contamination import check_contamination
from lit_rl.cli.check_data import check_data
from lit_rl.cli.config_files import check_and_expand_configs
from lit_rl.cli.export import export_policy
from lit_rl.cli.messages import error_text, exit_with_error, shorten_parser_message
from lit_rl.cli.plan import print_resource_plan
from lit_rl.cli.replay import rejudge_recorded_run
from lit_rl.cli.run_config import (
    SaveConfigInTraining,
    apply_run_dir,
    fill_in_schedule_length,
    fill_in_seeds,
    rewrite_policy_nulls,
    use_verb_as_log_version,
)
from lit_rl.cli.shipped_configs import replace_config_names
from lit_rl.cli.verbs import ABOUT, AROUND_A_RUN, RUNS
from lit_rl.data.task import TaskDataModule
from lit_rl.errors import LitRLError, UsageError
from lit_rl.modules.policy_module import PolicyModule
from lit_rl.run_files.settings import CONFIG_FILE, NOT_SET, locate_setting, setting_changes_on_resume
from lit_rl.signature_check import classes_by_name
from lit_rl.trainer import TRAINER_DEFAULTS, Trainer, silence_lightning
from lit_rl.training.preemption import INTERRUPT_STATUS
from lit_rl.training.ranks import describe_rank_and_phase

DEBUG_VARIABLE = "LIT_RL_DEBUG"

# The parser knows classes by their short names once they are loaded.
classes_by_name()

# A default of Lightning's Timer is a member of an enumeration, which a configuration can name but YAML cannot write.
yaml.SafeDumper.add_multi_representer(StrEnum, lambda dumper, member: dumper.represent_str(str(member.value)))

VERBS: dict[str, Callable[[Sequence[str]], None]] = {
    "check-contamination": check_contamination,
    "check-data": check_data,
    "export": export_policy,
    "replay": rejudge_recorded_run,
}
"""Functions of the verbs that need torch, called with the verb's arguments; ``plan`` also needs the parser."""

_HOMES = {"model": PolicyModule, "data": TaskDataModule, "held_out": TaskDataModule}
"""Sections of a configuration that describe a class, each with the base of that class."""

_INTERRUPTED = (
    "interrupted: what was not saved is lost; the same command continues from the last checkpoint, if there is one"
)


_IN_ONE_LINE = (LitRLError, ValueError, OSError, ImportError, MisconfigurationException)
"""Errors whose text is enough; other errors are printed with the place where they arose."""


class OneLineErrorParser(LightningArgumentParser):
    """Parser with one-line errors: what is wrong, the value, what to do; no usage dump before it."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Print the error and exit with status 2; raise the error instead if the parser only tries something."""
        if not self.exit_on_error:
            super().error(message, ex)
        exit_with_error(shorten_parser_message(message), status=2)


class Cli(LightningCLI):
    """LightningCLI with modules and tasks chosen by ``class_path`` and errors in one line."""

    def __init__(self, args: Sequence[str], run: bool = True) -> None:
        silence_lightning()
        self._verbs = {*args[:1]} & RUNS.keys() or RUNS
        super().__init__(
            PolicyModule,
            TaskDataModule,
            subclass_mode_model=True,
            subclass_mode_data=True,
            trainer_class=Trainer,
            trainer_defaults=TRAINER_DEFAULTS,
            # Modules build their own optimizer; a top-level --optimizer would silently replace it.
            auto_configure_optimizers=False,
            save_config_callback=SaveConfigInTraining,
            save_config_kwargs={"overwrite": True},
            seed_everything_default=0,
            args=list(args),
            run=run,
        )

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Return a parser with one-line errors, whose help also lists our own verbs."""
        verbs = f"Around a run, each with a --help of its own: lit-rl {' | '.join(AROUND_A_RUN)}."
        parser = OneLineErrorParser(**{**kwargs, "description": ABOUT, "epilog": verbs})
        parser.add_argument(
            "-c", "--config", action="config", help="Path to a configuration file in json or yaml format."
        )
        return parser

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the arguments of every verb, so that each verb reads configurations that other verbs saved."""
        parser.add_argument(
            "--run_dir",
            type=str | None,
            default=None,
            help="Folder of the run; replaces the logger's save_dir and name, and Checkpointing's folder.",
        )
        parser.add_argument(
            "--validate_first",
            type=bool,
            default=False,
            help="Validate before fit begins to train, unless it resumes.",
        )

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]  # a static method of Lightning's
        """Return the given verb, or all verbs: each verb needs a parser of its own, which takes time to make."""
        return {verb: skipped for verb, skipped in LightningCLI.subcommands().items() if verb in self._verbs}

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        """Print Lightning's table of all metrics only on request: each task would print the table again."""
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand in ("validate", "test"):
            parser.set_defaults(verbose=False)
        return parser

    def before_instantiate_classes(self) -> None:
        """Fill in settings that follow from the run's folder, seed and length."""
        config = self.config.get(str(self.subcommand), self.config)
        apply_run_dir(config)
        use_verb_as_log_version(config, str(self.subcommand))
        fill_in_seeds(config)
        fill_in_schedule_length(config)

    def _parse_ckpt_path(self) -> None:
        """Do not read the checkpoint: Lightning would load all of it to look for arguments, which ours do not have."""

    def before_fit(self) -> None:
        """Resume a run that saves itself; only the first start of such a run uses the given checkpoint."""
        savers = find_checkpointing_callbacks(self.trainer)
        if not savers and not getattr(self.trainer, "fast_dev_run", False):
            rank_zero_info(
                "trainer.callbacks has no Checkpointing, so nothing is saved, and the same command cannot resume: "
                "list Checkpointing there, or add --run_dir FOLDER"
            )
        options: Any = self.config_init["fit"]
        given = options.get("ckpt_path")
        if options.get("validate_first") and given is None and not any(one.run_folder.checkpoints() for one in savers):
            self.trainer.validate(self.model, datamodule=self.datamodule, verbose=False)
        for callback in savers:
            callback.config = self._parser("fit").dump(self.config["fit"], skip_none=False)
        trainer: Any = self.trainer
        options["ckpt_path"] = trainer.lock_and_resolve_checkpoint(given)
        for callback in savers if options["ckpt_path"] != given else ():
            self._log_config_changes(callback)

    def _log_config_changes(self, callback: Checkpointing) -> None:
        """Print which settings differ from the previous start's, and release the folder if a change is refused.

        An ignored change is recorded with the old value, so that config.yaml and checkpoints say what was in force.
        """
        before, config = Path(self.trainer.log_dir or ".") / CONFIG_FILE, self.config["fit"]
        if not before.is_file():
            return
        old = yaml.safe_load(before.read_text("utf-8"))
        try:
            for change in setting_changes_on_resume(old, callback.config or ""):
                rank_zero_info(f"  {change}")
                if change.why_ignored and change.was != NOT_SET:
                    key, value = locate_setting(old, change.name)
                    config[key] = value
        except UsageError:
            callback.run_folder.unlock()
            raise
        callback.config = self._parser("fit").dump(config, skip_none=False)

    def before_predict(self) -> None:
        """Keep no predictions in memory: callbacks write them, and nothing reads a copy in memory."""
        self.config_init["predict"]["return_predictions"] = False
        hooks = ("on_predict_batch_end", "on_predict_epoch_end", "on_predict_end")
        callbacks: list[Callback] = self.trainer.callbacks  # type: ignore[attr-defined]
        kinds = [type(one) for one in callbacks if not isinstance(one, ProgressBar | ProgressScreen)]
        if not any(getattr(kind, hook) is not getattr(Callback, hook) for kind in kinds for hook in hooks):
            raise UsageError(
                "predict would write no completions: add a callback such as CompletionWriter with a path, or set "
                "--run_dir"
            )


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of ``lit-rl``."""
    arguments = list(sys.argv[1:] if args is None else args)
    # Makes tasks and rewards in files of the working folder importable; last, so that they hide no package.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    verb = VERBS.get(arguments[0]) if arguments else None
    if arguments[:1] == ["plan"]:
        verb = partial(print_resource_plan, build=partial(Cli, run=False))
    try:
        if verb is None and len(arguments) > 1 and arguments[0] in RUNS and not arguments[1].startswith("-"):
            raise UsageError(
                f"unexpected argument {arguments[1]}: write --config {arguments[1]} if it is a configuration"
            )
        arguments = rewrite_policy_nulls(check_and_expand_configs(replace_config_names(arguments), _HOMES, Trainer))
    except (OSError, ValueError) as error:
        exit_with_error(error_text(error), status=2)
    try:
        if verb is not None:
            verb(arguments[1:])
        else:
            Cli(arguments)
    except KeyboardInterrupt as error:
        if error.args:  # they say where the run is saved
            print(error, file=sys.stderr)
            raise SystemExit(INTERRUPT_STATUS) from None
        exit_with_error(_INTERRUPTED, status=INTERRUPT_STATUS)
    except ArgumentError as error:
        exit_with_error(shorten_parser_message(str(error)), status=2)
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        rank = describe_rank_and_phase()
        message = error_text(error)
        if message.startswith("Does not validate against"):  # a constructor's error, wrapped by the parser
            message = shorten_parser_message(message)
        # The parser sometimes raises our own errors anew.
        says_enough = isinstance(error, _IN_ONE_LINE) and "\n" not in message
        place = extract_tb(error.__traceback__)[-1]
        where_from = f"{Path(place.filename).name}, line {place.lineno}; set {DEBUG_VARIABLE}=1 to see more"
        what = message if says_enough else f"{type(error).__name__}: {message} ({where_from})"
        exit_with_error(f"{rank}: {what}" if rank else what, status=1)
