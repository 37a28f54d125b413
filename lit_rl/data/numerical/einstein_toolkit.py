"""EinsteinToolkit: write a source file of a thorn, given its declarations and the code around it.

Nothing is run: building the toolkit takes hours. The completion is compared with the file that exists, by BLEU, by
a grader, or both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from lit_rl.data.numerical.cactus import LANGUAGES, ThornSource, read_thorn_sources
from lit_rl.data.prompts import Form, chat_messages
from lit_rl.data.rows import expand_path
from lit_rl.data.task import Split, TaskDataModule, TaskOptions, ValidationShare, choose_validation_items
from lit_rl.execution.checks import ReferenceText
from lit_rl.types import Message, Problem

MORE = "...more..."
"""Mark at the place where a text was cut."""

_SYSTEM = "You are an expert C and C++ developer and work on the EinsteinToolkit, a code base for numerical relativity."
_BUILD_LANGUAGE = "makefile"
_CONTEXT_CHARS = 10_000  # of the thorn's documents and other code
_CCL_CHARS = 1_000  # of each ccl file
_DOCUMENTS_CHARS = _CONTEXT_CHARS // 4  # of documents, in addition to the room that the code leaves


class EinsteinToolkit(TaskDataModule):
    """One problem for each source file of a tree of Cactus thorns.

    Args:
        path: folder of arrangements, such as ``arrangements`` or ``repos`` of a toolkit checkout; may hold
            ``$VARIABLES``.
        validation_share: share of the thorns kept for validation; a thorn is on one side only.
        form: ``instruct`` (chat messages) or ``completion`` (text that ends where the code begins).
        **options: see :class:`lit_rl.data.task.TaskDataModule`.

    Source:
        the task and its truncations: S. Xin, "Reinforcement Learning Exploration", section 2 and appendix A
    """

    name = "einstein_toolkit"

    def __init__(
        self,
        path: str,
        validation_share: ValidationShare = 0.05,
        form: Form = "instruct",
        **options: Unpack[TaskOptions],
    ) -> None:
        super().__init__(**options)
        self.path = path
        self.validation_share = validation_share
        self.form = form

    def load_problems(self, split: Split) -> list[Problem]:
        rows = list(read_thorn_sources(expand_path(self.path)))
        measured = choose_validation_items(sorted({row.thorn_name for row in rows}), self.validation_share)
        return [self._build_problem(row) for row in rows if (row.thorn_name in measured) is (split != "train")]

    def _build_problem(self, row: ThornSource) -> Problem:
        return Problem(
            task_id=f"einstein_toolkit/{row.thorn_name}/{row.src_filename}",
            prompt=thorn_prompt(row, self.form),
            check=ReferenceText(row.src_code, language_of_file(row.src_filename)),
            reference=row.src_code,
            stop_strings=("\n```",) if self.form == "completion" else (),
            fields={"thorn_name": row.thorn_name, "src_filename": row.src_filename},
        )


def language_of_file(name: str) -> str:
    """Return the language of a thorn's source file by its name; the case of a suffix matters (``.C`` is C++).

    Example:
        >>> language_of_file("src/Evolve.C"), language_of_file("src/make.code.defn")
        ('cpp', 'makefile')
    """
    return LANGUAGES.get(Path(name).suffix, _BUILD_LANGUAGE)


def thorn_prompt(row: ThornSource, form: Form = "instruct") -> str | tuple[Message, ...]:
    """Return the request for one source file, with every part cut to its length."""
    declared = (
        ("Interface, interface.ccl", row.interface),
        ("Schedule, schedule.ccl", row.schedule),
        ("Parameters, param.ccl", row.param),
        ("Configuration, configuration.ccl", row.configuration),
    )
    parts = [
        f"Write the source code of the file '{row.src_filename}' in the thorn '{row.thorn_name}'.",
        f"## Thorn\n- name: {row.thorn_name}\n- file to write: {row.src_filename}",
        *(f"## {title}\n```\n{cut_to_length(text, _CCL_CHARS)}\n```" for title, text in declared),
        f"## Code and documents of the thorn\n```\n{_cut_thorn_context(row)}\n```",
        f"## What to do\nWrite the complete source code of '{row.src_filename}' and nothing else: all includes and "
        "functions, by the conventions of the EinsteinToolkit.",
    ]
    request = "\n\n".join(parts)
    if form == "completion":
        return f"{_SYSTEM}\n\n{request}\n\nThe code of '{row.src_filename}':\n```\n"
    return chat_messages(f"{request} Answer with one fenced block.", system=_SYSTEM)


def _cut_thorn_context(row: ThornSource) -> str:
    """Return documents and code of the thorn within ``_CONTEXT_CHARS``; most of the room is for code."""
    for_code = _CONTEXT_CHARS - min(len(row.documents), _DOCUMENTS_CHARS)
    documents = cut_to_length(row.documents, max(_CONTEXT_CHARS - min(len(row.code), for_code), 0))
    return "\n".join(text for text in (documents, cut_to_length(row.code, for_code)) if text)


def cut_to_length(text: str, max_chars: int) -> str:
    """Return the first ``max_chars`` characters, and a mark if more was left out.

    Example:
        >>> cut_to_length("abcdef", 4)
        'abcd...more...'
    """
    return text if len(text) <= max_chars else text[:max_chars] + MORE
