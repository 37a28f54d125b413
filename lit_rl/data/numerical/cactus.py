"""A tree of Cactus thorns as rows: one row for each source file, with its thorn's declarations and neighbours."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

CCL_FILES = ("interface.ccl", "schedule.ccl", "param.ccl", "configuration.ccl")
LANGUAGES = {
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".C", ".h", ".hh", ".hpp", ".hxx", ".H", ".cu", ".inc"), "cpp"),
    **dict.fromkeys((".f", ".F", ".f77", ".F77", ".f90", ".F90"), "fortran"),
    **{".c": "c", ".cl": "c", ".py": "python", ".pl": "perl", ".sh": "shell", ".m": "matlab"},
}
"""Languages of source files, by the endings of their names."""
SOURCE_NAMES = frozenset(("make.code.defn", "make.code.deps", "make.configuration.defn", "Makefile"))
DOCUMENTS = ("README", "README.md", "README.txt", "doc/documentation.tex")

_SKIPPED_FOLDERS = frozenset((".git", ".svn", ".hg", "CVS", "__pycache__"))
_GENERATED = re.compile(
    r"automatically generated|auto-?generated|generated (?:automatically )?by|file (?:was )?produced by|"
    r"machine generated|do not (?:edit|modify)|a (?:bison|lexical|yacc) (?:parser|scanner)",
    re.IGNORECASE,
)
_HEAD_LINES = 12
_HEAD_BYTES = 8192
_MAX_FILE_LENGTH = 4 << 20


@dataclass(frozen=True)
class ThornSource:
    """One source file of a thorn, with its declarations and neighbours.

    Args:
        thorn_name: arrangement and thorn, such as ``CactusBase/Boundary``.
        src_filename: path inside the thorn's ``src``.
        interface: text of ``interface.ccl``, empty if there is none; likewise the next three.
        documents: the thorn's documents, each under its name.
        code: the thorn's other sources, headers first, each under its name.
        src_code: text of the file itself.
    """

    thorn_name: str
    src_filename: str
    interface: str
    schedule: str
    param: str
    configuration: str
    documents: str
    code: str
    src_code: str


def read_thorn_sources(root: Path) -> Iterator[ThornSource]:
    """Yield all source files of all thorns beneath a folder, in the order of their names.

    A thorn is a folder with a ``src`` folder and at least one ccl file. Generated and binary files, files of
    more than 4 MiB and hidden folders are left out; links to folders are not followed.
    """
    thorns = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("."))
        if "src" in folders and any(name in files for name in CCL_FILES):
            thorns.append(Path(folder))
            folders.remove("src")
    if not thorns:
        raise FileNotFoundError(f"no Cactus thorn under {root}: give a folder of arrangements (*/THORN/interface.ccl)")
    for thorn in sorted(thorns):
        yield from _read_sources_of_thorn(thorn, root)


def _read_sources_of_thorn(thorn: Path, root: Path) -> Iterator[ThornSource]:
    sources = {
        path: text
        for path in _source_files(thorn / "src")
        if (text := read_text_or_empty(path)).strip()
        and not _GENERATED.search("\n".join(text.splitlines()[:_HEAD_LINES]))
    }
    documents = {thorn / name: text for name in DOCUMENTS if (text := read_text_or_empty(thorn / name))}
    interface, schedule, param, configuration = (read_text_or_empty(thorn / name) for name in CCL_FILES)
    others = sorted(sources, key=lambda path: (path.suffix.lower() not in (".h", ".hh", ".hpp", ".hxx"), path))
    inside, whole = thorn.resolve().relative_to(root.resolve()), thorn.resolve()
    # The folder above is the arrangement, if it is in the tree.
    name = "/".join(inside.parts[-2:] if len(inside.parts) > 1 else (whole.parent.name, whole.name))
    for path in sorted(sources):
        yield ThornSource(
            thorn_name=name,
            src_filename=path.relative_to(thorn / "src").as_posix(),
            interface=interface,
            schedule=schedule,
            param=param,
            configuration=configuration,
            documents=_join_with_file_names(thorn, documents),
            code=_join_with_file_names(thorn, {other: sources[other] for other in others if other != path}),
            src_code=sources[path],
        )


def _join_with_file_names(thorn: Path, files: Mapping[Path, str]) -> str:
    return "\n".join(f"// {path.relative_to(thorn).as_posix()}\n{text}" for path, text in files.items())


def read_text_or_empty(path: Path) -> str:
    """Return a file's text in whatever encoding it has; empty if the file is missing, binary or too long.

    The encoding is UTF-8, or UTF-16 with a byte order mark, or otherwise Latin-1, in which every byte is a character.
    """
    if not path.is_file() or path.stat().st_size > _MAX_FILE_LENGTH:
        return ""
    content = path.read_bytes()
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = content.decode("utf-16", "replace")
    elif b"\0" in content[:_HEAD_BYTES]:
        return ""
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _source_files(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith("."))
        for name in sorted(files):
            if name in SOURCE_NAMES or Path(name).suffix in LANGUAGES:
                yield Path(path, name)
