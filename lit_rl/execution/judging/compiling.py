"""Compiled programs: built under confinement, cached by content, run without the node's libraries.

A compiler runs in a zygote of its own, the only kind of zygote that may start processes, and may execute only its
toolchain. It reads headers, its own parts and what programs read, but no other file, so that no secret can be
included. Compiled programs are kept in the supervisor's memory, where no program can read or write them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from lit_rl.execution.checks import COMPILE_SECONDS
from lit_rl.execution.confinement.visible_files import header_folders
from lit_rl.execution.interface import FaultyCheck, Verdict
from lit_rl.execution.judging.supervising.child_files import TAIL_BYTES, ChildFiles, read_tail, read_whole
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.judging.verdicts import verdict_of_child
from lit_rl.execution.languages import LANGUAGES, Language, Toolchain, find_toolchain, how_to_install
from lit_rl.execution.spawning import ZygoteSettings

COMPILE_MEMORY = 768 << 20
_MAX_PROGRAM_LENGTH = 32 << 20
_CACHE_BYTES = 32 << 20
_OF_MEMORY = re.compile(
    r"^(?:[\w./+-]+: )?(?:(?:fatal |internal compiler )?error: |LLVM ERROR: |runtime: |java\.lang\.)*"
    r"(?:out of memory|OutOfMemory|virtual memory exhausted|cannot allocate memory|Killed signal|memory allocation of)",
    re.M | re.I,
)
"""Matches lines as compilers begin them; a text that a source makes them print follows a place or linker's words."""

Files = Mapping[str, str]
"""Source files by name."""


class CompiledProgram(NamedTuple):
    """A program as the compiler left it."""

    binary: bytes
    verdict: Verdict | None = None
    diagnostics: str = ""
    line: int | None = None


class CompilerFailed(RuntimeError):
    """The compiler failed for a reason of our own, which says nothing about the source."""


def require_toolchain(language: Language) -> Toolchain:
    """Return the tools of a language; raise FaultyCheck if they are not installed."""
    found = find_toolchain(language)
    if found is None:
        raise FaultyCheck(how_to_install(language))
    return found


def toolchain_variables(language: Language) -> dict[str, str]:
    """Return the environment variables of a language's tools and programs."""
    known = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "ONLINE_JUDGE": "true"}
    return {**known, **dict(LANGUAGES[language].environment)}


class Compiler:
    """Compiles each source once. Each worker has one compiler; a language's zygote starts with its first source."""

    def __init__(self, settings: ZygoteSettings, connect: Callable[[ZygoteSettings], ZygoteClient]) -> None:
        self._settings, self._start_client = settings, connect
        self._clients: dict[Language, ZygoteClient] = {}
        self._runners: dict[Language, ZygoteClient] = {}
        self._kept: OrderedDict[bytes, CompiledProgram] = OrderedDict()
        self._proven: set[Language] = set()  # something in the language compiled: headers are installed

    def compile(self, files: Files, language: Language, beside: bool = False) -> CompiledProgram:
        """Return the compiled program, from the cache if its files were compiled before."""
        key = hashlib.sha256(repr((language, beside, [*files.items()])).encode("utf-8", "surrogatepass")).digest()
        kept = self._kept
        if key not in kept:
            kept[key] = self._compile(files, language, beside)
            while len(kept) > 1 and sum(len(one.binary) + TAIL_BYTES for one in kept.values()) > _CACHE_BYTES:
                kept.popitem(last=False)
        kept.move_to_end(key)
        return kept[key]

    def client_for_programs(self, language: Language, own: ZygoteClient) -> ZygoteClient:
        """Return the client for programs in a language: Python's own, if a program needs only its executable."""
        spec = LANGUAGES[language]
        if not spec.run and not spec.reserves:
            return own
        if language not in self._runners:
            tools = require_toolchain(language) if spec.run else None
            settings = self._settings._replace(
                packages=(),
                imports=(),
                readable=(*tools.readable, *tools.executables) if tools else (),
                executables=tools.executables if tools else (),
                reserves=True,
            )
            self._runners[language] = runner = self._start_client(settings)
            runner.on_report = own.on_report
        return self._runners[language]

    def _compile(self, files: Files, language: Language, beside: bool) -> CompiledProgram:
        """Compile a source; rule out a broken compiler before an error counts.

        What a compiler prints proves nothing: a source can make it print any text. So a failure that names no line
        counts only if a known good program compiles now and the source fails again.
        """
        first = self._compile_once(files, language, beside)
        if first.verdict is not Verdict.SYNTAX_ERROR or (first.line and language in self._proven):
            return first
        spec = LANGUAGES[language]
        if self._compile_once({spec.file: spec.good}, language).verdict is not None:
            raise compiler_failure(language, first.diagnostics, self._settings)
        if first.line:
            return first
        second = self._compile_once(files, language, beside)
        if second.verdict is Verdict.SYNTAX_ERROR and _OF_MEMORY.search(second.diagnostics):
            return second._replace(verdict=Verdict.OUT_OF_MEMORY)
        return second

    def _compile_once(self, files: Files, language: Language, beside: bool = False) -> CompiledProgram:
        spec, tools = LANGUAGES[language], require_toolchain(language)
        client = self._compiler_client(language, tools)
        commands = []
        root = next(iter(files))
        for parts in (beside and spec.builds_beside) or spec.builds:
            command = tools.fill_command(parts, root=root)
            at = command.index("{sources}") if "{sources}" in command else len(command)
            commands.append([*command[:at], *(files if at < len(command) else ()), *command[at + 1 :]])
        job = {
            "mode": "build",
            "files": {name: text.encode("utf-8", "surrogatepass") for name, text in files.items()},
            "commands": commands,
            "artefact": spec.artefact,
            "environment": toolchain_variables(language),
        }
        with ChildFiles(job) as child:
            report = client.run([child], COMPILE_SECONDS)
            ended = verdict_of_child(client, child, report)
            diagnostics = read_tail(child.stderr)
            if ended is None:
                self._proven.add(language)
                return CompiledProgram(read_whole(child.channel))
        verdict = Verdict.SYNTAX_ERROR if ended is Verdict.EXCEPTION else ended
        return CompiledProgram(
            b"", verdict, diagnostics, spec.find_program_line(diagnostics, files[spec.file].count("\n") + 1)
        )

    def _compiler_client(self, language: Language, tools: Toolchain) -> ZygoteClient:
        if language not in self._clients:
            self._clients[language] = self._start_client(
                self._settings._replace(
                    memory_bytes=COMPILE_MEMORY,
                    output_bytes=_MAX_PROGRAM_LENGTH,
                    work_bytes=4 * _MAX_PROGRAM_LENGTH,
                    packages=(),
                    imports=(),
                    reuses_folder=True,
                    readable=(*header_folders(), *tools.readable, *tools.executables),
                    executables=tools.executables,
                    processes=True,
                    reserves=True,
                )
            )
        return self._clients[language]


def compiler_failure(language: Language, diagnostics: str, settings: ZygoteSettings) -> CompilerFailed:
    """Return the error for tools that fail on a known good program, which is no program's fault."""
    spec, remedy = LANGUAGES[language], "repair the toolchain, or free memory and disk"
    text = " ".join(diagnostics.split())
    text = text if len(text) <= 500 else f"{text[:250]} ... {text[-250:]}"
    # Only in tier 0 do programs, which root runs as another user, see the machine's own folders.
    if settings.tier == 0 and os.geteuid() == 0 and (tools := find_toolchain(language)) is not None:
        folders = {folder for path in (*tools.executables, *tools.readable) for folder in Path(path).parents}
        if closed := min((one for one in folders if not one.stat().st_mode & stat.S_IXOTH), default=None):
            remedy = f"some tools are in {closed}, which only root may enter: install Debian's package {spec.package}"
    return CompilerFailed(f"{spec.command} fails on a known good program here: {remedy}; the command said: {text}")
