"""C and C++ programs: compiled under confinement, cached by content, run without the node's libraries.

The compiler runs in a second zygote, the only one that may make processes, and may execute nothing but the
toolchain. Besides headers and its own parts it reads what programs read and no other file, so that no secret can be
included.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
import subprocess
from collections import OrderedDict
from functools import lru_cache

from lit_rl.execution.checks import COMPILE_SECONDS
from lit_rl.execution.confinement.visible_files import header_folders
from lit_rl.execution.interface import FaultyCheck, Language, Verdict
from lit_rl.execution.judging.supervising.child_files import TAIL_BYTES, Child, read_tail, read_whole
from lit_rl.execution.judging.supervising.jobs import Compiled, ZygoteClient
from lit_rl.execution.judging.verdicts import how_it_ended
from lit_rl.execution.spawning import ZygoteProcess, ZygoteSettings, start_zygote

_COMPILE_MEMORY = 768 << 20
_PATH = "/usr/local/bin:/usr/bin:/bin"
_LONGEST_PROGRAM = 32 << 20
_CACHE_BYTES = 32 << 20
_PARTS = {"c": ("cc1", "as", "ld", "collect2"), "cpp": ("cc1plus", "as", "ld", "collect2")}
_DRIVERS = {"c": "gcc", "cpp": "g++"}
_FLAGS = {"c": ("-x", "c", "-std=gnu17"), "cpp": ("-x", "c++", "-std=gnu++17")}
_COMMON = ["-O2", "-static", "-pipe", "-fno-diagnostics-color", "-fmax-errors=5", "-w", "-", "-o", "program", "-lm"]
# An error with a line, from preprocessor to assembler, or a name that the linker misses or finds twice.
_OF_THE_SOURCE = re.compile(
    r"^[^\n]*:\d+:(?:\d+:)? (?:fatal )?error: |undefined reference to|multiple definition of",
    re.MULTILINE | re.IGNORECASE,
)
_MISSING_HEADER = re.compile(r": fatal error: [^\n]*: No such file or directory|: no include path in which")
_OF_MEMORY = re.compile(r"out of memory|memory exhausted|allocate memory|Killed signal|bad_alloc")
_KNOWN_GOOD: dict[Language, str] = {
    "c": '#include <math.h>\n#include <stdio.h>\nint main(void) { printf("%f", sqrt(2)); }\n',
    "cpp": "#include <algorithm>\n#include <iostream>\nint main() { std::cout << std::max(1, 2); }\n",
}
Files = tuple[tuple[str, str], ...]


class CompilerFailed(RuntimeError):
    """The compiler failed for a reason of our own, which says nothing about the source."""


class Compiler:
    """Compiles sources, each once. One per worker; its zygote starts with the first source.

    Args:
        settings: those of the worker's own zygote, whose tier and folder are used here, too.
        trainer: socket to the trainer, to notice that it hung up.
        trainer_process: descriptor of the trainer's process.
    """

    def __init__(self, settings: ZygoteSettings, trainer: int, trainer_process: int) -> None:
        self._settings = settings
        self._trainer = (trainer, trainer_process)
        self._zygote: ZygoteProcess | None = None
        self._kept: OrderedDict[bytes, Compiled] = OrderedDict()
        self._proven: set[Language] = set()  # languages in which something compiled, so that headers are installed

    def compile(self, source: str, language: Language, files: Files = ()) -> Compiled:
        """The compiled program, from the cache if its source was compiled before.

        Args:
            source: of the program.
            language: what it is written in.
            files: names and texts of files that it includes.

        Raises:
            CompilerFailed: if a known good program does not compile now either; that is not cached.
            FaultyCheck: if the compiler is not installed.
        """
        key = hashlib.sha256(f"{language}\0{source}\0{files}".encode("utf-8", "surrogatepass")).digest()
        if key not in self._kept:
            self._kept[key] = self._compile(source, language, files)
            while sum(len(item.binary) + TAIL_BYTES for item in self._kept.values()) > _CACHE_BYTES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def close(self) -> None:
        """End the zygote."""
        if self._zygote is not None:
            self._zygote.close()

    def _compile(self, source: str, language: Language, files: Files) -> Compiled:
        """Compile a source; rule out a broken compiler before an error counts.

        What the compiler prints proves nothing: a source can make it print any text. So a failure that is not
        plainly the source's counts only if a known good program compiles now and the source fails again.
        """
        first = self._attempt(source, language, files)
        if first.verdict is not Verdict.SYNTAX_ERROR or _OF_THE_SOURCE.search(first.diagnostics):
            missing = _MISSING_HEADER.search(first.diagnostics)
            if missing is None or language in self._proven or self._works(language):
                return first
            raise _failed(language, first)
        if not self._works(language):
            raise _failed(language, first)
        second = self._attempt(source, language, files)
        if second.verdict is Verdict.SYNTAX_ERROR and _OF_MEMORY.search(second.diagnostics):
            return second._replace(verdict=Verdict.OUT_OF_MEMORY)
        return second

    def _works(self, language: Language) -> bool:
        """Return whether a known good program compiles."""
        return self._attempt(_KNOWN_GOOD[language], language).verdict is None

    def _attempt(self, source: str, language: Language, files: Files = ()) -> Compiled:
        client = self._client(language)
        driver = os.path.realpath(toolchain(language)[0])
        beside = {name: text.encode("utf-8", "surrogatepass") for name, text in files}
        job = {"mode": "compile", "command": [driver, *_FLAGS[language], *_COMMON], "files": beside}
        with Child(job, source.encode("utf-8", "surrogatepass")) as child:
            report = client.run([child], COMPILE_SECONDS)
            ended = how_it_ended(client, child, report)
            diagnostics = read_tail(child.stderr)
            if ended is None:
                self._proven.add(language)
                return Compiled(read_whole(child.channel))
        found = re.search(r"<stdin>:(\d+)", diagnostics)
        verdict = Verdict.SYNTAX_ERROR if ended is Verdict.EXCEPTION else ended
        return Compiled(b"", verdict, diagnostics, int(found[1]) if found else None)

    def _client(self, language: Language) -> ZygoteClient:
        tools = [path for name in _DRIVERS for path in toolchain(name)]
        if not toolchain(language):
            raise FaultyCheck(f"no program in {language} can be judged here: install {_DRIVERS[language]}")
        if self._zygote is None:
            self._zygote = start_zygote(
                self._settings._replace(
                    memory_bytes=_COMPILE_MEMORY,
                    output_bytes=_LONGEST_PROGRAM,
                    work_bytes=4 * _LONGEST_PROGRAM,
                    packages=(),
                    imports=(),
                    reuses_folder=True,
                    readable=(*header_folders(), *tools),
                    executables=tuple(sorted({os.path.realpath(tool) for tool in tools})),
                )
            )
        return ZygoteClient(self._zygote.control, self._zygote.settings, *self._trainer)


def _failed(language: Language, compiled: Compiled) -> CompilerFailed:
    last = " ".join(compiled.diagnostics.split("\n")[-4:]).strip()
    return CompilerFailed(
        f"{_DRIVERS[language]} fails on a known good program here: repair the toolchain, or free memory and disk; "
        f"it said: {last[:500]}"
    )


@lru_cache(maxsize=4)
def toolchain(language: str) -> tuple[str, ...]:
    """Driver, compiler, assembler, linker and loader, with all links on the way; empty without a driver."""
    driver = shutil.which(_DRIVERS[language], path=_PATH)
    if driver is None:
        return ()
    tools = [driver, *glob.glob("/lib*/ld-linux*"), *glob.glob("/lib/*/ld-linux*")]
    for name in _PARTS[language]:
        command = [driver, f"-print-prog-name={name}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        found = answer if os.path.isabs(answer) else shutil.which(answer, path=_PATH)
        tools += [found] if found else []
    return tuple(dict.fromkeys(link for tool in tools for link in _links(tool)))


def _links(path: str) -> list[str]:
    """A path and what it links to, link by link."""
    chain = [path]
    while os.path.islink(chain[-1]) and len(chain) < 20:
        folder = os.path.realpath(os.path.dirname(chain[-1]))
        chain.append(os.path.normpath(os.path.join(folder, os.readlink(chain[-1]))))
    return [*chain, os.path.realpath(path)]
