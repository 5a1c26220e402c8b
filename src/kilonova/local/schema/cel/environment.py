"""Compiling and running CEL expressions.

An expression is compiled twice: once with the real types of Kubernetes' functions, to check
it, and once with types that the runtime can carry, to run it. The runtime (cel-expr-python,
Google's C++ implementation) is loaded when the first expression is compiled.

A running expression is bounded: the runtime gives up after 10,000 iterations of all its loops
together, expressions are at most 100,000 characters and 32 levels deep, and its regular
expressions are RE2's. What else an expression may spend is counted: `bounds` says where, and
`functions.metering` how much. Compiled expressions may be shared between threads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kilonova.api.json import JsonObject
from kilonova.local.schema.cel.bounds import bounds_of
from kilonova.local.schema.cel.functions import FUNCTIONS, OPAQUE_TYPES
from kilonova.local.schema.cel.functions.metering import EXHAUSTED, metered
from kilonova.local.schema.cel.inference import Inference
from kilonova.local.schema.cel.rewrite import Rewrite
from kilonova.local.schema.cel.syntax import read_tree
from kilonova.local.schema.cel.types import CelType

if TYPE_CHECKING:
    from cel_expr_python import cel

_EXTENSIONS: list[JsonObject] = [
    {"name": "two-var-comprehensions"},
    {"name": "lists"},
    {"name": "sets"},
    {"name": "optional"},
    {"name": "strings", "version": 2},
]

_BINDINGS: JsonObject = {"name": "bindings"}
"""`cel.bind`, which only expressions on devices may use."""

_EXTENDING = frozenset({"indexOf", "lastIndexOf"})
"""Names that the runtime has for other types already."""

_PYTHON_FUNCTIONS = frozenset(each.name for each in FUNCTIONS)

_UNSUPPORTED = frozenset({"cel.@mapInsert"})
"""Functions that the compiler knows and the runtime lacks: transformMap needs them."""

OLD_SELF = "oldSelf"
_WRAPPED_OLD_SELF = "oldSelf_"


class CompileError(ValueError):
    """An expression that is wrong; the message shows where, as the compiler prints it."""


class EvaluationError(ValueError):
    """An expression that came to no result. `exhausted`: it would have taken too long."""

    def __init__(self, message: str, exhausted: bool = False) -> None:
        super().__init__(message)
        self.exhausted = exhausted


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    type: CelType
    names: frozenset[str]  # the variables that it uses
    _expression: Any

    def run(self, activation: Any) -> Any:
        """Its value, for variables bound by `Environment.bind`."""
        with metered() as meter:
            try:
                result = self._expression.eval(activation)
                value = result.value()
            except (RuntimeError, TypeError) as error:
                raise exhausted() if meter.exhausted else _failure(str(error)) from None
            except MemoryError:
                raise exhausted() from None
        if meter.exhausted:
            raise exhausted()
        if value is True or value is False:
            return value
        if result.type().name() == "ERROR":
            raise _failure(str(value))
        return value


class Environment:
    """The functions of Kubernetes and a set of variables."""

    def __init__(
        self,
        variables: tuple[str, ...],
        optional_old_self: bool = False,
        nullable: tuple[str, ...] = (),
        bindings: bool = False,
    ) -> None:
        from cel_expr_python import cel

        self._optional_old_self = optional_old_self
        self._nullable = {name: f"{name}_" for name in nullable}
        """Variables that may be null, and those that are read to look into them."""
        types = dict.fromkeys(variables, "dyn")
        if optional_old_self:
            types[OLD_SELF] = "optional_type(dyn)"
        config = _checking_config(types, bindings)
        self._checking = cel.NewEnv(config=config, extensions=[_extended(True)])
        types = dict.fromkeys((*variables, _WRAPPED_OLD_SELF, *self._nullable.values()), "dyn")
        config = _config(types, bindings)
        self._running = cel.NewEnv(config=config, extensions=[_extended(False)])

    def compile(self, source: str, types: Mapping[str, CelType]) -> Program:
        """Check and compile; `types` are what is known of the variables."""
        try:
            tree = read_tree(self._checking.compile(source).serialize())
        except RuntimeError as error:
            raise CompileError(_compiler_message(error)) from None
        inference = Inference(tree, _PYTHON_FUNCTIONS, _UNSUPPORTED)
        type = inference.type(dict(types))
        if inference.problems:
            raise CompileError("\n".join(located(source, *each) for each in inference.problems))
        try:
            expression = self._running.compile(source)
        except RuntimeError as error:
            raise CompileError(_compiler_message(error)) from None
        lookups = inference.free_names.get(OLD_SELF, []) if self._optional_old_self else []
        names = {
            id: self._nullable[name]
            for id, name in inference.looked_into.items()
            if name in self._nullable
        }
        bounds = bounds_of(tree.root, inference.types)
        if bounds.hidden:
            words = "an optional inside of another value is not supported here"
            offsets = (tree.positions.get(id, 0) for id in bounds.hidden)
            raise CompileError("\n".join(located(source, each, words) for each in offsets))
        rewrite = Rewrite(inference.times, lookups, _WRAPPED_OLD_SELF, names, bounds)
        try:
            expression = self._running.deserialize(rewrite.apply(expression.serialize()))
        except RuntimeError:
            raise CompileError("the expression is nested too deeply: split it up") from None
        return Program(type, frozenset(inference.free_names), expression)

    def bind(self, values: Mapping[str, Any]) -> Any:
        """Values for the variables. What is made of them is shared by all programs run on it."""
        if self._nullable:
            looked_into: dict[str, Any] = {
                other: {} if values[name] is None else values[name]
                for name, other in self._nullable.items()
                if name in values
            }
            values = {**values, **looked_into}
        return self._running.Activation(values)

    def bind_self(self, new: Any, old: Any, has_old: bool) -> Any:
        """Values for `self` and `oldSelf`, the latter as an optional where that was asked for."""
        if not self._optional_old_self:
            return self.bind({"self": new, OLD_SELF: old} if has_old else {"self": new})
        return self.bind({"self": new, _WRAPPED_OLD_SELF: {"value": old} if has_old else {}})


@cache
def environment(
    variables: tuple[str, ...],
    optional_old_self: bool = False,
    nullable: tuple[str, ...] = (),
    bindings: bool = False,
) -> Environment:
    """The environment with these variables; made once. `nullable` are those that may be null."""
    return Environment(variables, optional_old_self, nullable, bindings)


def _config(
    variables: Mapping[str, str], bindings: bool, functions: Sequence[JsonObject] = ()
) -> cel.EnvConfig:
    from cel_expr_python import cel

    text: JsonObject = {
        "extensions": [*_EXTENSIONS, _BINDINGS] if bindings else _EXTENSIONS,
        "variables": [{"name": name, **_spelled(type)} for name, type in variables.items()],
        "functions": list(functions),
    }
    return cel.NewEnvConfigFromYaml(json.dumps(text))


def _checking_config(variables: Mapping[str, str], bindings: bool) -> cel.EnvConfig:
    """Kubernetes' functions with their real types, which only this form can express."""
    functions: dict[str, list[JsonObject]] = {}
    for each in FUNCTIONS:
        if each.name in _EXTENDING:
            continue
        overloads = functions.setdefault(each.name, [])
        for signature in each.signatures:
            types = [_spelled(word) for word in signature.parameters]
            overload: JsonObject = {"id": f"{each.name}_{len(overloads)}"}
            if signature.member:
                overload["target"] = types.pop(0)
            overloads.append({**overload, "args": types, "return": _spelled(signature.result)})
    declared = [{"name": name, "overloads": all} for name, all in functions.items()]
    return _config(variables, bindings, declared)


def _spelled(word: str) -> JsonObject:
    name, inside = word, ""
    if word.endswith(")"):
        name, _, inside = word[:-1].partition("(")
    spelled: JsonObject = {"type_name": OPAQUE_TYPES.get(name, name)}
    if inside:
        spelled["params"] = [_spelled(each) for each in inside.split(", ", 1)]
    return spelled


@cache
def _extended(checking: bool) -> cel.CelExtension:
    """Functions in the form that has implementations, and may add to the runtime's own.

    To check, only the latter are wanted in this form; to run, all of them.
    """
    from cel_expr_python import cel

    overloads: dict[tuple[str, bool, tuple[str, ...]], tuple[str, Callable[..., Any]]] = {}
    for each in FUNCTIONS:
        if checking and each.name not in _EXTENDING:
            continue
        for signature in each.signatures:
            words = signature.parameters if checking else _kinds(signature.parameters)
            key = (each.name, signature.member, words)
            result, _ = overloads.get(key, (signature.result, each.call))
            # Overloads that the runtime cannot tell apart have a result of any of their types.
            overloads[key] = (result if result == signature.result else "dyn", each.call)
    declared: dict[str, list[cel.Overload]] = {}
    for (name, member, words), (result, call) in overloads.items():
        known = declared.setdefault(name, [])
        types = [_carried(word) for word in words]
        known.append(cel.Overload(f"{name}_{len(known)}", _carried(result), types, member, call))
    return cel.CelExtension(
        "kubernetes", [cel.FunctionDecl(name, all) for name, all in declared.items()]
    )


def _kinds(parameters: Iterable[str]) -> tuple[str, ...]:
    """What the runtime tells apart when it picks an implementation."""
    kinds = ("list(dyn)" if word.startswith("list(") else word for word in parameters)
    return tuple("map(dyn, dyn)" if word in OPAQUE_TYPES else word for word in kinds)


def _carried(word: str) -> cel.Type:
    """A type that values can have while an expression runs."""
    from cel_expr_python import cel

    if word in OPAQUE_TYPES:
        return cel.Type.DYN
    if word.startswith("list("):
        return cel.Type.List(_carried(word[5:-1]))
    if word.startswith("map("):
        key, _, value = word[4:-1].partition(", ")
        return cel.Type.Map(_carried(key), _carried(value))
    return getattr(cel.Type, word.upper())


def _compiler_message(error: RuntimeError) -> str:
    return re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", str(error))


def located(source: str, offset: int, message: str) -> str:
    """A message above the line it is about, as the compiler itself prints it."""
    before = source[:offset]
    line = before.count("\n") + 1
    column = offset - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {text}\n | {'.' * column}^"


def exhausted() -> EvaluationError:
    """An expression that would have taken more time or room than it may."""
    return EvaluationError(EXHAUSTED, exhausted=True)


_FAILURES = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero"), "modulus by zero"),
    (re.compile(r"No matching overloads found.*", re.DOTALL), "no such overload"),
)
"""The runtime's words for a failure, and those of Kubernetes."""


def _failure(text: str) -> EvaluationError:
    text = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", text)
    if "Iteration budget exceeded" in text:
        return exhausted()
    for pattern, words in _FAILURES:
        if pattern.match(text):
            return EvaluationError(pattern.sub(words, text))
    return EvaluationError(text)
