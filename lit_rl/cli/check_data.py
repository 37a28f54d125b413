"""``lit-rl check-data``: run every reference solution, before a run spends hours on rows that cannot pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jsonargparse import Namespace

from lit_rl.cli import options
from lit_rl.cli.checked_data import TaskCheckResult, judge_references, record_accepted_wrong_programs
from lit_rl.cli.config_files import replace_configs_by_parts
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.execution.sandbox import Sandbox
from lit_rl.signature_check import NonNegativeInt, check_and_convert
from lit_rl.types import Problem

SPLITS: tuple[Split, ...] = ("train", "validation", "test")


def check_data(arguments: Sequence[str]) -> None:
    """Check a task, as :func:`lit_rl.cli.options.check_data_parser` says."""
    parser = options.check_data_parser(TaskDataModule)
    parsed = parser.parse_args(replace_configs_by_data_part(arguments))
    check_and_convert(parsed.examples, NonNegativeInt, "examples")
    task = parser.instantiate_classes(parsed).data
    if task is None:
        parser.error("no data section says which task to check: give a --config FILE that has one, or --data TASK")
    print(f"task {task_label(parsed.data)}", flush=True)
    splits: list[Split] = parsed.splits if isinstance(parsed.splits, list) else [parsed.splits]
    with Sandbox(num_workers=parsed.num_workers, packages=tuple(parsed.packages)) as sandbox:
        findings = check_task(task, sandbox, splits)
    print(findings.report_text(parsed.examples))
    if not findings.is_fine:
        raise SystemExit(1)


def check_task(task: TaskDataModule, sandbox: Sandbox, splits: Iterable[Split] = SPLITS) -> TaskCheckResult:
    """Check the problems of a task and of its validation tasks.

    References must pass the check and the public check; an empty program, and stubs that return None or raise, must not
    pass.

    Args:
        task: the task.
        sandbox: what runs the references.
        splits: the splits to check.

    Returns:
        the findings: ``is_fine``, ``report_text()``, ``problems_by_fault``.

    Example:
        >>> from lit_rl.data import Sorting
        >>> with Sandbox(num_workers=1) as sandbox:
        ...     check_task(Sorting(), sandbox).is_fine
        True
    """
    problems = problems_by_split(task, splits)
    each_once = _each_problem_once(problems.values())
    checked = judge_references(sandbox, each_once)
    record_accepted_wrong_programs(sandbox, checked)
    found = {id(one.problem): one for one in checked}
    return TaskCheckResult({name: [found[id(problem)] for problem in split] for name, split in problems.items()})


def distinct_problems(task: TaskDataModule, splits: Iterable[Split]) -> list[Problem]:
    """Return the problems of several splits and of the validation tasks, each problem once."""
    return _each_problem_once(problems_by_split(task, splits).values())


def problems_by_split(task: TaskDataModule, splits: Iterable[Split]) -> dict[str, list[Problem]]:
    """Return the problems of several splits and of the validation tasks; equal problems of one task are one object.

    A split of a validation task is named after the task, and left out if the split is empty.
    """
    known: dict[tuple[str, str], list[Problem]] = {}
    found: dict[str, list[Problem]] = {}
    names = ["", *task.validation_task_names] if task.validation_tasks else [""]
    for name, one in zip(names, (task, *(task.validation_tasks or ())), strict=True):
        for split in splits:
            problems = []
            for problem in one.problems(split):
                # Splits may share problems, or only task ids: two files often both count their rows from 0.
                of_name = known.setdefault((one.name, problem.task_id), [])
                problems.append(next((other for other in of_name if other == problem), problem))
                of_name.append(problem)
            if problems or not name:
                found[f"{name} {split}".strip()] = problems
    return found


def _each_problem_once(splits: Iterable[Sequence[Problem]]) -> list[Problem]:
    return list({id(problem): problem for split in splits for problem in split}.values())


def replace_configs_by_data_part(arguments: Sequence[str]) -> list[str]:
    """Replace each ``--config FILE`` by its data section."""
    return replace_configs_by_parts(
        arguments,
        lambda content: {k: v for k, v in content.items() if k.partition(".")[0] == "data" and v is not None},
    )


def task_label(chosen: Namespace) -> str:
    """Describe a chosen task by its class, its path and its validation tasks."""
    arguments = vars(chosen.get("init_args") or Namespace())
    place = f" from {arguments['path']}" if arguments.get("path") else ""
    others = " and ".join(task_label(one) for one in arguments.get("validation_tasks") or ())
    return str(chosen.class_path).rpartition(".")[2] + place + (f", validated on {others}" if others else "")
