"""The configurations that come with the package: found by name, listed, copied."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from lit_rl.errors import UsageError

_PACKAGE = Path(__file__).resolve().parents[1]
_FLAGS, _FLAG = ("--config", "-c"), "--config="


def shipped_folder(name: str) -> Path:
    """Return a folder that comes with the package: inside an installed package, or next to it in a checkout."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def shipped_config_files() -> dict[str, Path]:
    """Return configurations by name, such as ``basics_grpo`` and ``strategy/fsdp2``; job scripts keep their suffix."""
    here = shipped_folder("configs")
    found = sorted([*here.rglob("*.yaml"), *here.rglob("*.sbatch")])
    return {file.relative_to(here).as_posix().removesuffix(".yaml"): file for file in found}


def resolve_config_path(name: str) -> Path:
    """Return the file that a name stands for."""
    if Path(name).is_file():
        return Path(name)
    plain = name.removesuffix(".yaml").removeprefix("configs/")
    known = shipped_config_files()
    if plain in known:
        return known[plain]
    near = get_close_matches(plain, known, n=3)
    advice = f"did you mean {' or '.join(near)}?" if near else "lit-rl configs lists the names that can be given"
    raise FileNotFoundError(f"{name} is neither a file nor the name of a configuration: {advice}")


def replace_config_names(arguments: Sequence[str]) -> list[str]:
    """Replace each ``--config NAME`` among the arguments by the file that the name stands for.

    Text that is itself a configuration, which the parser allows, stays unchanged.
    """
    found = []
    for word in join_config_flags(arguments):
        name = word.removeprefix(_FLAG)
        is_name = name != word and name[:1] not in ("", "-", "{", "[") and "\n" not in name and ": " not in name
        found.append(f"{_FLAG}{resolve_config_path(name)}" if is_name else word)
    return found


def join_config_flags(arguments: Sequence[str]) -> list[str]:
    """Replace ``--config FILE`` and ``-c FILE`` among the arguments by ``--config=FILE``."""
    words: list[str] = []
    for argument in arguments:
        if words and words[-1] in _FLAGS and not argument.startswith("-"):
            words[-1] = f"{_FLAG}{argument}"
        else:
            words.append(re.sub("^-c=", _FLAG, argument))
    return words


def list_or_copy_configs(arguments: Sequence[str]) -> None:
    """List the configurations that come with the package, print one, or copy one to change it."""
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="lit-rl configs", description=list_or_copy_configs.__doc__, exit_on_error=False)
    parser.add_argument("action", nargs="?", type=str, default="list", help="list, copy, or a configuration to print")
    parser.add_argument("name", nargs="?", type=str, help="the configuration to copy, such as basics_grpo")
    parser.add_argument("target", nargs="?", type=Path, default=Path(), help="file or folder of the copy")
    parsed = parser.parse_args(list(arguments))
    if (parsed.action == "copy") != (parsed.name is not None):
        raise UsageError("expected lit-rl configs, lit-rl configs NAME, or lit-rl configs copy NAME [TARGET]")
    if parsed.action == "list":
        print("\n".join(f"{name:32} {config_comment_sentence(file)}" for name, file in shipped_config_files().items()))
    elif parsed.action != "copy":
        print(resolve_config_path(parsed.action).read_text("utf-8"), end="")
    else:
        source, target = resolve_config_path(parsed.name), parsed.target
        file = target / source.name if target.is_dir() or not target.suffix else target
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as copy:  # an existing file is not overwritten
            copy.write(source.read_text("utf-8"))
        print(f"copied to {file}")


def config_comment_sentence(file: Path) -> str:
    """Return the first sentence of the comment at the head of a configuration."""
    lines = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith(("#!", "#SBATCH")):
            continue
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").strip())
    sentence = re.split(r"(?<=\w\w\.) ", " ".join(lines))[0]  # two letters before the full stop: no initials
    return textwrap.shorten(sentence, 120, placeholder=" ...")
