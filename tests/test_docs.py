"""The documentation is true to the code: commands parse, snippets run, links lead somewhere.

The convention: a command or a snippet that cannot run on any machine says so in a comment that begins with *needs*
(``# needs 8 GPUs``), on its line or on the first line of its block. Commands under ``console`` are run as printed.
All others are given to the parser that would read them; running them takes minutes. Files that a page shows
(a block that begins with ``# name.yaml``) are there when its commands are parsed.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pydoc
import re
import runpy
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jsonargparse
import lightning
import pytest
import torch
import yaml
from support.recorded_runs import row, write_run
from support.tiny_models import loaded

import lit_rl.__main__
import lit_rl.cli.main
import lit_rl.math
import lit_rl.reports.diagnosis
import lit_rl.rollout
from lit_rl.cli.shipped_docs import sections_by_anchor
from lit_rl.cli.verbs import AROUND_A_RUN, RUNS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "docker" / "README.md"]
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text() for page in PAGES}
MAKEFILE = (ROOT / "Makefile").read_text()

RUN_ELSEWHERE = {
    "README.md": "test_readme.py",
    "docs/own_task.md": "test_own_task.py",
    "docs/own_algorithm.md": "test_own_task.py",
    "docs/own_environment.md": "test_own_task.py",
    "docs/own_engine.md": "test_own_task.py",
    "docs/turns.md": "test_turns_page.py",
    "docs/sandbox.md": "execution/test_checks.py",
}
"""Pages whose Python another test runs."""

PLAIN = {"source"}
"""Commands of the shell that need nothing."""


class Block(NamedTuple):
    """A fenced block: the page that it stands on, its language, its text."""

    page: str
    language: str
    text: str

    @property
    def needs(self) -> str:
        """Requirements of the block as a whole, by its first line."""
        found = re.match(r"[^\n]*#.*\bneeds (.*)", self.text)
        return found[1] if found else ""


BLOCKS = [
    Block(page, language, text)
    for page, shown in TEXTS.items()
    for language, text in re.findall(r"^```([\w+-]*)[^\n]*\n(.*?)^```", shown, re.MULTILINE | re.DOTALL)
]


class Command(NamedTuple):
    """A command of a page, and what it says it needs."""

    page: str
    words: tuple[str, ...]
    needs: str


def commands() -> list[Command]:
    """Commands in blocks of the shell, and those in the text that begin like one."""
    found = []
    for block in BLOCKS:
        if block.language == "bash":
            for line in block.text.replace("\\\n", " ").splitlines():
                text, _, comment = line.partition(" #")
                for part in () if line.startswith("#") else re.split(r" && ", text):
                    needs = re.search(r"\bneeds (.*)", comment)
                    found.append(Command(block.page, tuple(shlex.split(part)), needs[1] if needs else block.needs))
    for page, shown in TEXTS.items():
        prose = re.sub(r"^```.*?^```", "", shown, flags=re.MULTILINE | re.DOTALL)
        for text in re.findall(r"`((?:lit-rl|make|python|pytest) [^`]*)`", prose):
            if "..." not in text:
                found.append(Command(page, tuple(shlex.split(" ".join(text.split()))), ""))
    once = {command.words: command for command in sorted(found, reverse=True) if command.words}
    return sorted(once.values())


def shown(command: Command) -> str:
    return f"{Path(command.page).stem}: {' '.join(command.words)}"[:90]


COMMANDS = commands()
OF = {kind: [command for command in COMMANDS if command.words[0] == kind] for kind in ("lit-rl", "make", "pytest")}
SCRIPTS = [command for command in COMMANDS if Path(command.words[0]).name == "python"]
OTHERS = [c for c in COMMANDS if c.words[0] not in (*OF, *PLAIN) and c not in SCRIPTS]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the pages' commands: shipped configurations, files that pages show, a model without skill."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    write_run(Path("runs/basics/grpo"), {1: [row(0, "ab", 1.0)]})
    for name in ("my.yaml", "runs/basics/grpo/config.yaml"):
        shutil.copy(ROOT / "configs" / "basics_grpo.yaml", name)
    example = re.search(r"::\n\n(.*?)\n\nand is named", lit_rl.reports.diagnosis.__doc__, re.DOTALL)[1]
    imports = "from lit_rl.reports.diagnosis import LastRollout, MetricHistory, RunSettings\n"
    Path("my_rules.py").write_text(imports + textwrap.dedent(example))
    for block in BLOCKS:
        if name := re.match(r"# (\w+\.(?:py|yaml))\n", block.text):
            Path(name[1]).write_text(block.text)
    return tmp_path


class ParsedError(BaseException):
    """The parser was content with what it read; nothing is run."""

    def __init__(self, read: Any) -> None:
        super().__init__()
        self.read = read


@pytest.fixture
def parse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsers do all their work, those of subcommands within that of the command; then the program ends."""
    running: list[Any] = []
    for kind in (jsonargparse.ArgumentParser, argparse.ArgumentParser):

        def parse(self: Any, *given: Any, _own: Any = kind.parse_args, **options: Any) -> Any:
            running.append(self)
            try:
                read = _own(self, *given, **options)
            finally:
                running.pop()
            if running:
                return read
            raise ParsedError(read)

        monkeypatch.setattr(kind, "parse_args", parse)


def read_by_lit_rl(words: tuple[str, ...] | list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Parsed form of the command; None if it only printed something."""
    try:
        lit_rl.__main__.main(list(words))
    except ParsedError as parsed:
        return parsed.read
    except SystemExit as left:
        assert not left.code, capsys.readouterr().err
    return None


@pytest.mark.parametrize("command", OF["lit-rl"], ids=shown)
def test_a_command_is_one_that_lit_rl_reads(
    command: Command, folder: Path, parse_only: None, capsys: pytest.CaptureFixture[str]
) -> None:
    _, verb, *rest = command.words
    assert verb in {*RUNS, *AROUND_A_RUN, "--help"}
    if rest:  # else the verb is only named
        read_by_lit_rl([verb, *rest], capsys)


def test_targets_are_in_the_makefile_and_tests_that_are_named_exist() -> None:
    for command in OF["make"]:
        assert all(f"\n{target}:" in MAKEFILE for target in command.words[1:] if "=" not in target), command
    for command in OF["pytest"]:
        assert all("/" not in word or (ROOT / word).exists() for word in command.words), command


@pytest.mark.parametrize("command", SCRIPTS, ids=shown)
def test_a_script_takes_the_arguments_that_are_shown(
    command: Command, parse_only: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = ROOT / command.words[1]
    assert script.is_file()
    if "ArgumentParser" not in script.read_text():
        assert len(command.words) == 2, "the script takes no arguments"
        return
    monkeypatch.setattr(sys, "argv", list(command.words[1:]))
    monkeypatch.syspath_prepend(str(script.parent))
    with pytest.raises(ParsedError):
        runpy.run_path(str(script), run_name="__main__")


@pytest.mark.parametrize("command", OTHERS, ids=shown)
def test_what_else_is_typed_says_what_it_needs(
    command: Command, folder: Path, parse_only: None, capsys: pytest.CaptureFixture[str]
) -> None:
    for word in command.words:
        if word.endswith((".sbatch", ".sh", ".Dockerfile")):
            assert (ROOT / word).is_file(), word
        if word.endswith(".sbatch"):
            rest = command.words[command.words.index(word) + 1 :]
            read_by_lit_rl([Path(word).stem.partition("_")[0], *rest], capsys)


CONSOLE = sorted({line for b in BLOCKS if b.language == "console" for line in re.findall(r"^\$ (.*)$", b.text, re.M)})


@pytest.mark.parametrize("line", [line for line in CONSOLE if f"$ {line}" not in TEXTS["README.md"]])
def test_a_command_under_console_runs(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, *words = shlex.split(line)
    assert program == "lit-rl"
    lit_rl.cli.main.main(words)
    assert "error" not in capsys.readouterr().err


PYTHON = [b for b in BLOCKS if b.language == "python" and b.page not in RUN_ELSEWHERE]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: f"{block.page}: {block.text[:40]!r}")
def test_a_snippet_runs(block: Block, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if block.needs:
        compile(block.text, block.page, "exec")
        pytest.skip(f"the snippet needs {block.needs}")
    torch.manual_seed(0)
    loaded("package:lit_rl/data/basics/tokenizer").save_pretrained("runs/basics/sft/model")
    text = block.text.replace("num_validation_problems=52", "num_validation_problems=2")
    text = text.replace("max_rollouts=60", "max_rollouts=2").replace("val_check_interval=20", "val_check_interval=1")
    exec(compile(text, block.page, "exec"), {"__name__": "snippet"})
    printed = capsys.readouterr()
    assert "error" not in printed.err.lower()
    assert bool(printed.out) == bool(re.search(r"^ *(print\(|trainer\.fit\()", text, re.MULTILINE))


SECTIONS = {"trainer", "model", "data"}
YAML = [b for b in BLOCKS if b.language == "yaml"]


@pytest.mark.parametrize("block", YAML, ids=lambda block: f"{block.page}: {block.text[:40]!r}")
def test_a_configuration_is_one_that_lit_rl_reads(
    block: Block, folder: Path, parse_only: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Alone if it is whole, else on top of a shipped one, or of the page's own run."""
    given = yaml.safe_load(block.text)
    if not set(given) <= {*SECTIONS, "run_dir", "seed_everything"}:
        given = {"model": {"class_path": "GRPO", "init_args": given}}
    Path("shown.yaml").write_text(yaml.safe_dump(given))
    own = "my_" in block.text and "trainer" not in given
    below = ["my_run.yaml"] if own else [] if set(given) >= SECTIONS else ["basics_grpo"]
    read = read_by_lit_rl(["fit", *(word for name in (*below, "shown.yaml") for word in ("--config", name))], capsys)
    assert set(settings(given)) <= set(settings(read.fit))


def settings(given: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Each value that holds no others; numbers with their key, texts (such as classes) without, and without module."""
    if isinstance(given, jsonargparse.Namespace):
        given = vars(given)
    if isinstance(given, dict):
        for name, value in given.items():
            yield from settings(value, name)
    elif isinstance(given, list):
        for value in given:
            yield from settings(value, key)
    elif isinstance(given, str):
        yield "", given.rpartition(".")[2]
    elif inspect.isfunction(given):
        yield "", given.__name__
    else:
        yield key, f"{given:g}" if isinstance(given, int | float) else str(given)


@cache
def anchors(page: str) -> set[str]:
    """Ends of links to the headings of a page."""
    return {*sections_by_anchor(TEXTS[page])}


PROSE = {page: re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL) for page, text in TEXTS.items()}
NAMED = sorted({(page, name) for page, text in PROSE.items() for name in re.findall(r"`([^`\n]+)`", text)})
FOLDERS = ("benchmarks", "callbacks", "configs", "docker", "docs", "examples", "lit_rl", "tests")


def test_dotted_names_are_in_the_package_and_files_that_are_named_exist() -> None:
    for page, name in NAMED:
        if re.fullmatch(r"lit_rl(\.\w+)+(\(.*\))?", name):
            assert pydoc.locate(name.partition("(")[0]) is not None, f"{page} names {name}"
        if name.split("/")[0] in FOLDERS and "/" in name:
            file, _, test = name.partition("::")
            assert list(ROOT.glob(file.partition(" ")[0])), f"{page} names {name}"
            assert not test or f"def {test}" in (ROOT / file).read_text(), f"{page} names {name}"


OTHER_LIBRARIES = {"docs/peers.md": None, "docs/you_searched_for.md": None, "docs/engines.md": {"logprobs_mode"}}
"""Arguments that pages name and that are not ours; ``None`` for all."""


def constructor_parameters(kind: type) -> set[str]:
    """Arguments of the constructors of a class and its bases."""
    inits = [vars(base)["__init__"] for base in kind.__mro__ if inspect.isfunction(vars(base).get("__init__"))]
    fields = {name for base in kind.__mro__ for name in getattr(base, "__annotations__", ())}
    return fields.union(*(inspect.signature(init).parameters for init in inits))


def test_settings_in_the_text_are_arguments() -> None:
    """Such as ``staleness: 1``; the values are not looked at."""
    packages = "modules math.losses math.advantages data data.task rewards rollout models engines callbacks"
    modules = [importlib.import_module(f"lit_rl.{name}") for name in packages.split()]
    classes = {value for one in modules for value in vars(one).values() if isinstance(value, type)}
    known = set().union(*map(constructor_parameters, {*classes, lit_rl.Sampling, lightning.Trainer}))
    named = [
        (page, match[1])
        for page, name in NAMED
        if page.startswith("docs/") and (match := re.match(r"(\w+): [\w{\[.]+[^,]*$", name))
    ]
    assert len(named) > 40
    for page, name in named:
        foreign = OTHER_LIBRARIES.get(page, set())
        assert foreign is None or name in foreign or name in known, f"{page} names {name}"


def test_links_lead_to_a_file_and_a_heading() -> None:
    links = [(page, link) for page, text in TEXTS.items() for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    for page, link in links:
        target, _, anchor = link.partition("#")
        file = ((ROOT / page).parent / target).resolve() if target else ROOT / page
        assert link.startswith("http") or file.exists(), f"{page} links to {link}"
        if anchor and not link.startswith("http"):
            assert anchor in anchors(file.relative_to(ROOT).as_posix()), f"{page} links to {link}"


def test_every_page_is_in_the_navigation() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        if page.is_relative_to(DOCS):
            assert f": {page.relative_to(DOCS).as_posix()}\n" in site, page


def test_messages_of_the_page_on_troubles_are_in_the_code() -> None:
    code = "\n".join(file.read_text() for top in ("lit_rl", "callbacks") for file in (ROOT / top).rglob("*.py"))
    whole = re.sub(r'"\s*\n\s*f?"', "", code)
    messages = re.findall(r"^\| `([^`]+)`", TEXTS["docs/troubleshooting.md"], re.MULTILINE)
    assert len(messages) > 10
    for message in messages:
        assert message in whole, message
