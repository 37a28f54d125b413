"""The script that a remote server runs: it reads calls from stdin and writes plain values to stdout.

Only the program and the arguments of its calls leave this machine. The server's own verdict is ignored; values
are compared here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lit_rl.execution.judging.assert_plan import Call
from lit_rl.execution.wire import plain

# Servers have been seen to report longer output as a time-out: their pipe fills before they read it.
LONGEST_ANSWER = 100_000

# The modules that run a program and write its values, each before those that import it.
_MODULES = (
    *("wire.bounded_json", "wire.printable", "wire.neutral_values", "wire.hashed"),
    *("wire.array_values", "wire.library_values", "wire.plain", "wire.channel", "wire.errors"),
    *("program_side.ending", "program_side.child"),
)

_SHIM = """
import json, os, sys, types
for _name in ("lit_rl", "lit_rl.execution", "lit_rl.execution.wire", "lit_rl.execution.program_side"):
    sys.modules[_name] = types.ModuleType(_name)
    sys.modules[_name].__path__ = []
for _name, _source in {modules!r}:
    _module = sys.modules["lit_rl.execution." + _name] = types.ModuleType(_name)
    _package, _, _name = _name.partition(".")
    setattr(sys.modules["lit_rl.execution." + _package], _name, _module)
    exec(_source, _module.__dict__)
_out = os.dup(1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
_left = [{longest}]
def _say(text):
    data = (text + "\\n").encode()
    _left[0] -= len(data)
    if _left[0] < 0:
        os.write(_out, b"{{\\"types\\": [\\"OutputLimit\\"], \\"stage\\": \\"run\\"}}\\n")
        os._exit(0)
    os.write(_out, data)
_describe = _module.describe
_module.describe = lambda error: {{**_describe(error), "message": ""}}
_module._line = _say
_module._calls(json.loads(sys.stdin.read()))
os._exit(0)
"""


@lru_cache(maxsize=1)
def shim() -> str:
    """The program that the server runs."""
    folder = Path(__file__).parent.parent
    modules = [(name, folder.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")) for name in _MODULES]
    return _SHIM.format(modules=modules, longest=LONGEST_ANSWER)


def shim_input(program: str, calls: Sequence[Call], in_place: bool) -> str:
    """What the shim reads from its stdin."""
    trees: list[Any] = [
        [call.name, plain.to_tree(list(call.args), _refuse), plain.to_tree(dict(call.kwargs), _refuse)]
        for call in calls
    ]
    return json.dumps({"source": program, "calls": trees, "in_place": in_place})


def _refuse(value: Any) -> list[Any]:
    raise TypeError(f"a test's argument must be plain data, got {type(value).__name__}")
