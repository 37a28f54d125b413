"""Constructors that hand arguments on to their base class, with all arguments in sight.

A class of a family of tasks names its own arguments and takes those of its base as
``**options: Unpack[...]``, so that a type checker knows them. What runs reads them from the base class instead, which
has their defaults: ``help``, notebooks, and the command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

_HANDED_ON = inspect.Parameter.VAR_KEYWORD


def show_all_arguments(cls: type) -> None:
    """Let the signature of ``cls`` list the arguments that it hands on; call it from ``__init_subclass__``.

    An argument that ``cls`` names itself replaces that of its base. The type of ``**options`` is dropped, because the
    command line would read the names from there, without defaults.
    """
    base = inspect.signature(cls.__mro__[1])
    own = cls.__dict__.get("__init__")
    if own is None:
        cls.__signature__ = base  # type: ignore[attr-defined]
        return
    parameters = list(inspect.signature(own).parameters.values())[1:]
    handed_on = next((p for p in parameters if p.kind is _HANDED_ON), None)
    if handed_on is not None:
        own.__annotations__[handed_on.name] = Any
        named = {p.name for p in parameters}
        inherited = [p for p in base.parameters.values() if p.name not in named and p.kind is not _HANDED_ON]
        parameters.remove(handed_on)
        parameters += [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in inherited]
    cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def arguments_of(class_path: str) -> Mapping[str, inspect.Parameter]:
    """What the constructor of a class takes, by name; nothing where there is no such class or it cannot tell.

    Args:
        class_path: module and name, such as ``lit_rl.modules.GRPO``.
    """
    module, _, name = class_path.rpartition(".")
    try:
        return inspect.signature(getattr(import_module(module), name)).parameters
    except (ImportError, AttributeError, ValueError, TypeError):
        return {}
