"""Puts a call before each statement of a function, so that a thread can be preempted there. Line numbers stay.

An augmented assignment to what others can see (an attribute, an item, a global) is split into its read and its write, and
each turn of a comprehension counts as a statement, because CPython switches threads there too. A plain statement is taken
as atomic.
"""

import ast

HOOK = "__moriarty__"
TEMPORARY = "_moriarty_"

NOT_BEFORE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
NOT_BEFORE += (ast.Global, ast.Nonlocal)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def rewrite(source: str, path: str) -> ast.Module:
    """The module's tree with hooks. Raises SyntaxError as `ast.parse` does."""
    tree = ast.parse(source, path)
    return ast.fix_missing_locations(_Rewriter().visit(tree))


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.shared: "list[set[str]]" = []
        """For each function around: its names that are declared global or nonlocal."""

    def visit_FunctionDef(self, node: "ast.FunctionDef | ast.AsyncFunctionDef") -> ast.AST:
        self.shared.append(_shared_names(node))
        node.body = [self.visit(child) for child in node.body]
        head = 1 if _is_text(node.body[0]) else 0
        node.body = node.body[:head] + self._hooked(node.body[head:])
        self.shared.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        within, self.shared = self.shared, []
        self.generic_visit(node)
        self.shared = within
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self.shared:
            for field in ("body", "orelse", "finalbody"):
                body = getattr(node, field, None)
                if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                    setattr(node, field, self._hooked(body))
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        if self.shared:
            test = ast.Compare(_call(node.iter), [ast.Is()], [ast.Constant(None)])
            node.ifs.insert(0, ast.copy_location(test, node.iter))
        return node

    def _hooked(self, body: "list[ast.stmt]") -> "list[ast.stmt]":
        out: "list[ast.stmt]" = []
        for statement in body:
            if not isinstance(statement, NOT_BEFORE):
                out.append(ast.copy_location(ast.Expr(_call(statement)), statement))
            out.extend(self._split(statement) if isinstance(statement, ast.AugAssign) else [statement])
        return out

    def _split(self, node: ast.AugAssign) -> "list[ast.stmt]":
        """`a.b += c` becomes: keep a; read a.b; hook; add c; write a.b."""
        target = node.target
        before: "list[ast.stmt]" = []
        if isinstance(target, ast.Attribute):
            before.append(_assign("owner", target.value))
            place: "ast.expr" = ast.Attribute(_name("owner"), target.attr, ast.Load())
        elif isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
            before += [_assign("owner", target.value), _assign("index", target.slice)]
            place = ast.Subscript(_name("owner"), _name("index"), ast.Load())
        elif isinstance(target, ast.Name) and target.id in self.shared[-1]:
            place = ast.Name(target.id, ast.Load())
        else:
            return [node]
        steps = before + [
            _assign("value", place),
            ast.Expr(_call(node)),
            ast.AugAssign(ast.Name(f"{TEMPORARY}value", ast.Store()), node.op, node.value),
            ast.Assign([_stored(place)], _name("value")),
        ]
        return [ast.copy_location(step, node) for step in steps]


def _shared_names(function: ast.AST) -> "set[str]":
    names: "set[str]" = set()
    todo = list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            names.update(node.names)
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(node))
    return names


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _call(where: "ast.stmt | ast.expr") -> ast.Call:
    call = ast.Call(ast.Name(HOOK, ast.Load()), [], [])
    return ast.fix_missing_locations(ast.copy_location(call, where))


def _name(what: str) -> ast.Name:
    return ast.Name(f"{TEMPORARY}{what}", ast.Load())


def _assign(what: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(f"{TEMPORARY}{what}", ast.Store())], value)


def _stored(place: ast.expr) -> ast.expr:
    if isinstance(place, ast.Attribute):
        return ast.Attribute(_name("owner"), place.attr, ast.Store())
    if isinstance(place, ast.Subscript):
        return ast.Subscript(_name("owner"), _name("index"), ast.Store())
    assert isinstance(place, ast.Name)
    return ast.Name(place.id, ast.Store())
