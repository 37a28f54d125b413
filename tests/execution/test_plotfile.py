import array
import math
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_rl.data.numerical import plotfile
from lit_rl.data.numerical.plotfile import (
    MAX_HEADER_LENGTH,
    CellBox,
    MultiLevelField,
    field_similarity,
    parse_plotfile_header,
    read_plotfile_field,
)

HEADER = """HyperCLaw-V1.1
2
density
pressure
2
0.5
1
0 0
2 1
2
((0,0) (1,0) (0,0)) ((0,0) (3,1) (0,0))
7 7
1 1
0.5 0.5
0
0
0 1 0.5
7
0 2
0 1
Level_0/Cell
1 2 0.5
7
0 1
0 1
1 2
0 1
Level_1/Cell
"""
LITTLE = "((8, (64 11 52 0 1 12 0 1023)),(8, (8 7 6 5 4 3 2 1)))"
BIG_FLOAT = "((8, (32 8 23 0 1 9 0 127)),(4, (1 2 3 4)))"


def cells_header(boxes, places):
    listed = "\n".join(boxes)
    found = "\n".join(f"FabOnDisk: {name} {offset}" for name, offset in places)
    return f"1\n1\n2\n0\n({len(boxes)} 0\n{listed}\n)\n{len(places)}\n{found}\n\n"


def fab(box, values, kind=LITTLE, letter="<d"):
    data = b"".join(struct.pack(letter, value) for value in values)
    return f"FAB {kind}{box} 2\n".encode() + data


def files():
    """Two levels: one box of 2 x 1, then two boxes of 1 x 2, the second in other bytes and behind the first."""
    coarse, left, right = "((0,0) (1,0) (0,0))", "((0,0) (0,1) (0,0))", "((1,0) (1,1) (0,0))"
    first = fab(left, [3, 4, 30, 40])
    return {
        "Header": HEADER.encode(),
        "Level_0/Cell_H": cells_header([coarse], [("Cell_D_00000", 0)]).encode(),
        "Level_0/Cell_D_00000": fab(coarse, [1, 2, 10, 20]),
        "Level_1/Cell_H": cells_header([left, right], [("Cell_D_00001", 0), ("Cell_D_00001", len(first))]).encode(),
        "Level_1/Cell_D_00001": first + fab(right, [5, 6, 50, 60], BIG_FLOAT, ">f"),
    }


def reader(contents):
    def read(path, offset, num_bytes):
        if path not in contents:
            raise FileNotFoundError(path)
        return contents[path][offset : offset + num_bytes]

    return read


def test_levels_boxes_and_byte_orders_are_read():
    assert parse_plotfile_header(HEADER) == (["density", "pressure"], ["Level_0/Cell", "Level_1/Cell"])
    density = read_plotfile_field(reader(files()), "density")
    assert density.boxes == ((CellBox((0, 0), (1, 0)),), (CellBox((0, 0), (0, 1)), CellBox((1, 0), (1, 1))))
    assert [[list(cells) for cells in level] for level in density.values] == [[[1, 2]], [[3, 4], [5, 6]]]
    pressure = read_plotfile_field(reader(files()), "pressure")
    assert [list(cells) for level in pressure.values for cells in level] == [[10, 20], [30, 40], [50, 60]]


COARSE = "((0,0) (1,0) (0,0))"
DAMAGES = [
    {"Header": b"HyperCLaw-V1.1\n99999999999\n"},
    {"Header": HEADER.replace("Level_1/Cell", "../secret").encode()},
    {"Level_0/Cell_H": cells_header([COARSE], [("../../x", 0)]).encode()},
    {"Level_0/Cell_H": cells_header(["((0,0) (9999999,9999999) (0,0))"], [("Cell_D_00000", 0)]).encode()},
    {"Level_0/Cell_H": cells_header(["((1,0) (0,0) (0,0))"], [("Cell_D_00000", 0)]).encode()},
    {"Level_0/Cell_D_00000": files()["Level_0/Cell_D_00000"][:-1]},
    {"Level_0/Cell_D_00000": fab("((0,0) (0,0) (0,0))", [1, 10])},
    {"Header": HEADER.replace("2\n0.5\n1\n", "2\n0.5\n2\n").encode() + b"Level_1/Cell\n"},
    {"Header": HEADER.encode() + b" " * MAX_HEADER_LENGTH},
    {"Level_0/Cell_H": cells_header([COARSE], [("Cell_D_00000", "9" * 19)]).encode()},
    {"Level_0/Cell_H": cells_header(["((0,0) (" + "1," * 99 + "1) (0,0))"], [("Cell_D_00000", 0)]).encode()},
    {"Level_0/Cell_H": cells_header(["((0,0) (" + "9" * 5000 + ",1) (0,0))"], [("Cell_D_00000", 0)]).encode()},
]


def test_a_broken_plotfile_is_an_error_and_nothing_else():
    without = {path: content for path, content in files().items() if "D_00001" not in path}
    broken = [({**files(), **damage}, "pressure" if "D_00000" in str(damage) else "density") for damage in DAMAGES]
    for contents, variable in (*broken, (without, "density"), (files(), "temperature")):
        with pytest.raises((OSError, LookupError, ValueError, OverflowError)):
            read_plotfile_field(reader(contents), variable)


def test_all_levels_and_their_texts_share_one_budget():
    read = reader(files())
    texts = sum(len(content) for name, content in files().items() if "_D_" not in name)
    budget = texts + 2 * 8 + 2 * 8 + 2 * 4
    assert read_plotfile_field(read, "density", budget) == read_plotfile_field(read, "density")
    for less in (1, 9, 25, texts + 20):
        with pytest.raises(ValueError, match=r"left to read|longer than"):
            read_plotfile_field(read, "density", budget - less)


def test_boxes_are_counted_before_they_are_built(monkeypatch):
    box = "((0,0) (0,0) (0,0))"
    many = cells_header([box] * 70_000, [("Cell_D_00000", 0)] * 70_000).encode()
    monkeypatch.setattr(plotfile, "CellBox", None)
    with pytest.raises(ValueError, match="70000 boxes"):
        read_plotfile_field(reader({**files(), "Level_0/Cell_H": many}), "density")


def test_arrays_that_many_boxes_point_at_are_read_within_the_budget():
    """A file of 8 KB that 1000 boxes point at would be 8 MB."""
    box, read = "((0,0) (1023,0) (0,0))", []
    header = HEADER.replace("2\n0.5\n1\n", "2\n0.5\n0\n").replace("Level_1/Cell\n", "").encode()
    contents = {
        "Header": header,
        "Level_0/Cell_H": cells_header([box] * 1000, [("Cell_D_00000", 0)] * 1000).encode(),
        "Level_0/Cell_D_00000": fab(box, [1.0] * 2048),
    }

    def reading(path, offset, num_bytes):
        found = reader(contents)(path, offset, num_bytes)
        read.append(len(found) if num_bytes == 8192 else 0)
        return found

    with pytest.raises(ValueError, match="left to read"):
        read_plotfile_field(reading, "density", 1 << 20)
    assert sum(read) <= 1 << 20


def variable(*values, boxes=None):
    box = CellBox((0, 0), (len(values) - 1, 0)) if boxes is None else boxes
    return MultiLevelField(((box,),), ((array.array("d", values),),))


def test_similarity_is_one_minus_the_relative_l2_distance():
    """|(3, 4)| = 5 and |(3, 4) - (3, 3)| = 1, so 1 - 1/5."""
    assert field_similarity(variable(3, 3), variable(3, 4)) == pytest.approx(0.8)
    assert field_similarity(variable(3, 4), variable(3, 4)) == 1.0
    assert field_similarity(variable(30, 40), variable(3, 4)) == 0.0
    # Another shape scores nothing, and a reference of zeros is met by zeros alone.
    assert field_similarity(variable(3, 4, 5), variable(3, 4)) == 0.0
    assert field_similarity(variable(3, 4, boxes=CellBox((1, 0), (2, 0))), variable(3, 4)) == 0.0
    assert field_similarity(variable(0, 0), variable(0, 0)) == 1.0
    assert field_similarity(variable(0, 1), variable(0, 0)) == 0.0


def test_what_is_not_finite_or_very_large_scores_nothing():
    for bad in (math.nan, math.inf, -math.inf, 1.3e154, -1.3e154, 1e300, 1.7e308):
        assert field_similarity(variable(3, bad), variable(3, 4)) == 0.0
        assert field_similarity(variable(bad, bad), variable(3, 4)) == 0.0
        assert field_similarity(variable(bad, -bad), variable(3, -4)) == 0.0
        assert field_similarity(variable(3, 4), variable(3, bad)) < 1.0


@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=20))
def test_similarity_is_a_number_from_0_to_1_whatever_is_compared(pairs):
    found, reference = (variable(*values) for values in zip(*pairs, strict=True))
    assert 0.0 <= field_similarity(found, reference) <= 1.0
    finite = all(abs(value) < 1e300 for _, value in pairs)
    assert not finite or field_similarity(reference, reference) == 1.0


@pytest.mark.parametrize(("folder", "kind"), [("plt_double", "d"), ("plt_float", "f")])
def test_plotfiles_that_amrex_itself_wrote(folder, kind):
    """Written by AMReX 24.10 (92679babfc) with the program beside them; what it computed is computed again here."""
    root = Path(__file__).parent / "amrex_plotfiles" / folder
    contents = {str(path.relative_to(root)): path.read_bytes() for path in root.glob("**/*") if path.is_file()}
    density = read_plotfile_field(reader(contents), "density")
    pressure = read_plotfile_field(reader(contents), "pressure")
    corners = [[(0, 0), (8, 0), (0, 8), (8, 8)], [(8, 8), (16, 8)]]  # boxes of 8 x 8, level by level
    assert [[box.low for box in level] for level in density.boxes] == corners
    for level, boxes in enumerate(density.boxes):
        for index, box in enumerate(boxes):
            cells = [(i, j) for j in range(box.low[1], box.high[1] + 1) for i in range(box.low[0], box.high[0] + 1)]
            assert list(density.values[level][index]) == [(level + 1) * (i + 10.0 * j) for i, j in cells]
            expected = array.array(kind, [-1.0 / (1 + i + j) for i, j in cells])
            assert pressure.values[level][index] == expected
    assert field_similarity(density, density) == 1.0
