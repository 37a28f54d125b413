from __future__ import annotations

import pytest

from lit_rl.data.toys.toy_tasks import PROMPTS, Corridor, Sorting
from lit_rl.execution import TokenTarget


def test_sorting_measures_on_the_prompts_it_trains_on():
    data = Sorting()
    assert [problem.check.data for problem in data.problems("train")] == list(PROMPTS)
    assert data.problems("train") == data.problems("validation") == data.problems("test")
    assert [problem.reference for problem in data.problems("train")] == ["0 1 2", "2 3 4", "1 2 3"]


def test_a_batch_holds_all_prompts():
    (batch,) = list(Sorting().train_dataloader())
    assert len(batch) == 3
    (batch,) = list(Corridor(num_cells=4).train_dataloader())
    assert len(batch) == 4


@pytest.mark.parametrize("prompts", [[], [[1, 2], [1]], [[]], [[1, -2]]])
def test_prompts_that_cannot_be_sorted_are_refused(prompts):
    with pytest.raises(ValueError, match=r"prompts: expected|negative"):
        Sorting(prompts=prompts)


def test_a_corridor_starts_from_every_cell_unless_told_otherwise():
    assert [p.check for p in Corridor(num_cells=3).problems("train")] == [TokenTarget((3, d)) for d in (1, 2, 3)]
    assert [p.task_id for p in Corridor(num_cells=3, starts=[2]).problems("train")] == ["corridor/3/2"]


@pytest.mark.parametrize("starts", [[], [0], [4]])
def test_a_start_outside_the_corridor_is_refused(starts):
    with pytest.raises(ValueError, match="1 to num_cells"):
        Corridor(num_cells=3, starts=starts)
