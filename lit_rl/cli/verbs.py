"""Verbs of ``lit-rl`` and their help, which loads neither torch nor Lightning."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter

ABOUT = "Train and measure language models that write code."

RUNS = {
    "fit": "train; rerun to resume",
    "validate": "sample and run what a policy writes for the validation problems",
    "test": "the same for the test problems",
    "predict": "sample, run and reward several completions of each training problem",
}
"""Verbs of LightningCLI, each with ``--config FILE`` and a ``--help`` of its own."""

AROUND_A_RUN = {
    "check-contamination": "find problems that a run is both trained and measured on",
    "check-data": "say whether a task can be learned from: its references, tests and stop strings",
    "configs": "list the configurations that come with the package, print or copy one",
    "docs": "print a page of the documentation, or a section such as flat_reward",
    "export": "write the policy of a checkpoint as a folder that transformers loads",
    "plan": "memory, traffic and seconds of a run on some GPUs, and what would make it fit",
    "replay": "judge recorded completions again and say what would differ",
    "report": "table and page of what a run recorded",
    "show": "print a recorded completion, its tokens coloured by what they earned",
}
"""Verbs of :mod:`lit_rl.cli.main`, and ``plan``, which reads a configuration as a run does."""


def print_help() -> None:
    """Print every verb with what it does."""
    width = max(map(len, (*RUNS, *AROUND_A_RUN)))
    lines = {title: "\n".join(f"  {verb:{width}}  {text}" for verb, text in verbs.items()) for title, verbs in _PARTS}
    parser = ArgumentParser(
        prog="lit-rl",
        usage="lit-rl VERB ...",
        description=ABOUT,
        epilog="\n\n".join(f"{title}:\n{listed}" for title, listed in lines.items())
        + "\n\nlit-rl VERB --help shows the arguments of a verb.",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="store_true", help="show the version and exit")
    parser.print_help()


_PARTS = (("runs, each with --config FILE", RUNS), ("around a run", AROUND_A_RUN))
