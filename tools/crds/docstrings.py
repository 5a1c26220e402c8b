"""What a type and its fields are, in the words that stand below them in the source."""

import ast
import inspect
import textwrap
from functools import cache


def described_type(cls: type) -> str:
    """The docstring of a type, as running text."""
    return _running(cls.__doc__ or "")


def described_field(cls: type, name: str) -> str:
    """The string below a field; empty where there is none."""
    for base in cls.__mro__:
        if name in _fields(base):
            return _fields(base)[name]
    return ""


@cache
def _fields(cls: type) -> dict[str, str]:
    """Every field that this class itself names, and what is said of it."""
    if not cls.__module__.startswith("kilonova."):
        return {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(definition, ast.ClassDef)
    texts: dict[str, str] = {}
    following = [*definition.body[1:], None]
    for statement, after in zip(definition.body, following, strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            texts[statement.target.id] = _text_of(after)
    return texts


def _text_of(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return _running(str(statement.value.value))
    return ""


def _running(text: str) -> str:
    """Without the line breaks that only the source needs; paragraphs stay."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n".join(" ".join(each.split()) for each in paragraphs)
