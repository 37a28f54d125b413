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

# The modules that write and read plain values, each before those that import it.
_MODULES = (
    "bounded_json", "printable", "neutral_values", "collisions", "set_order", "array_values", "library_values", "plain",
)  # fmt: skip

_SHIM = """
import json, os, sys, types
for _name in ("lit_rl", "lit_rl.execution", "lit_rl.execution.wire"):
    sys.modules[_name] = types.ModuleType(_name)
    sys.modules[_name].__path__ = []
for _name, _source in {modules!r}:
    _module = sys.modules["lit_rl.execution.wire." + _name] = types.ModuleType(_name)
    setattr(sys.modules["lit_rl.execution.wire"], _name, _module)
    exec(_source, _module.__dict__)
_plain = _module
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
def _tell(error, stage):
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<program>":
            line = trace.tb_lineno
        trace = trace.tb_next
    if stage == "compile":
        line = getattr(error, "lineno", None)
    types_ = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
    _say(json.dumps({{"stage": stage, "types": types_, "message": "", "line": line}}))
def _main():
    job = json.loads(sys.stdin.read())
    module = types.ModuleType("program")
    sys.modules["program"] = sys.modules["__main__"] = module
    stage = "compile"
    try:
        code = compile(job["source"].removeprefix("\\ufeff"), "<program>", "exec", dont_inherit=True)
        stage = "run"
        exec(code, module.__dict__)
    except BaseException as error:
        _tell(error, stage)
        os._exit(0)
    _say("{{}}")
    for name, args, kwargs in job["calls"]:
        try:
            values = _plain.from_tree(args, None)
            head, _, method = name.partition(".")
            scope = module.__dict__
            if method and head in scope:
                function = getattr(scope[head](), method)
            else:
                head = method or head
                if head not in scope and hasattr(scope.get("Solution"), head):
                    function = getattr(scope["Solution"](), head)
                else:
                    function = scope[head] if head in scope else eval(head, {{"__builtins__": {{}}}})
            result = function(*values, **_plain.from_tree(kwargs, None))
            _say(_plain.or_reason(values[0] if job["in_place"] else result))
        except BaseException as error:
            _tell(error, "run")
    os._exit(0)
_main()
"""


@lru_cache(maxsize=1)
def shim() -> str:
    """The program that the server runs."""
    folder = Path(plain.__file__).parent
    modules = [(name, (folder / f"{name}.py").read_text(encoding="utf-8")) for name in _MODULES]
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
