"""Data-flow graph of a Python program.

A *definition* of a variable is a place that gives it a value: an assignment, a parameter, the target of a loop or of
``with``, what a pattern captures. An element or attribute that is assigned, and a method called as a statement of its
own (``a.append(x)``), add a definition of the variable at their root and keep the older ones. Two kinds of edges:

* ``comes``: a read of a variable, from each definition of it that can reach the read;
* ``computed``: a definition, from each variable read in the expression that gives the value.

Definitions reach reads in the order of the text. Branches start from the same state, and their states are united after
them; a loop's body is walked again from the state that it left behind; handlers start from the united states before and
after what they guard; functions, classes and lambdas see what was defined before them and keep their own definitions to
themselves. Jumps, aliases and what a called function does to its arguments are not followed. Names that the program
does not define (imports, built-ins, functions) have no edges.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lit_rl.execution.program import parse_python
from lit_rl.rewards.python_prefix import find_rejected_token

Flow = Counter[tuple[str, int, int]]
Position = tuple[int, int]  # line and byte
State = dict[str, frozenset[Position]]  # variable -> positions of the definitions that can reach here

_MAX_STEPS = 300_000
_ENTRIES_A_STEP = 16  # of a state that is copied or united
_MAX_CUT_LINES = 4  # before an error, such as those of a bracket that is not closed
_NESTED_LOOPS = 4  # deeper loops are walked once: walking twice at each depth doubles the work


class _WalkTooCostly(Exception):
    """Raised if a walk takes far longer than walks over programs of this length do."""


def count_dataflow_edges(source: str) -> Flow | None:
    """Count the edges ``(kind, target, source)`` of a program.

    Variables are numbered by their first appearance, so renaming them all changes nothing. If a program does not parse,
    the statements before its first error are read.

    Returns:
        The counts; ``None`` if not even these parse, or if the walk would take too long for a program of this length.
    """
    try:
        tree = parse_python(source)
        end = len(source) if tree is not None else (find_rejected_token(source) or (0, 0))[0]
        for _ in range(_MAX_CUT_LINES):
            if tree is not None:
                break
            end = max(0, source.rfind("\n", 0, end))
            tree = parse_python(source[:end])
        if tree is None or (not tree.body and end < len(source)):
            return None
        walker = _DataflowWalker()
        walker.visit_all(tree.body, {})
    except (RecursionError, _WalkTooCostly):
        return None
    return walker.count_numbered_edges()


class _DataflowWalker:
    """Walks a tree in the order of evaluation; ``visit`` changes the state and returns the variables read."""

    def __init__(self) -> None:
        self._edges: set[tuple[str, str, str, Position, Position]] = set()
        self._first: dict[str, Position] = {}
        self._loops = 0
        self._steps = _MAX_STEPS

    def _count_and_limit_steps(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise _WalkTooCostly

    def count_numbered_edges(self) -> Flow:
        """Return the edges, with numbers instead of names and positions."""
        order = sorted(self._first, key=lambda name: self._first[name])
        number = {name: index for index, name in enumerate(order)}
        return Counter((kind, number[target], number[source]) for kind, target, source, _, _ in self._edges)

    def visit(self, node: ast.AST, state: State) -> list[str]:
        """Return the variables read below a node."""
        self._count_and_limit_steps(1)
        if isinstance(node, ast.Name):
            reaching = state.get(node.id, frozenset())
            self._count_and_limit_steps(len(reaching))
            self._edges.update(("comes", node.id, node.id, _position(node), one) for one in reaching)
            return [node.id] if reaching else []
        handler = _HANDLERS.get(type(node))
        return self.visit_all(ast.iter_child_nodes(node), state) if handler is None else handler(self, node, state)

    def visit_all(self, nodes: Iterable[ast.AST | None], state: State) -> list[str]:
        return [name for node in nodes if node is not None for name in self.visit(node, state)]

    # --- definitions ------------------------------------------------------------------------------------

    def _define(self, name: str, at: Position, sources: Sequence[str], state: State, *, adds: bool = False) -> None:
        """Give a variable a value computed from the sources; ``adds`` keeps its older definitions."""
        self._count_and_limit_steps(1 + len(sources) + len(state.get(name, ())))
        self._first[name] = min(at, self._first.get(name, at))
        # The constant position of the source keeps `x = y + y` one edge: what counts is which variables go in.
        self._edges.update(("computed", name, source, at, (0, 0)) for source in sources)
        state[name] = (state.get(name, frozenset()) if adds else frozenset()) | {at}

    def assign_target(self, target: ast.AST, sources: Sequence[str], state: State) -> None:
        """Store a value computed from the sources in a target, or in each part of a tuple of targets."""
        if isinstance(target, ast.Name):
            self._define(target.id, _position(target), sources, state)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            reads, root = self.visit(target, state), _root_variable(target)
            if root is not None:
                others = [read for read in reads if read != root.id]
                self._define(root.id, _position(root), [*sources, *others], state, adds=True)
        else:
            for part in ast.iter_child_nodes(target):
                self.assign_target(part, sources, state)

    def visit_assignment(self, node: Any, state: State) -> list[str]:
        """Visit ``a = b``, ``a: T = b``, ``a += b`` or ``(a := b)``; tuples of equal length are stored part by part."""
        if node.value is None:  # an annotation without a value
            return []
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        values = _unpack_sequence(node.value)
        if any(len(_unpack_sequence(target)) == len(values) > 1 for target in targets):
            of_parts = [self.visit(value, state) for value in values]
        else:
            of_parts = [self.visit(node.value, state)]
        sources = [name for of_part in of_parts for name in of_part]
        if isinstance(node, ast.AugAssign):
            sources += self.visit(node.target, state)
        for target in targets:
            parts = _unpack_sequence(target)
            if len(parts) == len(of_parts) > 1:
                for part, of_part in zip(parts, of_parts, strict=True):
                    self.assign_target(part, of_part, state)
            else:
                self.assign_target(target, sources, state)
        return sources

    def visit_expression_statement(self, node: Any, state: State) -> list[str]:
        """Visit a statement; a method that is called for its effect stores its arguments in its object."""
        call = node.value
        if not isinstance(call, ast.Call):
            return self.visit(call, state)
        reads = self.visit(call.func, state)
        sources = self.visit_all([*call.args, *call.keywords], state)
        root = _root_variable(call.func) if isinstance(call.func, ast.Attribute) else None
        if root is not None and root.id in state:
            self._define(root.id, _position(root), sources, state, adds=True)
        return reads + sources

    # --- control flow -----------------------------------------------------------------------------------

    def visit_if(self, node: Any, state: State) -> list[str]:
        reads = self.visit(node.test, state)
        self._merge_states(
            state, [self._state_after_branch(node.body, state), self._state_after_branch(node.orelse, state)]
        )
        return reads

    def _state_after_branch(self, nodes: Iterable[ast.AST | None], state: State) -> State:
        """Return the state after one branch that starts from ``state``."""
        own = self._copy_state(state)
        self.visit_all(nodes, own)
        return own

    def _copy_state(self, state: State) -> State:
        self._count_and_limit_steps(len(state) // _ENTRIES_A_STEP)
        return dict(state)

    def _merge_states(self, state: State, ends: Sequence[State]) -> None:
        united: State = {}
        for end in ends:
            self._count_and_limit_steps(sum(map(len, end.values())) // _ENTRIES_A_STEP)
            for name, positions in end.items():
                united[name] = united.get(name, frozenset()) | positions
        state.clear()
        state.update(united)

    def visit_loop(self, node: Any, state: State) -> list[str]:
        """Visit ``for`` or ``while``, whose body runs never, once, or repeatedly with its own definitions."""
        is_for = not isinstance(node, ast.While)
        sources = self.visit(node.iter, state) if is_for else []
        self._loops += 1
        for _ in range(2 if self._loops <= _NESTED_LOOPS else 1):
            before = self._copy_state(state)
            if is_for:
                self.assign_target(node.target, sources, state)
            self.visit_all(node.body if is_for else [node.test, *node.body], state)
            self._merge_states(state, [before, dict(state)])
        self._loops -= 1
        self.visit_all(node.orelse, state)
        return []

    def visit_try(self, node: Any, state: State) -> list[str]:
        """Visit ``try``, in which a handler can start anywhere in the body."""
        before = self._copy_state(state)
        self.visit_all(node.body, state)
        start: State = {}
        self._merge_states(start, [before, dict(state)])
        ends = [self._state_after_branch([handler], start) for handler in node.handlers]
        self.visit_all(node.orelse, state)
        self._merge_states(state, [*ends, dict(state)])
        self.visit_all(node.finalbody, state)
        return []

    def visit_except_handler(self, node: Any, state: State) -> list[str]:
        sources = self.visit_all([node.type], state)
        if node.name is not None:
            self._define(node.name, _position(node), sources, state)
        return self.visit_all(node.body, state)

    def visit_withitem_or_clause(self, node: Any, state: State) -> list[str]:
        """Visit ``value as name`` of ``with``, or ``for x in y if z`` of a comprehension."""
        is_with = isinstance(node, ast.withitem)
        value, target = (node.context_expr, node.optional_vars) if is_with else (node.iter, node.target)
        sources = self.visit(value, state)
        if target is not None:
            self.assign_target(target, sources, state)
        return sources + self.visit_all(getattr(node, "ifs", ()), state)

    def visit_match(self, node: Any, state: State) -> list[str]:
        sources, ends = self.visit(node.subject, state), []
        for case in node.cases:
            own = self._copy_state(state)
            for part in ast.walk(case.pattern):
                name = getattr(part, "rest", None) or getattr(part, "name", None)
                if name is not None:
                    self._define(name, _position(part), sources, own)
            ends.append(self._state_after_branch([case.guard, *case.body], own))
        self._merge_states(state, [*ends, dict(state)])
        return []

    # --- scopes -----------------------------------------------------------------------------------------

    def visit_function(self, node: Any, state: State) -> list[str]:
        """Visit a function or lambda: parameters are definitions, and its definitions stay inside."""
        arguments, inside = node.args, self._copy_state(state)
        self.visit_all([*getattr(node, "decorator_list", ()), *arguments.defaults, *arguments.kw_defaults], state)
        parameters = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        for parameter in filter(None, parameters):
            self._define(parameter.arg, _position(parameter), [], inside)
        return self.visit_all([node.body] if isinstance(node, ast.Lambda) else node.body, inside)

    def visit_class(self, node: Any, state: State) -> list[str]:
        self.visit_all(node.decorator_list, state)
        return self.visit_all(node.body, self._copy_state(state))

    def visit_comprehension(self, node: Any, state: State) -> list[str]:
        """Visit the clauses first, then the expressions built from them."""
        inside = self._copy_state(state)
        built = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return self.visit_all([*node.generators, *built], inside)


def _position(node: Any) -> Position:
    return node.lineno, node.col_offset


def _unpack_sequence(node: ast.expr) -> list[ast.expr]:
    """Return the parts of a plain tuple or list; any other node, or one with a starred part, is a single part."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
    return [node] if any(isinstance(part, ast.Starred) for part in parts) else parts


def _root_variable(node: ast.expr) -> ast.Name | None:
    """Return the variable that an element or attribute belongs to."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node if isinstance(node, ast.Name) else None


_HANDLERS: dict[type[ast.AST], Callable[[_DataflowWalker, Any, State], list[str]]] = {
    **dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr), _DataflowWalker.visit_assignment),
    **dict.fromkeys((ast.For, ast.AsyncFor, ast.While), _DataflowWalker.visit_loop),
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda), _DataflowWalker.visit_function),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), _DataflowWalker.visit_comprehension),
    **dict.fromkeys((ast.withitem, ast.comprehension), _DataflowWalker.visit_withitem_or_clause),
    **dict.fromkeys((ast.Try, ast.TryStar), _DataflowWalker.visit_try),
    ast.ClassDef: _DataflowWalker.visit_class,
    ast.ExceptHandler: _DataflowWalker.visit_except_handler,
    ast.Expr: _DataflowWalker.visit_expression_statement,
    ast.If: _DataflowWalker.visit_if,
    ast.Match: _DataflowWalker.visit_match,
}
