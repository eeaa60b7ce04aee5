"""docs/reference.md, written from signatures and docstrings.

The sources are parsed, not imported, so that the Worker's own modules can be documented too, and
the text does not depend on the Python that writes it.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.paths import ROOT, SOURCE

TARGET = ROOT / "docs" / "reference.md"

SECTIONS = (
    ("The package", "palimpsest", ()),
    ("The Worker's edge", "palimpsest.hosts.workers", ("durable_object", "worker_entrypoint")),
    ("Testing", "palimpsest.testing", ()),
    ("Turns", "palimpsest.chat.turns", ()),
    ("Context providers", "palimpsest.session.providers", ()),
    ("Storage of one's own", "palimpsest.session.provided.interface", ()),
    ("Storage of one's own: overlays", "palimpsest.session.provided.overlaying", ()),
    ("Sessions in PostgreSQL", "palimpsest.session.provided.postgres", ()),
    ("The agent's storage as a provider", "palimpsest.session.provided.agent", ()),
    ("Models", "palimpsest.models.interface", ()),
    ("Models: OpenAI-compatible servers", "palimpsest.models.openai_chat", ()),
    ("Models: Anthropic", "palimpsest.models.anthropic", ("AnthropicModel",)),
    ("Models: Workers AI", "palimpsest.models.workers_ai", ("WorkersAIModel",)),
    ("Tokens", "palimpsest.tokens", ()),
    ("Access", "palimpsest.auth", ()),
    ("Conversations from elsewhere", "palimpsest.interchange", ()),
    ("Checkpoints in storage", "palimpsest.store.checkpoints", ()),
    ("Errors", "palimpsest.errors", ()),
)
"""Title, module, and the names to document there; none for every public one."""

COMPACTION = SOURCE / "palimpsest" / "compaction"

HEAD = """\
# Reference

Written by `scripts/reference` from the signatures and docstrings; do not edit it. Times are in ms \
since 1970 unless an entry says otherwise, sizes in bytes, and every method of `Session` and \
`SessionManager` that touches the database is `async`.

"""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Found:
    """A definition, the module that holds it, and the text that follows it where it is a value."""

    name: str
    module: str
    node: Definition
    remark: str = ""


def module_path(module: str) -> Path | None:
    """The file of a module of the library."""
    base = SOURCE.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def parse(module: str) -> ast.Module:
    """A module's syntax tree.

    :raises LookupError: there is no such module.
    """
    path = module_path(module)
    if path is None:
        raise LookupError(f"no module {module}")
    return ast.parse(path.read_text(encoding="utf-8"))


def find(module: str, name: str) -> Found:
    """The definition of a name, wherever the module takes it from.

    :raises LookupError: it is not defined there.
    """
    tree = parse(module)
    found: Found | None = None
    for index, node in enumerate(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if (alias.asname or alias.name) == name and module_path(node.module):
                    found = find(node.module, alias.name)
        elif _defines(node, name):
            assert isinstance(node, Definition)
            found = Found(name, module, node, _remark(tree.body, index))
    if found is None:
        raise LookupError(f"{module} does not define {name}")
    return found


def _defines(node: ast.stmt, name: str) -> bool:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name == name
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and node.target.id == name
    if isinstance(node, ast.Assign):
        return any(isinstance(item, ast.Name) and item.id == name for item in node.targets)
    return False


def _remark(body: Sequence[ast.stmt], index: int) -> str:
    """The text directly below a value, which says what it is."""
    following = body[index + 1] if index + 1 < len(body) else None
    if (
        isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
        and isinstance(following.value.value, str)
    ):
        return following.value.value
    return ""


def public_names(module: str) -> list[str]:
    """``__all__``, or what a module defines without an underscore."""
    tree = parse(module)
    names: list[str] = []
    for node in tree.body:
        if _defines(node, "__all__") and isinstance(node, ast.Assign | ast.AnnAssign):
            return [str(name) for name in ast.literal_eval(node.value or ast.List([]))]
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


# -- text ---------------------------------------------------------------------------------------

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`]+)`")
_FIELD = re.compile(r"^:(param|returns?|raises|yields)\s*([^:]*):\s*(.*)$")


def as_markdown(docstring: str) -> str:
    """A docstring with its roles and fields as Markdown."""
    text = _ROLE.sub(lambda role: f"`{role[1].lstrip('.')}`", inspect.cleandoc(docstring))
    text = text.replace("``", "`")
    lines: list[str] = []
    in_fields = False
    for line in text.splitlines():
        field = _FIELD.match(line)
        if field:
            if not in_fields and lines and lines[-1]:
                lines.append("")
            in_fields = True
            kind, name, rest = field[1], field[2].strip(), field[3]
            lead = {"param": f"`{name}`", "raises": f"raises `{name}`"}.get(kind, "gives")
            lines.append(f"- {lead}: {rest}")
        elif in_fields and line.startswith((" ", "\t")):
            lines[-1] += f" {line.strip()}"
        else:
            in_fields = in_fields and not line.strip()
            lines.append(line)
    return "\n".join(lines).strip()


def _docstring(node: ast.ClassDef | Function) -> str:
    return as_markdown(ast.get_docstring(node, clean=False) or "")


def signature(node: Function, *, name: str = "", method: bool = False) -> str:
    """A function's line, without ``self``."""
    arguments = node.args
    static = any(ast.unparse(mark) == "staticmethod" for mark in node.decorator_list)
    if method and not static:
        plain = [*arguments.posonlyargs, *arguments.args]
        first = plain[0]
        arguments = ast.arguments(
            posonlyargs=[item for item in arguments.posonlyargs if item is not first],
            args=[item for item in arguments.args if item is not first],
            vararg=arguments.vararg,
            kwonlyargs=arguments.kwonlyargs,
            kw_defaults=arguments.kw_defaults,
            kwarg=arguments.kwarg,
            defaults=arguments.defaults,
        )
    prefix = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    return f"{prefix}{name or node.name}({ast.unparse(arguments)}){result}"


def _is_property(node: Function) -> bool:
    return any(ast.unparse(mark).endswith("property") for mark in node.decorator_list)


def _is_setter_or_overload(node: Function) -> bool:
    marks = [ast.unparse(mark) for mark in node.decorator_list]
    return any(mark.endswith((".setter", "overload")) for mark in marks)


# -- entries ------------------------------------------------------------------------------------


def render(found: Found) -> Iterator[str]:
    """The paragraphs of one name."""
    node = found.node
    yield f"### `{found.name}`"
    yield f"From `{found.module}`."
    if isinstance(node, ast.ClassDef):
        yield from _render_class(node, found.module)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield f"```\n{signature(node)}\n```"
        yield _docstring(node)
    else:
        yield f"```\n{ast.unparse(node)}\n```"
        yield as_markdown(found.remark)


def _render_class(node: ast.ClassDef, module: str) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    made = next(
        (item for item in node.body if isinstance(item, Function) and item.name == "__init__"), None
    )
    head = f"class {node.name}" + (f"({bases})" if bases else "")
    if made is not None:
        head += f"\n{signature(made, name=node.name, method=True)}"
    yield f"```\n{head}\n```"
    yield _docstring(node)
    if made is not None and ast.get_docstring(made):
        yield _docstring(made)
    members = [*_members(node), *_inherited(node, module)]
    if members:
        yield "\n".join(members)


def _inherited(node: ast.ClassDef, module: str) -> Iterator[str]:
    """Members of bases that have no entry of their own: they are the class's, to its user."""
    for base in node.bases:
        if not isinstance(base, ast.Name) or base.id in DOCUMENTED_BASES:
            continue
        try:
            found = find(module, base.id)
        except LookupError:
            continue
        if isinstance(found.node, ast.ClassDef):
            yield from _members(found.node)
            yield from _inherited(found.node, found.module)


DOCUMENTED_BASES = frozenset({"Agent", "AiChatMessage", "Record"})
"""Bases with an entry of their own, or none worth one: their members are not repeated."""


def _members(node: ast.ClassDef) -> Iterator[str]:
    for index, item in enumerate(node.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            if item.target.id.startswith("_"):
                continue
            yield _entry(ast.unparse(item), as_markdown(_remark(node.body, index)))
        elif isinstance(item, Function) and not item.name.startswith("_"):
            if _is_setter_or_overload(item):
                continue
            if _is_property(item):
                kind = ast.unparse(item.returns) if item.returns else "Any"
                yield _entry(f"{item.name}: {kind}", _docstring(item))
            else:
                yield _entry(signature(item, method=True), _docstring(item))


def _entry(line: str, text: str) -> str:
    """A member's list entry; what its docstring says beyond one line is indented below it."""
    line = f"- `{' '.join(line.split())}`"
    if not text:
        return line
    first, _, rest = text.partition("\n")
    if not rest:
        return f"{line}: {first}"
    body = "\n".join(f"  {part}".rstrip() for part in rest.splitlines())
    return f"{line}: {first}\n{body}"


def reference() -> str:
    """The whole document."""
    seen: set[tuple[str, str]] = set()
    parts = [HEAD.strip()]
    sections = list(SECTIONS)
    for path in sorted(COMPACTION.glob("*.py")):
        if path.stem != "__init__":
            sections.append((f"Compaction: {path.stem}", f"palimpsest.compaction.{path.stem}", ()))
    for title, module, names in sections:
        entries: list[str] = []
        for name in names or public_names(module):
            found = find(module, name)
            if (found.module, found.name) not in seen:
                seen.add((found.module, found.name))
                entries += [text for text in render(found) if text]
        if entries:
            parts += [f"## {title}", f"`{module}`", *entries]
    return "\n\n".join(parts) + "\n"
