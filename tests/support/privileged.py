"""A teacher's view of rows that depends on the rows alone, so that it is the same on any number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from lit_rl.rollout import Hindsight, Rollout
from lit_rl.types import Completions, Problem


class Longer(Hindsight):
    """Puts two letters of the problem before its prompt; shows nothing to rows whose first id is divisible by 3."""

    def teacher_inputs(self, rollout: Rollout, codec: Any, runner: Any) -> tuple[Completions, Tensor]:
        rows = rollout.completions
        letters = [65 + int("".join(filter(str.isdigit, problem.task_id))) % 20 for problem in rows.problems]
        first = torch.tensor(letters)[:, None]
        ids = torch.cat([first, first + 1, rows.prompt_ids], 1)
        mask = torch.cat([torch.ones(len(rows), 2).bool(), rows.prompt_mask], 1)
        order = mask.long().sort(dim=1, stable=True).indices  # padding goes before the new tokens, as everywhere
        view = replace(rows, prompt_ids=ids.gather(1, order), prompt_mask=mask.gather(1, order))
        return view, self.shown(rows)

    @staticmethod
    def shown(rows: Completions) -> Tensor:
        return rows.completion_ids[:, 0] % 3 != 0

    def require_any_hint(self, problems: Sequence[Problem], num_samples: int) -> None: ...
