"""Environments of the CEL runtime (cel-expr-python, Google's C++ implementation).

The runtime is imported when the first environment is made. Kubernetes' functions are declared in
one of two ways: with their real types, to check expressions, or with types that the runtime
supports, to evaluate them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from kilonova.api.json import JsonObject
from kilonova.cel.functions.declaration import OPAQUE_TYPES, Function
from kilonova.cel.optional_imports import without_protobuf

if TYPE_CHECKING:
    from cel_expr_python import cel

Functions = tuple[Function, ...]

_EXTENSIONS: list[JsonObject] = [
    {"name": "two-var-comprehensions"},
    {"name": "lists"},
    {"name": "sets"},
    {"name": "optional"},
    {"name": "strings", "version": 2},
]

_BINDINGS: JsonObject = {"name": "bindings"}
"""`cel.bind`, which only device selectors may use."""

_EXTENDED_BUILTINS = frozenset({"indexOf", "lastIndexOf"})
"""Functions that the runtime has for other types."""

_STATUS = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")


def checking_environment(
    variables: Mapping[str, str], functions: Functions, *, bindings: bool = False
) -> cel.Env:
    """An environment that checks expressions. `variables` have types in CEL's syntax; `bindings`
    adds `cel.bind`.
    """
    from cel_expr_python import cel

    with without_protobuf():
        config = _config(variables, bindings, _declare_functions(functions))
        return cel.NewEnv(config=config, extensions=[_function_extension(functions, checking=True)])


def running_environment(
    variables: Iterable[str], functions: Functions, *, bindings: bool = False
) -> cel.Env:
    """An environment that evaluates expressions; all variables are `dyn`."""
    from cel_expr_python import cel

    with without_protobuf():
        config = _config(dict.fromkeys(variables, "dyn"), bindings)
        extension = _function_extension(functions, checking=False)
        return cel.NewEnv(config=config, extensions=[extension])


def strip_status(message: str) -> str:
    """An error message of the runtime without its status code."""
    return _STATUS.sub("", message)


def _config(
    variables: Mapping[str, str], bindings: bool, functions: Sequence[JsonObject] = ()
) -> cel.EnvConfig:
    from cel_expr_python import cel

    text: JsonObject = {
        "extensions": [*_EXTENSIONS, _BINDINGS] if bindings else _EXTENSIONS,
        "variables": [
            {"name": name, **_type_declaration(type)} for name, type in variables.items()
        ],
        "functions": list(functions),
    }
    return cel.NewEnvConfigFromYaml(json.dumps(text))


def _declare_functions(functions: Functions) -> list[JsonObject]:
    """Functions with their real types, which only this format can express."""
    declared: dict[str, list[JsonObject]] = {}
    for each in functions:
        if each.name in _EXTENDED_BUILTINS:
            continue
        overloads = declared.setdefault(each.name, [])
        for signature in each.signatures:
            types = [_type_declaration(parameter) for parameter in signature.parameters]
            overload: JsonObject = {"id": f"{each.name}_{len(overloads)}"}
            if signature.member:
                overload["target"] = types.pop(0)
            overloads.append(
                {**overload, "args": types, "return": _type_declaration(signature.result)}
            )
    return [{"name": name, "overloads": all} for name, all in declared.items()]


def _type_declaration(type_name: str) -> JsonObject:
    name, inside = type_name, ""
    if type_name.endswith(")"):
        name, _, inside = type_name[:-1].partition("(")
    declaration: JsonObject = {"type_name": OPAQUE_TYPES.get(name, name)}
    if inside:
        declaration["params"] = [_type_declaration(each) for each in inside.split(", ", 1)]
    return declaration


@cache
def _function_extension(functions: Functions, checking: bool) -> cel.CelExtension:
    """Functions in the format that has implementations and may extend built-in ones.

    For checking, only the latter are needed in this format; for evaluation, all of them.
    """
    from cel_expr_python import cel

    overloads: dict[tuple[str, bool, tuple[str, ...]], tuple[str, Callable[..., Any]]] = {}
    for each in functions:
        if checking and each.name not in _EXTENDED_BUILTINS:
            continue
        for signature in each.signatures:
            parameters = signature.parameters if checking else _overload_kinds(signature.parameters)
            key = (each.name, signature.member, parameters)
            result, _ = overloads.get(key, (signature.result, each.call))
            # Overloads that the runtime cannot distinguish have a result of any of their types.
            overloads[key] = (result if result == signature.result else "dyn", each.call)
    declared: dict[str, list[cel.Overload]] = {}
    for (name, member, parameters), (result, call) in overloads.items():
        known = declared.setdefault(name, [])
        types = [_runtime_type(parameter) for parameter in parameters]
        known.append(
            cel.Overload(f"{name}_{len(known)}", _runtime_type(result), types, member, call)
        )
    return cel.CelExtension(
        "kubernetes", [cel.FunctionDecl(name, all) for name, all in declared.items()]
    )


def _overload_kinds(parameters: Iterable[str]) -> tuple[str, ...]:
    """The types that the runtime distinguishes when it selects an overload."""
    kinds = (
        "list(dyn)" if parameter.startswith("list(") else parameter for parameter in parameters
    )
    return tuple("map(dyn, dyn)" if parameter in OPAQUE_TYPES else parameter for parameter in kinds)


def _runtime_type(type_name: str) -> cel.Type:
    """A type that values have at run time."""
    from cel_expr_python import cel

    if type_name in OPAQUE_TYPES:
        return cel.Type.DYN
    if type_name.startswith("list("):
        return cel.Type.List(_runtime_type(type_name[5:-1]))
    if type_name.startswith("map("):
        key, _, value = type_name[4:-1].partition(", ")
        return cel.Type.Map(_runtime_type(key), _runtime_type(value))
    return getattr(cel.Type, type_name.upper())
