"""``lit-rl migrate FILE``: rewrite a configuration of version 0.3 in place, its comments kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from lit_rl.arguments import UsageError
from lit_rl.cli.config_files import check_file
from lit_rl.renamed import ARGUMENTS, CLASSES, MODULES, OF_PPO, REMOVED_LATER
from lit_rl.renamed import migrate as migrate_config

_OLD_NAMES = {new: old for old, new in (ARGUMENTS | OF_PPO).items()}


def migrate(arguments: Sequence[str]) -> None:
    """Rewrite configurations of version 0.3 for this one, in place."""
    parser = ArgumentParser(prog="lit-rl migrate", description=migrate.__doc__, exit_on_error=False)
    parser.add_argument("files", nargs="+", type=str, help="YAML configurations")
    for file in parser.parse_args(list(arguments)).files:
        check_file(file)
        try:
            text, changes = migrate_text(Path(file).read_text(encoding="utf-8"))
        except ValueError as error:
            raise UsageError(f"{file}: {error}") from error
        if changes:
            Path(file).write_text(text, encoding="utf-8")
        print("\n  ".join([f"{file}: {'rewritten' if changes else 'nothing to rewrite'}", *changes]))


def migrate_text(text: str) -> tuple[str, list[str]]:
    """A configuration's text in the form of this version, and what was rewritten.

    Args:
        text: YAML with sections such as ``model`` and ``data``.

    Raises:
        ValueError: it sets an option that this version no longer has.
    """
    before = yaml.safe_load(text)
    after = deepcopy(before)
    changes = migrate_config(after)
    if not changes:
        return text, []
    node: Any = yaml.compose(text)
    for name in ("model", "init_args"):
        inside = node.value if isinstance(node, yaml.MappingNode) else ()
        node = next((value for key, value in inside if key.value == name), None)
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        first, last = node.value[0][0].start_mark, node.value[-1][1].end_mark
        blocks = dict(_blocks(text, node, before["model"]["init_args"]))
        body = "".join(_written(after["model"]["init_args"], before["model"]["init_args"], blocks))
        start = _start_of(text, first.index)
        head, tail = text[:start], text[_end_of(text, last.index) :]
        text = _rewritten(head) + indent(body, " " * first.column) + _rewritten(tail)
        if yaml.safe_load(text) == after:
            return text, changes
    return yaml.safe_dump(after, sort_keys=False, width=118), changes


def _blocks(text: str, node: yaml.MappingNode, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The lines of each entry, with the comments above it, not indented."""
    column = node.value[0][0].start_mark.column
    ends = [_end_of(text, value.end_mark.index) for _, value in node.value]
    starts = [_start_of(text, node.value[0][0].start_mark.index), *ends[:-1]]
    for (key, _), start, stop in zip(node.value, starts, ends, strict=True):
        yield key.value, "".join(line[column:] or "\n" for line in text[start:stop].splitlines(keepends=True))


def _start_of(text: str, index: int) -> int:
    """Return the start of a key's line, or of the comments directly above it."""
    start = text.rfind("\n", 0, index) + 1
    while start and (above := text.rfind("\n", 0, start - 1) + 1) < start:
        if not text[above:start].lstrip().startswith("#"):
            break
        start = above
    return start


def _end_of(text: str, index: int) -> int:
    """Return the end of a value's last line; a block ends before the comments that follow it."""
    stripped = text[:index].rstrip()
    while stripped.rpartition("\n")[2].lstrip().startswith("#"):
        stripped = stripped.rpartition("\n")[0].rstrip()
    end = text.find("\n", len(stripped))
    return len(text) if end < 0 else end + 1


def _written(after: Mapping[str, Any], before: Mapping[str, Any], blocks: Mapping[str, str]) -> Iterator[str]:
    """Entries of the new mapping: unchanged ones as they were, others written anew."""
    for key, value in after.items():
        if key in before and _rewritten(str(before[key])) == str(value):
            yield _rewritten(blocks[key])
        elif isinstance(value, Mapping) and "class_path" not in value and key not in before:
            yield f"{key}:\n"
            for name, inner in value.items():
                old = _OLD_NAMES.get(f"{key}.{name}", "")
                moved = old in before and _rewritten(str(before[old])) == str(inner)
                block = re.sub(rf"^{old}:", f"{name}:", blocks[old], count=1, flags=re.M) if moved else ""
                yield indent(_rewritten(block) or _dumped(name, inner), "  ")
        else:
            lines = blocks.get(key, "").splitlines(keepends=True)
            comments = takewhile(lambda line: not line.strip() or line.startswith("#"), lines)
            yield "".join(comments) + _dumped(key, value)


def _dumped(key: str, value: Any) -> str:
    return yaml.safe_dump({key: value}, sort_keys=False, default_flow_style=None, width=110)


def _rewritten(text: str) -> str:
    for old, new in CLASSES.items():
        text = re.sub(rf"\b(lit_rl(?:\.\w+)*\.){old}\b", rf"\1{new}", text)
    for old, new in MODULES.items():
        text = re.sub(rf"\b{re.escape(old)}\.", f"{new}.", text)
    names = "|".join(option.partition(".")[2] for option in REMOVED_LATER)
    return re.sub(rf"^ +(?:{names}): .*\n", "", text, flags=re.MULTILINE)
