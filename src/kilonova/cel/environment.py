"""Compilation and evaluation of CEL expressions.

An expression is compiled twice: with the real types of Kubernetes' functions, to check it, and with
types that the runtime supports, to evaluate it.

Evaluation is bounded: the runtime stops after 10,000 iterations of all loops together, expressions
have at most 100,000 characters and 32 levels, and regular expressions are RE2's. All other cost is
metered: `cost_plan` decides where, `functions.metering` how much. Compiled expressions may be
shared between threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kilonova.cel.cost_plan import plan_costs
from kilonova.cel.functions import FUNCTIONS
from kilonova.cel.functions.metering import COST_EXCEEDED, METERING_FUNCTIONS, metering
from kilonova.cel.rewrite import ExpressionRewriter
from kilonova.cel.runtime import (
    Functions,
    checking_environment,
    running_environment,
    strip_status,
)
from kilonova.cel.syntax import CheckedExpression, decode_expression
from kilonova.cel.type_inference import TypeInference
from kilonova.cel.types import CelType

if TYPE_CHECKING:
    from cel_expr_python import cel

_UNSUPPORTED = frozenset({"cel.@mapInsert"})
"""Functions that the compiler knows and the runtime lacks: transformMap needs them."""

OLD_SELF = "oldSelf"
_WRAPPED_OLD_SELF = "oldSelf_"


class CompileError(ValueError):
    """An invalid expression; the message contains the position, in the compiler's format."""


class EvaluationError(ValueError):
    """An evaluation that failed. `exhausted`: it exceeded the cost limit."""

    def __init__(self, message: str, exhausted: bool = False) -> None:
        super().__init__(message)
        self.exhausted = exhausted


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression."""

    type: CelType
    names: frozenset[str]  # the variables it uses
    _expression: Any

    def run(self, activation: Any) -> Any:
        """Evaluate with variables bound by `Environment.bind`."""
        with metering() as meter:
            try:
                result = self._expression.eval(activation)
                value = result.value()
            except (RuntimeError, TypeError) as error:
                raise (
                    cost_exceeded_error() if meter.exhausted else _translate_failure(str(error))
                ) from None
            except MemoryError:
                raise cost_exceeded_error() from None
        if meter.exhausted:
            raise cost_exceeded_error()
        if value is True or value is False:
            return value
        if result.type().name() == "ERROR":
            raise _translate_failure(str(value))
        return value


class Environment:
    """Functions and a set of variables. `nullable` variables may be null; `bindings` adds
    `cel.bind`; with `optional_old_self`, `oldSelf` is an optional.
    """

    def __init__(
        self,
        variables: tuple[str, ...],
        functions: Functions = FUNCTIONS,
        *,
        optional_old_self: bool = False,
        nullable: tuple[str, ...] = (),
        bindings: bool = False,
    ) -> None:
        self._optional_old_self = optional_old_self
        self._nullable = {name: f"{name}_" for name in nullable}
        """Variables that may be null, and the ones read instead for field access."""
        functions = (*functions, *METERING_FUNCTIONS)
        self._python_functions = frozenset(each.name for each in functions)
        types = dict.fromkeys(variables, "dyn")
        if optional_old_self:
            types[OLD_SELF] = "optional_type(dyn)"
        self._checking = checking_environment(types, functions, bindings=bindings)
        names = (*variables, _WRAPPED_OLD_SELF, *self._nullable.values())
        self._running = running_environment(names, functions, bindings=bindings)

    def compile(self, source: str, types: Mapping[str, CelType]) -> Program:
        """Check and compile; `types` are the known types of variables."""
        tree, inference, type = self._check(source, types)
        expression = self._compile_checked(source)
        lookups = inference.free_names.get(OLD_SELF, []) if self._optional_old_self else []
        names = {
            id: self._nullable[name]
            for id, name in inference.accessed.items()
            if name in self._nullable
        }
        cost_plan = plan_costs(tree.root, inference.types)
        if cost_plan.hidden:
            message = "an optional inside another value is not supported"
            offsets = (tree.positions.get(id, 0) for id in cost_plan.hidden)
            raise CompileError(
                "\n".join(format_located_error(source, each, message) for each in offsets)
            )
        rewrite = ExpressionRewriter(
            inference.time_nodes, lookups, _WRAPPED_OLD_SELF, names, cost_plan
        )
        try:
            expression = self._running.deserialize(rewrite.rewrite(expression.serialize()))
        except RuntimeError:
            message = "the expression is nested too deeply: split it into smaller ones"
            raise CompileError(message) from None
        return Program(type, frozenset(inference.free_names), expression)

    def compile_unmetered(self, source: str) -> cel.Expression:
        """Check and compile an expression on variables of any type, to be evaluated with variables
        bound by `bind` as it is: without metering, and with the runtime's errors.
        """
        self._check(source, {})
        return self._compile_checked(source)

    def _check(
        self, source: str, types: Mapping[str, CelType]
    ) -> tuple[CheckedExpression, TypeInference, CelType]:
        try:
            tree = decode_expression(self._checking.compile(source).serialize())
        except RuntimeError as error:
            raise CompileError(strip_status(str(error))) from None
        inference = TypeInference(tree, self._python_functions, _UNSUPPORTED)
        type = inference.infer_type(dict(types))
        if inference.problems:
            raise CompileError(
                "\n".join(format_located_error(source, *each) for each in inference.problems)
            )
        return tree, inference, type

    def _compile_checked(self, source: str) -> cel.Expression:
        try:
            return self._running.compile(source)
        except RuntimeError as error:
            raise CompileError(strip_status(str(error))) from None

    def bind(self, values: Mapping[str, Any]) -> cel.Activation:
        """Bind values to the variables. Converted values are shared by all programs run on the
        result.
        """
        if self._nullable:
            nullable_values: dict[str, Any] = {
                other: {} if values[name] is None else values[name]
                for name, other in self._nullable.items()
                if name in values
            }
            values = {**values, **nullable_values}
        return self._running.Activation(values)

    def bind_self(self, new: Any, old: Any, has_old: bool) -> cel.Activation:
        """Bind `self` and `oldSelf`, the latter as an optional if `optionalOldSelf` is set."""
        if not self._optional_old_self:
            return self.bind({"self": new, OLD_SELF: old} if has_old else {"self": new})
        return self.bind({"self": new, _WRAPPED_OLD_SELF: {"value": old} if has_old else {}})


def format_located_error(source: str, offset: int, message: str) -> str:
    """A message with the line and position of the error, in the compiler's format."""
    before = source[:offset]
    line = before.count("\n") + 1
    column = offset - (before.rfind("\n") + 1)
    text = source.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {text}\n | {'.' * column}^"


def cost_exceeded_error() -> EvaluationError:
    """The error of an expression that exceeded the limit of time or memory."""
    return EvaluationError(COST_EXCEEDED, exhausted=True)


_FAILURE_PATTERNS = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero"), "modulus by zero"),
    (re.compile(r"No matching overloads found.*", re.DOTALL), "no such overload"),
)
"""The runtime's error messages, and Kubernetes' ones."""


def _translate_failure(text: str) -> EvaluationError:
    text = strip_status(text)
    if "Iteration budget exceeded" in text:
        return cost_exceeded_error()
    for pattern, message in _FAILURE_PATTERNS:
        if pattern.match(text):
            return EvaluationError(pattern.sub(message, text))
    return EvaluationError(text)
