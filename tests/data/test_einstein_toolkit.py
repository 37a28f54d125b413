from pathlib import Path

import pytest

from lit_rl.data.numerical.cactus import read_thorn_sources
from lit_rl.data.numerical.einstein_toolkit import EinsteinToolkit, thorn_prompt
from lit_rl.execution import ReferenceText


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


# Two arrangements with three thorns, and things that are none.
FILES = {
    "CactusBase/Boundary/interface.ccl": "implements: boundary\n",
    "CactusBase/Boundary/schedule.ccl": "schedule GROUP\n",
    "CactusBase/Boundary/param.ccl": "INT width\n",
    "CactusBase/Boundary/README": "Boundary conditions.\n",
    "CactusBase/Boundary/src/Check.c": "int check(void) { return 0; }\n",
    "CactusBase/Boundary/src/Boundary.h": "int check(void);\n",
    "CactusBase/Boundary/src/sub/Radiation.F90": "! Sch\xf6n\nend\n".encode("latin-1"),
    "CactusBase/Boundary/src/make.code.defn": "SRCS = Check.c\r\n",
    "CactusBase/Boundary/src/Parser.c": "/* A Bison parser, made by GNU Bison 2.3.  */\nint x;\n",
    "CactusBase/Boundary/src/Kranc.cc": "/*  File produced by Kranc */\nint y;\n",
    "CactusBase/Boundary/src/table.h": b"\x7fELF\0\0\0",
    "CactusBase/Boundary/src/picture.png": b"\x89PNG",
    "CactusBase/Boundary/src/empty.c": " \n",
    "CactusBase/Boundary/src/.git/hook.c": "int z;\n",
    "CactusBase/Boundary/test/other.c": "int in_test;\n",
    "Examples/Wave/interface.ccl": "\ufeffimplements: wave\n".encode("utf-16"),
    "Examples/Wave/src/wave.cc": "void wave() {}\n",
    "Examples/Library/configuration.ccl": "PROVIDES Lib {}\n",
    "Examples/Library/src/lib.c": "int lib;\n",
    "Examples/NoThorn/src/a.c": "int a;\n",
    "Examples/NoSource/interface.ccl": "implements: none\n",
}


@pytest.fixture
def tree(tmp_path) -> Path:
    for name, content in FILES.items():
        write(tmp_path / name, content)
    return tmp_path


def rows(tree):
    return {(row.thorn_name, row.src_filename): row for row in read_thorn_sources(tree)}


def test_every_source_file_that_somebody_wrote_is_a_row(tree):
    assert sorted(rows(tree)) == [
        ("CactusBase/Boundary", "Boundary.h"),
        ("CactusBase/Boundary", "Check.c"),
        ("CactusBase/Boundary", "make.code.defn"),
        ("CactusBase/Boundary", "sub/Radiation.F90"),
        ("Examples/Library", "lib.c"),
        ("Examples/Wave", "wave.cc"),
    ]


def test_a_row_has_the_declarations_and_the_rest_of_the_thorn_with_headers_first(tree):
    row = rows(tree)["CactusBase/Boundary", "Check.c"]
    assert (row.interface, row.schedule, row.param) == ("implements: boundary\n", "schedule GROUP\n", "INT width\n")
    assert row.configuration == ""
    assert row.src_code == "int check(void) { return 0; }\n"
    assert rows(tree)["Examples/Library", "lib.c"].configuration == "PROVIDES Lib {}\n"
    names = [line[3:] for line in f"{row.documents}\n{row.code}".splitlines() if line.startswith("// ")]
    assert names == ["README", "src/Boundary.h", "src/make.code.defn", "src/sub/Radiation.F90"]
    assert row.documents.startswith("// README\n") and "// " not in row.documents[3:]
    assert "return 0" not in row.code


def test_other_encodings_and_line_ends_are_read(tree):
    found = rows(tree)
    assert found["CactusBase/Boundary", "sub/Radiation.F90"].src_code == "! Sch\xf6n\nend\n"
    assert found["Examples/Wave", "wave.cc"].interface.lstrip("\ufeff") == "implements: wave\n"
    assert found["CactusBase/Boundary", "make.code.defn"].src_code == "SRCS = Check.c\n"


def test_context_and_declarations_are_cut_with_a_mark(tree):
    write(tree / "CactusBase" / "Boundary" / "param.ccl", "p" * 1001)
    write(tree / "CactusBase" / "Boundary" / "schedule.ccl", "s" * 1000)
    write(tree / "CactusBase" / "Boundary" / "README", "r" * 12_000)
    row = rows(tree)["CactusBase/Boundary", "Check.c"]
    request = thorn_prompt(row)[-1]["content"]
    assert "p" * 1000 + "...more...\n" in request and "p" * 1001 not in request
    assert "\n" + "s" * 1000 + "\n```" in request
    # The other code is short: documents get all that it leaves of the 10,000 characters.
    shown = 10_000 - len(row.code) - len("// README\n")
    assert "r" * shown + "...more..." in request and "r" * (shown + 1) not in request
    assert row.code in request
    assert request.count("...more...") == 2


def test_problems_ask_for_a_file_and_hold_it_as_the_reference(tree):
    data = EinsteinToolkit(str(tree), validation_share=0)
    problem = {p.task_id: p for p in data.problems("train")}["einstein_toolkit/CactusBase/Boundary/Check.c"]
    assert problem.check == ReferenceText("int check(void) { return 0; }\n", "c")
    assert problem.reference == problem.check.text
    request = problem.prompt[-1]["content"]
    assert "'Check.c'" in request and "'CactusBase/Boundary'" in request and "return 0" not in request
    text = EinsteinToolkit(str(tree), validation_share=0, form="completion").problems("train")[0].prompt
    assert text.endswith("The code of 'Boundary.h':\n```\n")


def test_a_thorn_is_on_one_side_of_the_split(tree):
    data = EinsteinToolkit(str(tree), validation_share=0.4)
    train = {p.fields["thorn_name"] for p in data.problems("train")}
    validation = {p.fields["thorn_name"] for p in data.problems("validation")}
    assert len(train) == 2 and len(validation) == 1 and not train & validation
    assert data.problems("test") == data.problems("validation")
