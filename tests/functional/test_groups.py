"""Tables of groups: equal groups as before, bit for bit; unequal and scattered ones by hand."""

from __future__ import annotations

import pytest
import torch

from lit_rl.functional.masking import group_sizes, lay_out, pick_up


def test_equal_groups_side_by_side_are_a_view() -> None:
    values = torch.randn(12, generator=torch.Generator().manual_seed(0))
    ids = torch.arange(12) // 4
    assert torch.equal(lay_out(values, ids), values.view(3, 4))
    assert torch.equal(pick_up(values.view(3, 4), ids), values)


def test_scattered_unequal_groups_fill_the_table_from_the_left() -> None:
    """Group 3 has rows 1, 2, 4; group 5 rows 0, 5; group 9 row 3."""
    ids = torch.tensor([5, 3, 3, 9, 3, 5])
    rows = torch.tensor([10, 11, 12, 13, 14, 15])
    assert lay_out(rows, ids, fill=-1).tolist() == [[11, 12, 14], [10, 15, -1], [13, -1, -1]]
    assert pick_up(lay_out(rows, ids), ids).tolist() == rows.tolist()
    assert group_sizes(ids).tolist() == [2, 3, 3, 1, 3, 2]


def test_a_table_may_have_more_columns_and_no_rows() -> None:
    assert lay_out(torch.tensor([True]), torch.tensor([0]), fill=False, columns=2).tolist() == [[True, False]]
    nothing = torch.zeros(0, dtype=torch.int64)
    assert lay_out(torch.zeros(0), nothing, columns=2).shape == (0, 2)


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be \[N\], got \[2, 1\] and \[2\]"):
        lay_out(torch.zeros(2, 1), torch.zeros(2, dtype=torch.int64))
