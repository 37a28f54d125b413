"""Arguments of the verbs around a run that need torch; their help is printed without loading torch.

Classes that need torch and Lightning are arguments here. Without these classes a parser prints its help, but does not
parse their options.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Literal, get_args

from jsonargparse import ArgumentParser

GPU_BYTES = {"a100": 80e9, "h100": 80e9, "h200": 141e9, "l40s": 48e9}
"""Memory of accelerators, by the name that ``lit-rl plan --gpu`` takes."""
_TASKS = "Options of a task come after its name: --data.KEY VALUE; --data.help TASK lists them."


def _verb_parser(verb: str, description: str | None, task: type | None = None, **tasks: str) -> ArgumentParser:
    """Return a verb's parser, with arguments that name tasks, each with its help."""
    parser = ArgumentParser(prog=f"lit-rl {verb}", description=description, exit_on_error=False)
    for name, meaning in tasks.items():
        if task is None:
            parser.epilog = _TASKS
            parser.add_argument(f"--{name}", type=str, help=f"{meaning}: CONFIG or CLASS, such as Basics")
        else:
            parser.add_subclass_arguments(task, name, required=False, help=meaning)
    return parser


def check_contamination_parser(task: type | None = None) -> ArgumentParser:
    """Look for held-out problems among a task's training problems, by runs of words that two statements share.

    Exits with status 1 if there are such problems.
    """
    held_out = "the task to measure on; by default the validation and test problems of --data"
    parser = _verb_parser(
        "check-contamination",
        check_contamination_parser.__doc__,
        task,
        data="the task to train on",
        held_out=held_out,
    )
    parser.add_argument("-c", "--config", action="config", help="configuration of a run; its data is checked")
    parser.add_argument("--ngram_words", type=int, default=10, help="words in a run")
    parser.add_argument(
        "--min_share", type=float, default=0.5, help="smallest share of held-out runs that reports a pair, in (0, 1]"
    )
    parser.add_argument("--output", type=str, help="write one JSON line per pair")
    return parser


def check_data_parser(task: type | None = None) -> ArgumentParser:
    """Say whether a task can be learned from: run every reference, and wrong programs that tests must not accept.

    Prints the task and its files, a verdict, counts for each split, faults grouped by exception, the slowest
    references, and a time limit calibrated on this machine. Exits with status 1 if something is wrong.
    """
    parser = _verb_parser("check-data", check_data_parser.__doc__, task, data="the task to check")
    parser.add_argument("-c", "--config", action="config", help="configuration of a run; its data is checked")
    splits = Literal["train", "validation", "test"]
    parser.add_argument("--splits", type=splits | list[splits], default=list(get_args(splits)))
    parser.add_argument("--num_workers", type=int, default=2, help="programs that run at the same time")
    parser.add_argument("--packages", type=list[str], default=[], help="packages that programs may import")
    parser.add_argument("--examples", type=int, default=3, help="problems to name for each group of faults")
    return parser


def export_parser() -> ArgumentParser:
    """Write the policy of a checkpoint as a folder that `transformers` (or `peft`, for an adapter) loads."""
    parser = _verb_parser("export", export_parser.__doc__)
    parser.add_argument("checkpoint", type=str, help="a .ckpt file, a folder of shards, or a run's folder")
    parser.add_argument(
        "--ckpt_path", type=Literal["last", "best"], default="last", help="checkpoint to take from a run's folder"
    )
    parser.add_argument("folder", type=str, help="folder to write, new or empty")
    parser.add_argument("--overwrite", type=bool, default=False, help="replace a model that is in the folder")
    parser.add_argument(
        "-c", "--config", action="append", type=str, help="the run's configuration, if the checkpoint holds none"
    )
    parser.add_argument("--merge", type=bool, default=False, help="add an adapter to its base")
    parser.add_argument("--dtype", type=str, help="type of the written weights, such as bfloat16")
    return parser


def plan_parser() -> argparse.ArgumentParser:
    """Print memory, traffic and operations of a run on some accelerators.

    They are counted on the run's own update, on tensors without memory: no weights are loaded, and no GPU is needed.
    """
    parser = argparse.ArgumentParser(
        prog="lit-rl plan",
        description=plan_parser.__doc__,
        epilog="All arguments of lit-rl fit are taken too, such as --config FILE.",
        allow_abbrev=False,
        exit_on_error=False,
    )
    parser.add_argument("--gpus", type=int, help="accelerators of all nodes; by default trainer.devices x num_nodes")
    parser.add_argument("--gpu", choices=sorted(GPU_BYTES), default="h100", help="kind of accelerator")
    parser.add_argument("--gpus_per_node", type=int, default=8, help="accelerators of one node, at most")
    parser.add_argument("--prompt_tokens", type=int, default=512, help="tokens of a long prompt")
    parser.add_argument("--completion_tokens", type=int, help="tokens of a completion; by default the sampling limit")
    return parser


def replay_parser(task: type | None = None, rewards: Any = str, sandbox: Any = str) -> ArgumentParser:
    """Judge a run's recorded completions again and say which verdicts and rewards would differ.

    Task, rewards and sandbox are those of the run's config.yaml, or of --config FILE; --reward tries others. If RUN
    holds several runs, the one recorded last is judged.
    """
    parser = _verb_parser("replay", replay_parser.__doc__, task, data="the task")
    parser.add_argument("run", type=str, help="folder of a run, or a file that CompletionWriter wrote")
    parser.add_argument("-c", "--config", action="config", help="configuration; by default config.yaml of the run")
    parser.add_argument(
        "--reward", type=str, help="a class, or {class_path: ..., init_args: {...}}; give it once for each term"
    )
    parser.add_argument("--rewards", type=rewards, default=None, help="as in a configuration")
    parser.add_argument("--sandbox", type=sandbox, default=None, help="what runs programs")
    parser.add_argument("--last", type=int, help="take only this many rollouts, from the end")
    return parser


OPTIONS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "check-contamination": check_contamination_parser,
    "check-data": check_data_parser,
    "export": export_parser,
    "plan": plan_parser,
    "replay": replay_parser,
}
"""Function that makes the parser of each verb."""
