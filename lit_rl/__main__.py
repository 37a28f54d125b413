"""``lit-rl`` and ``python -m lit_rl``: the verbs that need no Lightning are answered without loading it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lit_rl import __version__
from lit_rl.cli.messages import explain, fail
from lit_rl.cli.verbs import print_help

LIGHT = ("configs", "docs", "migrate", "report", "show")
"""Verbs that are answered without torch."""


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of ``lit-rl``."""
    arguments = list(sys.argv[1:] if args is None else args)
    if arguments in (["--version"], ["-V"]):
        print(f"lit-rl {__version__}")
        return
    if arguments in (["--help"], ["-h"]):
        print_help()
        return
    if arguments and arguments[0] in LIGHT:
        light(arguments[0], arguments[1:])
        return
    if sys.stderr.isatty():
        print(f"lit-rl {__version__}: loading torch and Lightning", file=sys.stderr, flush=True)
    try:
        from lit_rl.cli.main import main as run
    except KeyboardInterrupt:
        fail("interrupted before anything began", status=130)
    run(arguments)


def light(verb: str, arguments: Sequence[str]) -> None:
    """Answer a verb that loads neither torch nor Lightning."""
    from jsonargparse import ArgumentError

    from lit_rl.cli.migrate import migrate
    from lit_rl.cli.report import report
    from lit_rl.cli.shipped_configs import configs
    from lit_rl.cli.shipped_docs import docs
    from lit_rl.cli.show import show

    verbs = {"configs": configs, "docs": docs, "migrate": migrate, "report": report, "show": show}
    try:
        verbs[verb](arguments)
    except KeyboardInterrupt:
        fail("interrupted", status=130)
    except ArgumentError as error:
        fail(explain(str(error), verb=verb), status=2)
    except BrokenPipeError:  # `lit-rl show RUN | head`: who read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError, ImportError) as error:
        fail(str(error), status=1)


if __name__ == "__main__":
    main()
