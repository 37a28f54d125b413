"""Docstrings as the site shows them: roles of Sphinx become links, its plain tables become tables of Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import AliasResolutionError, Extension, Module, NameResolutionError, Object

ROLE = re.compile(r":(?:class|func|meth|data|mod|attr|exc):`(~?)([\w.]+)`")
RULE = re.compile(r"^ *=+(?: +=+)+ *$")


class Docstrings(Extension):
    """Rewrites the text of each docstring before it is parsed."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring is not None:
            text = doctests(tables(obj.docstring.value))
            obj.docstring.value = ROLE.sub(lambda role: link(obj, role[2], bool(role[1])), text)

    def on_module_members(self, *, mod: Module, **kwargs: Any) -> None:
        """Take what a package imports under its own name for public: no package has a written ``__all__``."""
        if mod.is_init_module:
            imported = ((name, one.target_path) for name, one in mod.members.items() if one.is_alias)
            places = {name for name, path in imported if path.startswith("lit_rl.") and path.endswith(f".{name}")}
            mod.exports = sorted(places - {"lazy_exports"})


def link(place: Object, name: str, short: bool) -> str:
    """A name as code that leads to its entry, if the reference has one."""
    shown = name.rsplit(".", 1)[-1] if short or name.startswith("lit_rl.") else name
    try:
        target = place.resolve(name)
    except (NameResolutionError, AliasResolutionError, KeyError):
        target = name
    return f'<autoref optional identifier="{target}"><code>{shown}</code></autoref>'


def tables(text: str) -> str:
    """The text with plain tables of reStructuredText (columns under rows of ``=``) as tables of Markdown."""
    lines, out, at = text.split("\n"), [], 0
    while at < len(lines):
        rules = [i for i in range(at, min(at + 60, len(lines))) if RULE.match(lines[i])]
        if not RULE.match(lines[at]) or len(rules) < 3:
            out.append(lines[at])
            at += 1
            continue
        starts = [column.start() for column in re.finditer("=+", lines[at])]
        cells = [
            [row[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
            for row in lines[at + 1 : rules[2]]
            if not RULE.match(row)
        ]
        header, *body = cells
        out += [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *body)]
        at = rules[2] + 1
    return "\n".join(out)


def doctests(text: str) -> str:
    """The text with each doctest as a block of code."""
    out: list[str] = []
    inside = False
    for line in [*text.split("\n"), ""]:
        if not inside and line.lstrip().startswith(">>>"):
            indent = line[: len(line) - len(line.lstrip())]
            out.append(f"{indent}```pycon")
            inside = True
        elif inside and not line.strip():
            out.append(f"{indent}```")
            inside = False
        out.append(line)
    return "\n".join(out[:-1])
