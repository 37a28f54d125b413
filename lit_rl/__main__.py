"""Run ``lit-rl`` or ``python -m lit_rl``, without loading torch and Lightning for verbs that need neither."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from lit_rl import __version__
from lit_rl.cli.messages import exit_with_error, shorten_parser_message, unknown_verb_message
from lit_rl.cli.verbs import AROUND_A_RUN, RUNS, print_help

VERBS_WITHOUT_TORCH = ("configs", "docs", "report", "show")
"""Verbs that are answered without torch."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line ``lit-rl``."""
    arguments = list(sys.argv[1:] if args is None else args)
    if arguments in (["--version"], ["-V"]):
        print(f"lit-rl {__version__}")
        return
    if arguments in (["--help"], ["-h"]):
        print_help()
        return
    if arguments and arguments[0] in VERBS_WITHOUT_TORCH:
        run_verb_without_torch(arguments[0], arguments[1:])
        return
    if arguments and handle_help_and_bad_config(arguments):
        return
    if sys.stderr.isatty():
        print(f"lit-rl {__version__}: loading torch and Lightning", file=sys.stderr, flush=True)
    # Imports make some 400,000 objects that stay: collections that look through them would cost a second.
    gc.disable()
    try:
        from lit_rl.cli.main import main as run
    except KeyboardInterrupt:
        exit_with_error("interrupted before anything began", status=130)
    gc.freeze()
    gc.enable()
    run(arguments)


def handle_help_and_bad_config(arguments: Sequence[str]) -> bool:
    """Print the help of a verb around a run; exit if the verb is unknown or a configuration cannot be read.

    Returns:
        True if nothing is left to do.
    """
    from lit_rl.cli.config_files import config_files_of, load_checked_config
    from lit_rl.cli.shipped_configs import replace_config_names

    verb = arguments[0]
    if not verb.startswith("-") and verb not in RUNS | AROUND_A_RUN:
        exit_with_error(unknown_verb_message(verb), status=2)
    if verb in AROUND_A_RUN and {"-h", "--help"} & {*arguments[1:]}:
        from lit_rl.cli.options import OPTIONS

        OPTIONS[verb]().print_help()
        return True
    try:
        for file in config_files_of(replace_config_names(arguments)):
            load_checked_config(file)
    except (OSError, ValueError) as error:
        exit_with_error(str(error), status=2)
    return False


def run_verb_without_torch(verb: str, arguments: Sequence[str]) -> None:
    """Answer a verb that loads neither torch nor Lightning."""
    from jsonargparse import ArgumentError

    from lit_rl.cli.report import report_on_runs
    from lit_rl.cli.shipped_configs import list_or_copy_configs
    from lit_rl.cli.shipped_docs import print_docs_page
    from lit_rl.cli.show import show_recorded_completion

    verbs = {
        "configs": list_or_copy_configs,
        "docs": print_docs_page,
        "report": report_on_runs,
        "show": show_recorded_completion,
    }
    try:
        verbs[verb](arguments)
    except KeyboardInterrupt:
        exit_with_error("interrupted", status=130)
    except ArgumentError as error:
        exit_with_error(shorten_parser_message(str(error)), status=2)
    except BrokenPipeError:  # `lit-rl show RUN | head`: the reader has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ImportError) as error:
        exit_with_error(str(error), status=1)


if __name__ == "__main__":
    main()
