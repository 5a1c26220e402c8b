"""A CEL expression that is true or false: the conditions of webhooks and policies."""

from collections.abc import Mapping
from typing import Any

from kilonova.local.schema.cel.environment import (
    CompileError,
    EvaluationError,
    environment,
)


class Expression:
    """A condition on named values (`object`, `request`), compiled once.

    Raises `CompileError` when made from text that is wrong, or that is no condition.
    """

    def __init__(self, source: str, variables: tuple[str, ...]) -> None:
        self.source = source
        self._environment = environment(variables)
        self._program = self._environment.compile(source, {})
        if self._program.type.name not in ("bool", "dyn"):
            raise CompileError("must evaluate to bool")

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it is true. Raises `EvaluationError` where it comes to no result."""
        result = self._program.run(self._environment.bind(values))
        if not isinstance(result, bool):
            raise EvaluationError(f"expected a bool but got {type(result).__name__}")
        return result
