"""Real problems with their reference programs, read from files that are not part of the project."""

import ast
import gzip
import json

from lit_rl.execution import AssertTests, CallTests

SECONDS = 30.0

SABOTAGE = """

def _wrap(function, which):
    inputs = []

    def wrapped(*args, **kwargs):
        key = repr((args, kwargs))
        key in inputs or inputs.append(key)
        result = function(*args, **kwargs)
        return _wrong(result) if inputs.index(key) == which else result

    return wrapped


def _wrong(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return value + 1
    if isinstance(value, (str, bytes, list, tuple, dict, set)) and value:
        return ["not", value]
    return 1 if value is None or hasattr(value, "__len__") else None

"""

# The tests of these compare the first inputs' results with the program's own: no wrong value is wrong there.
SABOTAGED_INPUT = {"HumanEval/33": 3}


def rows(path):
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def humaneval(folder):
    for row in rows(folder / "humaneval" / "HumanEval.jsonl.gz"):
        check = AssertTests(row["test"], row["entry_point"], SECONDS)
        yield row["task_id"], row["prompt"] + row["canonical_solution"], check, row["entry_point"]


def mbpp(folder):
    for row in rows(folder / "mbpp" / "mbpp.jsonl.gz"):
        test = "\n".join([row["test_setup_code"], *row["test_list"]])
        yield (
            f"MBPP/{row['task_id']}",
            row["code"],
            AssertTests(test, None, SECONDS),
            called(test, row["code"]),
        )


def mbpp_plus(folder):
    for row in rows(folder / "evalplus" / "MbppPlus-OriginFmt.jsonl.gz"):
        test = "\n".join([*row["test_imports"], row["test"]])
        name = called("\n".join(row["test_list"]), row["code"])
        yield f"MBPP+/{row['task_id']}", row["code"], AssertTests(test, None, SECONDS), name


# What the judge of that site has imported before a solution is read.
IMPORTS = """from typing import *
from collections import *
from itertools import *
from functools import *
from heapq import *
from bisect import *
from math import *
from operator import *
from string import *
import collections, itertools, functools, heapq, bisect, math, operator, string, random, re, datetime
inf = float("inf")
"""


def leetcode(folder):
    for row in rows(folder / "competitive" / "leetcode_functional_train.jsonl.gz"):
        name = json.loads(row["metadata"])["func_name"]
        cases = [
            (tuple(json.loads(line) for line in case["input"].split("\n")), json.loads(case["output"]))
            for case in json.loads(row["tests"])
        ]
        solutions = row["solutions"]
        source = (ast.literal_eval(solutions) if isinstance(solutions, str) else solutions)[0]
        yield row["uid"], IMPORTS + source, CallTests(tuple(cases), f"Solution.{name}", SECONDS), name


def called(test, code):
    """The function of the program that the tests call."""
    defined = {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(ast.parse(test)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in defined:
            return node.func.id
    raise ValueError("no function of the program is called")


def sabotaged(program, name, which=0):
    """The program with one function made to return a wrong value for one input it is tested with."""
    return f"{program}{SABOTAGE}\n{name} = _wrap({name}, {which})\n"


SAME = """

class _Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __contains__ = __lt__
    def __hash__(self): return 0
    def __sub__(self, other): return 0
    __rsub__ = __abs__ = __sub__
    def __float__(self): return 0.0
    def __len__(self): return 0
    def __iter__(self): return iter(())
"""
LIES = ("float('inf')", "float('nan')", "type(value)", "_Same()", "[_Same()]")


def lying(program, name, lie):
    """The program with one function made to return a lie for the first input it is tested with."""
    wrapped = f"{name} = _wrap({name}, 0)\n"
    return f"{program}{SABOTAGE}{SAME}\ndef _wrong(value): return {lie}\n\n{wrapped}"
