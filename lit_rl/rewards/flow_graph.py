"""Data-flow graph of a program in Python, C or C++, on tree-sitter's trees.

A *definition* of a variable is a place that gives it a value: an assignment or declaration, a parameter, the
target of a loop or of ``with``, what a pattern captures, ``x++``, ``cin >> x``, ``&x`` among arguments. An element,
attribute or ``*p`` that is assigned, and a method called as a statement of its own (``a.append(x)``), add a
definition of the variable at their root and keep the older ones. Two kinds of edges:

* ``comes``: a read of a variable, from each definition of it that can reach the read;
* ``computed``: a definition, from each variable read in the expression that gives the value.

Definitions reach reads in the order of the text. Branches start from the same state and are united after it; a
loop's body is walked again with what it left behind; handlers start from the united states before and after what
they guard; cases of a ``switch`` fall through; functions, classes and lambdas see what was defined before them and
keep their own definitions to themselves. Jumps, aliases and what a called function does to its arguments are not
followed. Names that the program does not define (imports, built-ins, functions) have no edges.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lit_rl.rewards.grammars import TooCostly, parse, walk
from lit_rl.rewards.places import utf8


def _name_of(node: Any) -> str:
    """The text of an identifier, whatever bytes it has."""
    return str(node.text.decode("utf-8", "replace"))


def _field_of(node: Any, *names: str) -> Any:
    """The first of these fields that a node has."""
    found = (node.child_by_field_name(name) for name in names)
    return next((child for child in found if child is not None), None)


def _parts_of(node: Any) -> list[Any]:
    """Parts of a plain tuple; a node that is not one, or has a starred part, is one part."""
    plural = ("pattern_list", "tuple_pattern", "expression_list", "tuple", "list", "list_pattern")
    parts = list(node.named_children) if node.type in plural else [node]
    starred = any(part.type in ("list_splat_pattern", "list_splat") for part in parts)
    return [node] if starred else parts


def _root_of(node: Any) -> Any:
    """The variable that an element, attribute or ``*p`` belongs to."""
    while node is not None and node.type != "identifier":
        node = _field_of(node, "object", "value", "argument", "function")
    return node


def _reads_input(node: Any) -> bool:
    """Return whether a chain of ``>>`` begins with ``cin``."""
    while node.type == "binary_expression":
        node = node.child_by_field_name("left")
    return node.text in (b"cin", b"std::cin")


def _parameters_of(signature: Any) -> list[Any]:
    """Parameters below a signature, Python's or C's."""
    if signature.type in ("parameters", "lambda_parameters", "parameter_list"):
        return list(signature.named_children)
    inner = _field_of(signature, "parameters", "declarator")
    return [] if inner is None else _parameters_of(inner)


def _match_of(clause: Any) -> Any:
    """The ``match`` that a case belongs to."""
    node = clause.parent
    while node is not None and node.type != "match_statement":
        node = node.parent
    return node


Flow = Counter[tuple[str, int, int]]
State = dict[str, frozenset[int]]  # variable -> positions of the definitions that can reach here

_MOST_STEPS = 300_000
_ENTRIES_A_STEP = 16  # of a state that is copied or united
_NESTED_LOOPS = 4  # deeper loops are walked once: walking twice at each depth doubles the work
_SKIPPED = frozenset({"import_statement", "import_from_statement", "future_import_statement", "comment"})
_SKIPPED |= {"type", "qualified_identifier", "global_statement", "nonlocal_statement", "preproc_include"}
_READ_FIELDS = {"attribute": "object", "keyword_argument": "value"}  # their other names are no variables
_COMPREHENSIONS = ("list_comprehension", "set_comprehension", "dictionary_comprehension", "generator_expression")
_PARTS = frozenset({"attribute", "subscript", "field_expression", "subscript_expression", "pointer_expression"})


def data_flow(source: str, language: str) -> Flow:
    """Edges ``(kind, target, source)`` of a program and how often each occurs.

    Variables are numbered by their first appearance, so renaming them all changes nothing. Broken programs
    give the edges of what tree-sitter makes of them; nesting too deep to walk gives none.

    Raises:
        TooCostly: parser or walk would work far longer than on any program of this length.
    """
    walker = _Walker()
    try:
        walker.visit(parse(utf8(source), language), {})
    except RecursionError:
        return Counter()
    return walker.flow()


class _Walker:
    """Walks a tree in the order of evaluation; ``visit`` changes the state and returns the variables read."""

    def __init__(self) -> None:
        self._edges: set[tuple[str, str, str, int, int]] = set()
        self._first: dict[str, int] = {}
        self._loops = 0
        self._steps = _MOST_STEPS

    def _work(self, steps: int) -> None:
        """Count steps: nodes visited, edges drawn, states copied. Twice-read parts can nest and double each time."""
        self._steps -= steps
        if self._steps < 0:
            raise TooCostly(f"its data flow takes more than {_MOST_STEPS} steps")

    def flow(self) -> Flow:
        """The edges, with numbers instead of names and positions."""
        order = sorted(self._first, key=lambda name: self._first[name])
        number = {name: index for index, name in enumerate(order)}
        return Counter((kind, number[target], number[source]) for kind, target, source, _, _ in self._edges)

    def visit(self, node: Any, state: State) -> list[str]:
        """Variables read below a node; none below a part that a broken program lacks."""
        if node is None:
            return []
        self._work(1)
        kind = node.type
        if kind == "identifier":
            return self._read(node, state)
        if kind in _SKIPPED:
            return []
        if kind in _READ_FIELDS:
            return self.visit(node.child_by_field_name(_READ_FIELDS[kind]), state)
        handler = _HANDLERS.get(kind)
        return self._each(node.named_children, state) if handler is None else handler(self, node, state)

    def _below(self, node: Any) -> Iterator[Any]:
        for part in walk(node):
            self._work(1)
            yield part

    def _each(self, nodes: Iterable[Any], state: State) -> list[str]:
        return [name for node in nodes for name in self.visit(node, state)]

    def _read(self, node: Any, state: State) -> list[str]:
        name = _name_of(node)
        if name not in state:
            return []
        self._work(len(state[name]))
        self._edges.update(("comes", name, name, node.start_byte, position) for position in state[name])
        return [name]

    # --- definitions ------------------------------------------------------------------------------------

    def _define(self, name: str, position: int, sources: Sequence[str], state: State, *, adds: bool = False) -> None:
        """Give a variable a value computed from the sources; ``adds`` keeps its older definitions."""
        self._work(1 + len(sources) + len(state.get(name, ())))
        self._first[name] = min(position, self._first.get(name, position))
        # The position of the source keeps `x = y + y` one edge: what counts is which variables go in.
        self._edges.update(("computed", name, source, position, -1) for source in sources)
        state[name] = (state.get(name, frozenset()) if adds else frozenset()) | {position}

    def store(self, target: Any, sources: Sequence[str], state: State) -> None:
        """Store a value computed from the sources in a target, or in each part of a pattern of targets."""
        kind = target.type
        if kind == "identifier":
            self._define(_name_of(target), target.start_byte, sources, state)
        elif kind in _PARTS:
            self._store_part(target, sources, state)
        elif kind == "array_declarator":
            self.visit(target.child_by_field_name("size"), state)
            self.store(target.child_by_field_name("declarator"), sources, state)
        elif kind not in _SKIPPED:
            for part in target.named_children:
                self.store(part, sources, state)

    def _store_part(self, target: Any, sources: Sequence[str], state: State) -> None:
        reads = self.visit(target, state)
        root = _root_of(target)
        if root is not None:
            name = _name_of(root)
            others = [read for read in reads if read != name]
            self._define(name, root.start_byte, [*sources, *others], state, adds=True)

    def assignment(self, node: Any, state: State) -> list[str]:
        """``a = b``, ``a += b``, ``(a := b)``, ``T a = b``; tuples of equal length are stored part by part."""
        left = _field_of(node, "left", "name", "declarator")
        right = _field_of(node, "right", "value")
        if left is None:
            return self._each(node.named_children, state)
        if right is None:  # an annotation without a value
            return []
        operator = node.child_by_field_name("operator")
        targets, values = _parts_of(left), _parts_of(right)
        if len(targets) == len(values) > 1:
            reads = [self.visit(value, state) for value in values]
            for target, sources in zip(targets, reads, strict=True):
                self.store(target, sources, state)
            return [name for sources in reads for name in sources]
        sources = self.visit(right, state)
        if operator is not None and operator.text != b"=":
            sources = [*sources, *self.visit(left, state)]
        self.store(left, sources, state)
        return sources

    def declaration(self, node: Any, state: State) -> list[str]:
        """C: declared variables are defined, with or without a value."""
        for declarator in node.children_by_field_name("declarator"):
            if declarator.type == "init_declarator":
                self.visit(declarator, state)
            elif declarator.type != "function_declarator":
                self.store(declarator, [], state)
        return []

    def one_store(self, node: Any, state: State) -> list[str]:
        """``x++``; ``for x in y`` of a comprehension; ``value as name`` of ``with`` and ``except``."""
        target = _field_of(node, "argument", "left", "alias")
        sources = self.visit(_field_of(node, "argument", "right") or node.named_children[0], state)
        if target is not None:
            self.store(target, sources, state)
        return sources

    def statement(self, node: Any, state: State) -> list[str]:
        """A method called for its effect stores its arguments in its object."""
        call = node.named_children[0] if node.named_children else None
        if call is None or call.type not in ("call", "call_expression"):
            return self._each(node.named_children, state)
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        reads = self.visit(function, state)
        sources = self.visit(arguments, state)
        root = _root_of(function) if function.type in ("attribute", "field_expression") else None
        if root is not None and _name_of(root) in state:
            self._define(_name_of(root), root.start_byte, sources, state, adds=True)
        return reads + sources

    def shift(self, node: Any, state: State) -> list[str]:
        """C++: ``cin >> x`` stores in x."""
        operator, right = node.child_by_field_name("operator"), node.child_by_field_name("right")
        if operator is None or operator.text != b">>" or not _reads_input(node):
            return self._each(node.named_children, state)
        self.visit(node.child_by_field_name("left"), state)
        self.store(right, [], state)
        return []

    def arguments(self, node: Any, state: State) -> list[str]:
        """C: the address of a variable among arguments stores in it."""
        reads = []
        for argument in node.named_children:
            if argument.type == "pointer_expression" and argument.children[0].type == "&":
                self.store(argument.child_by_field_name("argument"), [], state)
            else:
                reads += self.visit(argument, state)
        return reads

    # --- control flow -----------------------------------------------------------------------------------

    def branches(self, node: Any, state: State) -> list[str]:
        """``if``: each of the branches, and none of them if there is no ``else``."""
        reads = self.visit(node.child_by_field_name("condition"), state)
        ways = [node.child_by_field_name("consequence"), *node.children_by_field_name("alternative")]
        complete = any(way.type == "else_clause" for way in ways if way is not None)
        ends = [self._way(way, state) for way in ways if way is not None]
        self._unite(state, ends if complete else [*ends, dict(state)])
        return reads

    def _way(self, node: Any, state: State) -> State:
        """The state after one branch that starts from ``state``."""
        own = self._copy(state)
        self.visit(node, own)
        return own

    def _copy(self, state: State) -> State:
        self._work(len(state) // _ENTRIES_A_STEP)
        return dict(state)

    def _unite(self, state: State, ends: Sequence[State]) -> None:
        """Set a state to the union of several."""
        united: State = {}
        for end in ends:
            self._work(sum(map(len, end.values())) // _ENTRIES_A_STEP)
            for name, positions in end.items():
                united[name] = united.get(name, frozenset()) | positions
        state.clear()
        state.update(united)

    def _repeat(self, state: State, body: Callable[[State], object]) -> None:
        """A body that runs never, once, or repeatedly with its own definitions."""
        self._loops += 1
        for _ in range(2 if self._loops <= _NESTED_LOOPS else 1):
            before = self._copy(state)
            body(state)
            self._unite(state, [before, dict(state)])
        self._loops -= 1

    def loop(self, node: Any, state: State) -> list[str]:
        """``for x in y``, ``for (T x : y)``, ``for (a; b; c)``, ``while``, ``do``."""
        target, values = _field_of(node, "left", "declarator"), node.child_by_field_name("right")
        sources = self.visit(values, state) + self.visit(node.child_by_field_name("initializer"), state)
        rest = [node.child_by_field_name(name) for name in ("condition", "body", "update")]

        def once(inside: State) -> None:
            if target is not None:
                self.store(target, sources, inside)
            self._each([part for part in rest if part is not None], inside)

        self._repeat(state, once)
        self.visit(node.child_by_field_name("alternative"), state)
        return []

    def guarded(self, node: Any, state: State) -> list[str]:
        """``try``: a handler can start anywhere in the body."""
        before = self._copy(state)
        self.visit(node.child_by_field_name("body"), state)
        start: State = {}
        self._unite(start, [before, dict(state)])
        clauses = node.named_children[1:]
        handlers = [clause for clause in clauses if clause.type.startswith(("except", "catch"))]
        ends = [self._way(handler, start) for handler in handlers]
        self._each([clause for clause in clauses if clause.type == "else_clause"], state)
        self._unite(state, [*ends, dict(state)])
        self._each([clause for clause in clauses if clause.type == "finally_clause"], state)
        return []

    def cases(self, node: Any, state: State) -> list[str]:
        """``match``: one case, or none."""
        sources = [name for part in node.children_by_field_name("subject") for name in self.visit(part, state)]
        clauses = [clause for clause in self._below(node) if clause.type == "case_clause" and _match_of(clause) == node]
        ends = []
        for clause in clauses:
            own = self._copy(state)
            for part in clause.named_children:
                if part.type == "case_pattern":
                    self._capture(part, sources, own)
                else:
                    self.visit(part, own)
            ends.append(own)
        self._unite(state, [*ends, dict(state)])
        return []

    def _capture(self, pattern: Any, sources: Sequence[str], state: State) -> None:
        for part in self._below(pattern):
            single = part.type in ("dotted_name", "splat_pattern") and part.named_child_count == 1
            if single and part.parent.type != "class_pattern" and part.named_children[0].type == "identifier":
                self.store(part.named_children[0], sources, state)

    def switch(self, node: Any, state: State) -> list[str]:
        """C: ``switch``; its cases fall through one into the next."""
        self.visit(node.child_by_field_name("condition"), state)
        self._unite(state, [self._way(node.child_by_field_name("body"), state), dict(state)])
        return []

    # --- scopes -----------------------------------------------------------------------------------------

    def function(self, node: Any, state: State) -> list[str]:
        """A function, lambda or method: parameters are definitions; its own ones stay inside."""
        inside = self._copy(state)
        reads = self.visit(node.child_by_field_name("captures"), state)
        signature = _field_of(node, "parameters", "declarator")
        for parameter in _parameters_of(signature) if signature is not None else []:
            self.visit(_field_of(parameter, "value", "default_value"), state)
            name = _field_of(parameter, "name", "declarator")
            self.store(parameter if name is None else name, [], inside)
        return reads + self.visit(node.child_by_field_name("body"), inside)

    def scope(self, node: Any, state: State) -> list[str]:
        """A class: its definitions stay inside."""
        return self.visit(node.child_by_field_name("body"), self._copy(state))

    def comprehension(self, node: Any, state: State) -> list[str]:
        """The clauses first, then what is built from them."""
        inside = self._copy(state)
        reads = self._each(node.named_children[1:], inside)
        return reads + self.visit(node.named_children[0], inside)


_HANDLERS: dict[str, Callable[[_Walker, Any, State], list[str]]] = {
    **dict.fromkeys(("assignment", "augmented_assignment", "named_expression"), _Walker.assignment),
    **dict.fromkeys(("assignment_expression", "init_declarator"), _Walker.assignment),
    **dict.fromkeys(("for_statement", "for_range_loop", "while_statement", "do_statement"), _Walker.loop),
    **dict.fromkeys(("function_definition", "lambda", "lambda_expression"), _Walker.function),
    **dict.fromkeys(("class_definition", "class_specifier", "struct_specifier"), _Walker.scope),
    **dict.fromkeys(_COMPREHENSIONS, _Walker.comprehension),
    **dict.fromkeys(("update_expression", "for_in_clause", "as_pattern"), _Walker.one_store),
    "declaration": _Walker.declaration,
    "expression_statement": _Walker.statement,
    "binary_expression": _Walker.shift,
    "argument_list": _Walker.arguments,
    "if_statement": _Walker.branches,
    "try_statement": _Walker.guarded,
    "match_statement": _Walker.cases,
    "switch_statement": _Walker.switch,
}
