"""CEL in webhooks and policies: what expressions can speak of, and how they are run.

An expression sees `object`, `oldObject`, `request` and `namespaceObject`; depending on where it
stands also `params`, `authorizer` and `variables`. A variable is an expression of its own,
computed when the first expression that needs it runs; if it fails, whatever depends on it fails.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.schema.cel.environment import (
    CompileError,
    Environment,
    EvaluationError,
    Program,
    environment,
    exhausted,
    located,
)
from kilonova.local.schema.cel.functions.authorization import Decide, answering
from kilonova.local.schema.cel.types import CelType, type_of
from kilonova.local.schema.node import Schema, read

_VARIABLES = "variables"
_ROOM = 10 << 20
"""Characters and items that all variables of one write may have: each could double the last."""


def _object(**fields: Schema) -> Schema:
    return Schema(type="object", properties=fields)


_TEXT = Schema(type="string")
_TEXTS = Schema(type="array", items=_TEXT)
_TEXT_MAP = Schema(type="object", additional=_TEXT)
_TIME = Schema(type="string", format="date-time")
_NUMBER = Schema(type="integer")
_KIND = _object(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object(group=_TEXT, version=_TEXT, resource=_TEXT)
_ANYTHING = read({"x-kubernetes-int-or-string": True})

_REQUEST = _object(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object(
        username=_TEXT,
        uid=_TEXT,
        groups=_TEXTS,
        extra=Schema(type="object", additional=_TEXTS),
    ),
    dryRun=Schema(type="boolean"),
    options=_ANYTHING,
)

_CONDITION = _object(
    status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT
)

_NAMESPACE = _object(
    metadata=_object(
        name=_TEXT,
        generateName=_TEXT,
        namespace=_TEXT,
        labels=_TEXT_MAP,
        annotations=_TEXT_MAP,
        UID=_TEXT,
        creationTimestamp=_TIME,
        deletionGracePeriodSeconds=_NUMBER,
        deletionTimestamp=_TIME,
        generation=_NUMBER,
        resourceVersion=_TEXT,
        finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(conditions=Schema(type="array", items=_CONDITION), phase=_TEXT),
)

_NAMES = ("object", "oldObject", "request", "namespaceObject")
_NULLABLE = ("object", "oldObject", "namespaceObject", "params")
_AUTHORIZER = ("authorizer", "authorizer.requestResource")


def _typed(schema: Schema) -> CelType:
    type = type_of(schema)
    assert type is not None
    return type


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a policy; `program` is None where it does not compile."""

    name: str
    program: Program | None
    problem: str = ""


class Language:
    """What expressions at one place can speak of; compiles them."""

    def __init__(
        self, *, params: bool = False, authorizer: bool = True, variables: Iterable[str] = ()
    ) -> None:
        names = [*_NAMES]
        if params:
            names.append("params")
        if authorizer:
            names += _AUTHORIZER
        self._types: dict[str, CelType] = {
            "request": _typed(_REQUEST),
            "namespaceObject": _typed(_NAMESPACE),
        }
        dotted = [f"{_VARIABLES}.{name}" for name in variables if name.isidentifier()]
        names.append(_VARIABLES)
        nullable = tuple(name for name in names if name in _NULLABLE)
        self._has_variables = bool(dotted)
        if dotted:
            self._types[_VARIABLES] = _typed(_object())
            self.environment = Environment((*names, *dotted), nullable=nullable)
        else:
            self.environment = environment(tuple(names), nullable=nullable)
        self.variables: dict[str, Variable] = {}

    def define(self, name: str, source: str) -> Variable:
        """Compile a variable, which later expressions may use. Never raises."""
        dotted = f"{_VARIABLES}.{name}"
        try:
            program = self._compiled(source)
            if program.type.is_optional:
                raise CompileError("a variable may not be an optional")
        except CompileError as error:
            variable = Variable(name, None, str(error))
        else:
            self._types[dotted] = program.type
            variable = Variable(name, program)
        self.variables[dotted] = variable
        return variable

    def compile(self, source: str, *wanted: str) -> Program:
        """Compile an expression of one of these types. Raises `CompileError`."""
        try:
            program = self._compiled(source)
        except CompileError as error:
            raise CompileError(f"compilation failed: {error}") from None
        found = {"null": "null_type"}.get(program.type.name, program.type.name)
        if found not in wanted:
            what = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
            raise CompileError(f"must evaluate to {what} but got {found}")
        return program

    def _compiled(self, source: str) -> Program:
        program = self.environment.compile(source, self._types)
        if _VARIABLES in program.names and not self._has_variables:
            place = _place(source, rf"\b{_VARIABLES}\b")
            words = f"undeclared reference to '{_VARIABLES}' (in container '')"
            raise CompileError(located(source, place, words))
        for name in sorted(program.names - self.variables.keys()):
            if name.startswith(f"{_VARIABLES}."):
                # One that comes later: to the environment all of them are there.
                field = name.removeprefix(f"{_VARIABLES}.")
                place = _place(source, rf"(?<=\b{_VARIABLES})\.{field}\b")
                raise CompileError(located(source, place, f"undefined field '{field}'"))
        return program


def _place(source: str, pattern: str) -> int:
    found = re.search(pattern, source)
    return found.start() if found else 0


class Values:
    """What the names stand for in one write. Not for use after it."""

    def __init__(self, language: Language, values: Mapping[str, Any], decide: Decide) -> None:
        self._language = language
        self._values = dict(values)
        self._decide = decide
        self._failed: dict[str, str] = {}
        self._room = _ROOM
        self._bound: Any = None

    def run(self, program: Program) -> Any:
        """The value of an expression. Raises `EvaluationError`."""
        with answering(self._decide):
            return self._run(program)

    def _run(self, program: Program) -> Any:
        for name in sorted(program.names):
            if name in self._language.variables and name not in self._values:
                self._compute(name)
        if self._bound is None:
            self._bound = self._language.environment.bind(self._values)
        try:
            return program.run(self._bound)
        except EvaluationError as error:
            raise self._explained(error) from None

    def _compute(self, name: str) -> None:
        if name in self._failed:
            return
        variable = self._language.variables[name]
        if variable.program is None:
            words = f'composited variable "{variable.name}" fails to compile: {variable.problem}'
            self._failed[name] = words
            return
        try:
            value = _carried(self._run(variable.program))
            self._room -= _size(value)
            if self._room < 0:
                raise exhausted()
        except EvaluationError as error:
            words = f'composited variable "{variable.name}" fails to evaluate: {error}'
            self._failed[name] = words
        else:
            self._values[name] = value
            self._bound = None

    def _explained(self, error: EvaluationError) -> EvaluationError:
        """A variable that could not be computed is simply missing to the runtime."""
        for name, words in self._failed.items():
            if f'"{name}"' in str(error):
                return EvaluationError(words, error.exhausted)
        return error


def plain(value: Any) -> Any:
    """The result of an expression as plain JSON: items come wrapped."""
    unwrap = getattr(value, "plain_value", None)
    if unwrap is not None:
        return plain(unwrap())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _size(value: Any) -> int:
    """About how much room a plain value takes."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(key)) + _size(item) for key, item in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return sum(map(_size, value))  # pyright: ignore[reportUnknownArgumentType]
    return 1


def _carried(value: Any) -> Any:
    """A value that expressions can be given again: times travel as text."""
    value = plain(value)
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds()}s"
    return value


def namespace_object(namespace: JsonObject) -> JsonObject:
    """What expressions see of a namespace."""
    hidden = ("managedFields", "ownerReferences", "selfLink")
    metadata = {key: value for key, value in namespace["metadata"].items() if key not in hidden}
    return {**namespace, "metadata": metadata}
