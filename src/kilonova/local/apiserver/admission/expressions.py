"""CEL in webhooks and policies: the variables of expressions, compilation and evaluation.

An expression sees `object`, `oldObject`, `request` and `namespaceObject`; depending on the field
also `params`, `authorizer` and `variables`. A variable is an expression of its own, evaluated when
the first expression that needs it runs; if it fails, whatever depends on it fails.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.cel.environment import (
    CompileError,
    Environment,
    EvaluationError,
    Program,
    cost_exceeded_error,
    format_located_error,
)
from kilonova.cel.types import CelType
from kilonova.local.apiserver.schema.cel.authorization import (
    AuthorizeQuery,
    authorizing_with,
)
from kilonova.local.apiserver.schema.cel.environment import SERVER_FUNCTIONS, environment
from kilonova.local.apiserver.schema.cel.schema_types import cel_type_of
from kilonova.local.apiserver.schema.node import Schema, parse_schema

_VARIABLES = "variables"
_VARIABLES_SIZE_LIMIT = 10 << 20
"""The maximum size, in characters and items, of all variables of one write: each could double the
last."""


def _object_schema(**fields: Schema) -> Schema:
    return Schema(type="object", properties=fields)


_TEXT = Schema(type="string")
_TEXTS = Schema(type="array", items=_TEXT)
_TEXT_MAP = Schema(type="object", additional=_TEXT)
_TIME = Schema(type="string", format="date-time")
_NUMBER = Schema(type="integer")
_KIND = _object_schema(group=_TEXT, version=_TEXT, kind=_TEXT)
_RESOURCE = _object_schema(group=_TEXT, version=_TEXT, resource=_TEXT)
_ANY = parse_schema({"x-kubernetes-int-or-string": True})

_REQUEST = _object_schema(
    kind=_KIND,
    resource=_RESOURCE,
    subResource=_TEXT,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=_TEXT,
    name=_TEXT,
    namespace=_TEXT,
    operation=_TEXT,
    userInfo=_object_schema(
        username=_TEXT,
        uid=_TEXT,
        groups=_TEXTS,
        extra=Schema(type="object", additional=_TEXTS),
    ),
    dryRun=Schema(type="boolean"),
    options=_ANY,
)

_CONDITION = _object_schema(
    status=_TEXT, type=_TEXT, lastTransitionTime=_TIME, message=_TEXT, reason=_TEXT
)

_NAMESPACE = _object_schema(
    metadata=_object_schema(
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
    spec=_object_schema(finalizers=_TEXTS),
    status=_object_schema(conditions=Schema(type="array", items=_CONDITION), phase=_TEXT),
)

_NAMES = ("object", "oldObject", "request", "namespaceObject")
_NULLABLE = ("object", "oldObject", "namespaceObject", "params")
_AUTHORIZER = ("authorizer", "authorizer.requestResource")


def _cel_type(schema: Schema) -> CelType:
    type = cel_type_of(schema)
    assert type is not None
    return type


@dataclass(frozen=True, slots=True)
class PolicyVariable:
    """A variable of a policy; `program` is None if it does not compile."""

    name: str
    program: Program | None
    problem: str = ""


class ExpressionCompiler:
    """Compiles expressions with the variables available at one place."""

    def __init__(
        self, *, params: bool = False, authorizer: bool = True, variables: Iterable[str] = ()
    ) -> None:
        names = [*_NAMES]
        if params:
            names.append("params")
        if authorizer:
            names += _AUTHORIZER
        self._types: dict[str, CelType] = {
            "request": _cel_type(_REQUEST),
            "namespaceObject": _cel_type(_NAMESPACE),
        }
        dotted = [f"{_VARIABLES}.{name}" for name in variables if name.isidentifier()]
        names.append(_VARIABLES)
        nullable = tuple(name for name in names if name in _NULLABLE)
        self._declares_variables = bool(dotted)
        if dotted:
            self._types[_VARIABLES] = _cel_type(_object_schema())
            self.environment = Environment((*names, *dotted), SERVER_FUNCTIONS, nullable=nullable)
        else:
            self.environment = environment(tuple(names), nullable=nullable)
        self.variables: dict[str, PolicyVariable] = {}

    def define_variable(self, name: str, source: str) -> PolicyVariable:
        """Compile a variable for later expressions. Never raises."""
        dotted = f"{_VARIABLES}.{name}"
        try:
            program = self._compile(source)
            if program.type.is_optional:
                raise CompileError("a variable may not be an optional")
        except CompileError as error:
            variable = PolicyVariable(name, None, str(error))
        else:
            self._types[dotted] = program.type
            variable = PolicyVariable(name, program)
        self.variables[dotted] = variable
        return variable

    def compile(self, source: str, *result_types: str) -> Program:
        """Compile an expression of one of these types. Raises `CompileError`."""
        try:
            program = self._compile(source)
        except CompileError as error:
            raise CompileError(f"compilation failed: {error}") from None
        found = {"null": "null_type"}.get(program.type.name, program.type.name)
        if found not in result_types:
            expected = (
                result_types[0] if len(result_types) == 1 else f"one of [{' '.join(result_types)}]"
            )
            raise CompileError(f"must evaluate to {expected} but got {found}")
        return program

    def _compile(self, source: str) -> Program:
        program = self.environment.compile(source, self._types)
        if _VARIABLES in program.names and not self._declares_variables:
            position = _find_position(source, rf"\b{_VARIABLES}\b")
            message = f"undeclared reference to '{_VARIABLES}' (in container '')"
            raise CompileError(format_located_error(source, position, message))
        for name in sorted(program.names - self.variables.keys()):
            if name.startswith(f"{_VARIABLES}."):
                # A variable that is defined later: the environment already has all of them.
                field = name.removeprefix(f"{_VARIABLES}.")
                position = _find_position(source, rf"(?<=\b{_VARIABLES})\.{field}\b")
                raise CompileError(
                    format_located_error(source, position, f"undefined field '{field}'")
                )
        return program


def _find_position(source: str, pattern: str) -> int:
    found = re.search(pattern, source)
    return found.start() if found else 0


class ExpressionBindings:
    """The values of the variables in one write. Not to be used after it."""

    def __init__(
        self, compiler: ExpressionCompiler, values: Mapping[str, Any], authorize: AuthorizeQuery
    ) -> None:
        self._compiler = compiler
        self._values = dict(values)
        self._authorize = authorize
        self._failed_variables: dict[str, str] = {}
        self._remaining_size = _VARIABLES_SIZE_LIMIT
        self._activation: Any = None

    def evaluate(self, program: Program) -> Any:
        """The value of an expression. Raises `EvaluationError`."""
        with authorizing_with(self._authorize):
            return self._evaluate(program)

    def _evaluate(self, program: Program) -> Any:
        for name in sorted(program.names):
            if name in self._compiler.variables and name not in self._values:
                self._evaluate_variable(name)
        if self._activation is None:
            self._activation = self._compiler.environment.bind(self._values)
        try:
            return program.run(self._activation)
        except EvaluationError as error:
            raise self._explain(error) from None

    def _evaluate_variable(self, name: str) -> None:
        if name in self._failed_variables:
            return
        variable = self._compiler.variables[name]
        if variable.program is None:
            message = f'composited variable "{variable.name}" fails to compile: {variable.problem}'
            self._failed_variables[name] = message
            return
        try:
            value = _to_cel_value(self._evaluate(variable.program))
            self._remaining_size -= _value_size(value)
            if self._remaining_size < 0:
                raise cost_exceeded_error()
        except EvaluationError as error:
            message = f'composited variable "{variable.name}" fails to evaluate: {error}'
            self._failed_variables[name] = message
        else:
            self._values[name] = value
            self._activation = None

    def _explain(self, error: EvaluationError) -> EvaluationError:
        """Report why a variable failed: to the runtime it is only missing."""
        for name, message in self._failed_variables.items():
            if f'"{name}"' in str(error):
                return EvaluationError(message, error.exhausted)
        return error


def to_json(value: Any) -> Any:
    """The result of an expression as plain JSON: items are wrapped."""
    unwrap = getattr(value, "plain_value", None)
    if unwrap is not None:
        return to_json(unwrap())
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [to_json(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value


def _value_size(value: Any) -> int:
    """The approximate size of a plain value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(key)) + _value_size(item) for key, item in value.items())  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return sum(map(_value_size, value))  # pyright: ignore[reportUnknownArgumentType]
    return 1


def _to_cel_value(value: Any) -> Any:
    """A value that can be passed to expressions again: times become strings."""
    value = to_json(value)
    if isinstance(value, datetime):
        return format_rfc3339(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds()}s"
    return value


def visible_namespace(namespace: JsonObject) -> JsonObject:
    """The fields of a namespace that expressions see."""
    hidden = ("managedFields", "ownerReferences", "selfLink")
    metadata = {key: value for key, value in namespace["metadata"].items() if key not in hidden}
    return {**namespace, "metadata": metadata}
