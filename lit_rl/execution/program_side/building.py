"""The process of a compiler: it writes the sources, runs the commands, and leaves a program or a jar."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Any

from lit_rl.execution.program_side.child import CHANNEL, write_files

_MAIN, _DESCRIPTOR = b"main", b"([Ljava/lang/String;)V"
_PUBLIC_STATIC = 0x0009
# Number of bytes of a constant after its tag, by tag; a text (tag 1) follows its length.
_CONSTANTS = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_WIDE = (5, 6)  # a constant with such a tag takes two numbers


def run_build_job(job: dict[str, Any]) -> int:
    """Write the files, run the commands on them, and copy the resulting program into the channel's descriptor."""
    write_files(job["files"])
    for command in job["commands"]:
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)  # some compilers print their diagnostics to stdout
            os.execve(command[0], command, {**job["environment"], "HOME": os.getcwd(), "TMPDIR": os.getcwd()})
        _, status = os.waitpid(pid, 0)
        if status:
            return 1
    artefact = job["artefact"]
    if os.path.isdir(artefact):
        _write_jar(artefact)
        return 0
    with open(artefact, "rb") as program:
        while chunk := program.read(1 << 20):
            os.write(CHANNEL, chunk)
    return 0


def _write_jar(folder: str) -> None:
    from zipfile import ZipFile  # rarely needed

    main = find_main_class(folder)
    manifest = "Manifest-Version: 1.0\n" + (f"Main-Class: {main}\n" if main else "")
    with open(CHANNEL, "wb", closefd=False) as file, ZipFile(file, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", manifest)
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                jar.write(path, os.path.relpath(path, folder))


def find_main_class(folder: str) -> str | None:
    """Find the class with ``public static void main(String[])``; of several, a driver's, else ``Main``, else the first.

    Source:
        https://docs.oracle.com/javase/specs/jvms/se17/html/jvms-4.html
    """
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                line = _line_of_main(file.read())
            if line is not None:
                path = os.path.relpath(os.path.join(place, name), folder).removesuffix(".class")
                found.append((not path.startswith("LitRl"), path != "Main", line, path.replace(os.sep, ".")))
    return min(found)[-1] if found else None


def _line_of_main(content: bytes) -> int | None:
    """Return the line at which a class's ``main`` begins, or ``None`` if the class has no ``main``."""
    texts, at = _class_file_constants(content)
    at += 6
    at += 2 + 2 * _read_u16(content, at)  # interfaces
    for _ in range(2):  # fields, then methods
        count, at = _read_u16(content, at), at + 2
        for _ in range(count):
            access, name, kind = struct.unpack_from(">3H", content, at)
            attributes = list(_class_file_attributes(content, at + 6, texts))
            at = attributes[-1][2] if attributes else at + 8
            if (texts.get(name), texts.get(kind)) == (_MAIN, _DESCRIPTOR) and access & _PUBLIC_STATIC == _PUBLIC_STATIC:
                return next(
                    (_first_line_of_method(content, start, texts) for name, start, _ in attributes if name == b"Code"),
                    0,
                )
    return None


def _class_file_constants(content: bytes) -> tuple[dict[int, bytes], int]:
    """Return the texts among a class's constants, by number, and the place where the constants end."""
    texts, at, number = {}, 10, 1
    while number < _read_u16(content, 8):
        tag, at = content[at], at + 1
        if tag == 1:
            length = _read_u16(content, at)
            texts[number] = content[at + 2 : at + 2 + length]
            at += 2 + length
        else:
            at += _CONSTANTS[tag]
        number += 2 if tag in _WIDE else 1
    return texts, at


def _class_file_attributes(content: bytes, at: int, texts: dict[int, bytes]) -> Iterator[tuple[bytes | None, int, int]]:
    """Yield the name, start and end of each attribute in a table of attributes."""
    count, at = _read_u16(content, at), at + 2
    for _ in range(count):
        name, length = struct.unpack_from(">HI", content, at)
        yield texts.get(name), at + 6, at + 6 + length
        at += 6 + length


def _first_line_of_method(content: bytes, start: int, texts: dict[int, bytes]) -> int:
    """Return the first line of a method, given the place where its code begins."""
    (length,) = struct.unpack_from(">I", content, start + 4)
    at = start + 8 + length
    tables = _class_file_attributes(content, at + 2 + 8 * _read_u16(content, at), texts)
    return next((_read_u16(content, begin + 4) for name, begin, _ in tables if name == b"LineNumberTable"), 0)


def _read_u16(content: bytes, at: int) -> int:
    number: int = struct.unpack_from(">H", content, at)[0]
    return number
