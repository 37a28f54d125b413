"""Unit tests that are compiled with the program: a driver runs them and sends a secret after the last one.

The files put the tests where the program's macros and names change least of them, and have the compiler refuse a
program that takes a name which the tests need. Lines of the program keep their numbers.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re

from lit_rl.execution.checks import UnitTests
from lit_rl.execution.interface import FaultyCheck, Outcome, Verdict
from lit_rl.execution.judging.compiling import Files
from lit_rl.execution.judging.runtimes import (
    DRIVERS,
    build,
    not_built,
    outcome_of_end,
    prepared,
    started,
    verdict_of_end,
    without_inner,
    without_main,
)
from lit_rl.execution.judging.supervising.child_files import read_whole
from lit_rl.execution.judging.supervising.jobs import ZygoteClient

_KEY = os.urandom(32)
_WORD = re.compile(r"\b[A-Za-z_]\w*")
_JAVA_NAMES = {
    "java.lang": "AssertionError Boolean Byte Character CharSequence Comparable Double Error Exception Float Integer "
    "Iterable Long Math Number Object Runnable RuntimeException Short StrictMath String StringBuilder System Thread",
    "java.util": "ArrayDeque ArrayList Arrays Collection Collections Comparator Deque HashMap HashSet Iterator "
    "LinkedHashMap LinkedList List Map Objects Optional PriorityQueue Queue Random Scanner Set TreeMap TreeSet",
}
# Words of C++ that are no macro's name: the compiler refuses to undefine them.
_NO_MACROS = set(_WORD.findall("defined and and_eq bitand bitor compl not not_eq or or_eq xor xor_eq __VA_ARGS__"))
# Words that the macro assert expands to, but for those that the compiler defines.
_ASSERT_WORDS = _WORD.findall("__assert_fail __ASSERT_FUNCTION __extension__ __PRETTY_FUNCTION__ static_cast bool void")
_GO_NAMES = (
    "bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint uint8 uint16 "
    "uint32 uint64 uintptr any comparable true false iota nil append cap close complex copy delete imag len make new "
    "panic print println real recover"
)
_GO_PACKAGES = (
    "bytes crypto/md5 encoding/hex encoding/json errors fmt math math/big math/bits math/rand reflect regexp sort "
    "strconv strings time unicode unicode/utf8"
)
_GO_IMPORT = re.compile(r'^[ \t]*(?:import[ \t]+)?(?:\([ \t]*)?"([\w./-]+)"', re.M)
_GO_NO_CODE = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"?|`[^`]*`?|'(?:\\.|[^'\\\n])*'?""", re.S)
_RUST_NAMES = (
    "use ::std::{assert, assert_eq, assert_ne, format, panic, vec}; "
    "use ::std::prelude::v1::{Box, Clone, Eq, Err, Into, Iterator, None, Ok, Option, Ord, PartialEq, PartialOrd}; "
    "use ::std::prelude::v1::{Result, Some, String, ToString, Vec}; "
    "use ::std::primitive::{bool, char, f32, f64, i128, i16, i32, i64, i8, isize, str, u128, u16, u32, u64, u8, usize};"
)
_RUST_TEST = re.compile(r"^[ \t]*#\[test\]\s*(?:#\[[^\]]*\]\s*)*(?:pub\s+)?fn\s+(\w+)", re.M)


def judge_units(client: ZygoteClient, program: str, check: UnitTests) -> Outcome:
    """Compile the program with its tests, run them, and compare what arrives with the secret that was given."""
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    client.on_report()  # from here on the program is read
    language = check.language
    source = prepared(program, language)
    built = build(client, _FILES[language](source, check), language)
    if built.verdict is not None:
        return not_built(built)
    secret = os.urandom(32).hex().encode()
    reader, writer = os.pipe2(os.O_CLOEXEC)  # what is read from it is gone
    os.write(writer, secret)
    os.close(writer)
    with started(
        client,
        language,
        built.binary,
        check.timeout_seconds,
        reader,
        answers=True,
        mode="tests",
        main="LitRlRun",
    ) as run:
        _, child, report = run
        ended = verdict_of_end(client, language, built.binary, run)
        if ended is None:
            ended = Verdict.PASSED if read_whole(child.answers) == secret else Verdict.EXCEPTION
        return outcome_of_end(ended, language, source, child, report, [ended])


def _driver(name: str) -> str:
    return (DRIVERS / name).read_text()


def _secret_name(text: str) -> str:
    """A name that a program cannot know, the same for the same text.

    Where tests follow the program in one file, the name is defined before them and used after them. A comment or a
    string that the program leaves open, for the tests to close, swallows the definition, and nothing compiles.
    """
    return "lit_rl_" + hmac.new(_KEY, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _javascript(program: str, check: UnitTests) -> Files:
    return {"program.js": json.dumps([check.setup + program, check.test])}


def _cpp(program: str, check: UnitTests) -> Files:
    words = sorted({*_WORD.findall(check.test), *_ASSERT_WORDS} - _NO_MACROS)
    undefined = "\n".join(f"#undef {word}" for word in words)
    name = _secret_name(program + check.test)
    text = f'{check.setup}\n#line 1 "program.cpp"\n{program}\nstruct {name};\n{undefined}\n'
    text += f'#line 1 "tests.cpp"\n{check.test}\nextern {name} *{name}_;\n'
    return {"run.cpp": _driver("run.cpp"), "program.cpp": text}


def _java(program: str, check: UnitTests) -> Files:
    words = set(_WORD.findall(check.test))
    names = ((package, name) for package, names in _JAVA_NAMES.items() for name in names.split() if name in words)
    imports = " ".join(f"import {package}.{name};" for package, name in names)  # refuse a class of that name
    name, test = _secret_name(program + check.test), prepared(check.test, "java")
    text = f"{imports} {check.setup}{program}\nclass {name} {{ }}\n{test}\ninterface {name}_ {{ {name} f(); }}\n"
    return {
        "Main.java": text,
        "LitRlRun.java": _driver("Run.java"),
    }


def _go(program: str, check: UnitTests) -> Files:
    program = re.sub(r"^[ \t]*package\s+\w+;?", "", without_main(program), count=1, flags=re.M)
    setup = check.setup if "package" in check.setup else f"package main\n{check.setup}"
    setup = _go_setup(setup, program, check.test)
    tests = re.findall(r"^func (Test\w*)\(", check.test, re.M)
    if not tests:
        raise FaultyCheck("UnitTests.test: expected functions Test... of Go, got none")
    stem = _secret_name(program + check.test)
    text = f"{setup}\n//line program.go:1\n{program}\ntype {stem} int\n"
    text += f"//line tests.go:1\n{check.test}\nvar _ {stem}\n"
    entries = ", ".join(f'{{"{name}", {name}}}' for name in tests)
    main = f'package main\n\nimport (\n\t"testing"\n\trun "{stem}"\n)\n\n'
    main += f"func main() {{ run.Run([]testing.InternalTest{{{entries}}}) }}\n"
    # An import takes the name for this file alone, and the compiler refuses it if the package declares it, too.
    guard = "package main\n\nimport (\n" + "".join(f'\t{name} "unsafe"\n' for name in _GO_NAMES.split()) + ")\n\n"
    guard += "".join(f"type _ [{name}.Sizeof(0)]struct{{}}\n" for name in _GO_NAMES.split())
    files = {f"{stem}.go": _driver("run.go"), "program.go": text, "main.go": main, "guard.go": guard}
    return files | {"assert.go": _driver("assert.go"), "github.com/stretchr/testify/.keep": ""}


def _go_setup(setup: str, program: str, test: str) -> str:
    """The setup without the program's imports, and with those of common packages that it or the tests lack.

    As HumanEval-X does: a completion begins after the imports.
    """
    imported = set(_GO_IMPORT.findall(program))
    kept = [line for line in setup.split("\n") if not (found := _GO_IMPORT.match(line)) or found[1] not in imported]
    imported |= set(_GO_IMPORT.findall(setup))
    code = _GO_NO_CODE.sub("", f"{program}\n{test}")
    used = [name for name in _GO_PACKAGES.split() if re.search(rf"\b{name.rpartition('/')[2]}\.[A-Z]", code)]
    return "\n".join([*kept, *(f'import "{name}"' for name in used if name not in imported)])


def _rust(program: str, check: UnitTests) -> Files:
    program = re.sub(r"\bglobal_asm\b", "unsafe_asm", program)  # which not every compiler counts as unsafe
    names = _RUST_TEST.findall(check.test)
    if not names:
        raise FaultyCheck("UnitTests.test: expected functions of Rust marked #[test], got none")
    test = _RUST_TEST.sub(r"pub fn \1", check.test).replace("#[cfg(test)]", "")
    inside = re.search(r"^[ \t]*(?:pub )?mod\s+(\w+)\s*\{", test, re.M)
    path = f"{inside[1]}::" if inside else ""
    calls = " ".join(f"{path}{name}();" for name in names)
    # Before the program, so that its macros are not in scope; names that are imported one by one hide those of a glob.
    # The program includes no file whose name it does not know.
    stem = _secret_name(program + test)
    module = f'#[path = "{stem}.rs"] pub mod lit_rl_tests; '
    return {
        "run.rs": _driver("run.rs"),
        "program.rs": module + check.setup + without_inner(program),
        f"{stem}.rs": f"use super::*; {_RUST_NAMES}\n{test}\npub fn run() {{ {calls} }}\n",
    }


_FILES = {"cpp": _cpp, "java": _java, "javascript": _javascript, "go": _go, "rust": _rust}
