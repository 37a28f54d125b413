"""What holds for the whole math package."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import lit_rl.functional as functional


def test_importing_the_math_imports_torch_and_no_framework() -> None:
    program = (
        "import sys, lit_rl.functional\n"
        "print(sorted({'lightning', 'transformers', 'datasets', 'peft'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_function_has_formula_or_contract_and_a_worked_example() -> None:
    for name in functional.__all__:
        text = inspect.getdoc(getattr(functional, name)) or ""
        missing = [part for part in ("Args:", "Returns:", "Raises:", ">>>") if part not in text]
        assert not missing, f"{name} lacks {missing}"


def test_no_public_function_changes_its_inputs_in_place() -> None:
    """The names of torch's in-place functions end in an underscore; none is called here (item 35).

    Only ``linear_head`` calls some, on blocks of logits that it made itself; ``test_linear_head.py`` watches its
    inputs.
    """
    for path in Path(inspect.getfile(functional)).parent.glob("*.py"):
        if path.name == "linear_head.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name = node.func.attr
                assert not name.endswith("_") or name.startswith("__"), f"{path.name} calls {name}"
