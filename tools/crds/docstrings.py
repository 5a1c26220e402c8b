"""Descriptions of types and fields, from their docstrings in the source."""

import ast
import inspect
import textwrap
from functools import cache

_NOT_OURS = ("builtins", "msgspec")
"""Packages whose classes have no field docstrings, or no source."""


def get_type_description(cls: type) -> str:
    """The docstring of a type, as running text."""
    return _join_lines(cls.__doc__ or "")


def get_field_description(cls: type, name: str) -> str:
    """The docstring below a field; empty if it has none."""
    for base in cls.__mro__:
        if name in _list_field_docstrings(base):
            return _list_field_docstrings(base)[name]
    return ""


@cache
def _list_field_docstrings(cls: type) -> dict[str, str]:
    """Every field that this class itself declares, with its docstring."""
    if cls.__module__.split(".")[0] in _NOT_OURS:
        return {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    following = [*definition.body[1:], None]
    for statement, after in zip(definition.body, following, strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            texts[statement.target.id] = _get_docstring(after)
    return texts


def _get_docstring(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return _join_lines(str(statement.value.value))
    return ""


def _join_lines(text: str) -> str:
    """Without line breaks within paragraphs."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n".join(" ".join(each.split()) for each in paragraphs)
