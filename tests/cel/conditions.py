"""Evaluation of one CEL expression, for tests."""

from functools import cache
from typing import Any

from kilonova.cel.environment import Environment


def evaluate(source: str, **variables: Any) -> Any:
    """The value of an expression."""
    environment = _environment(tuple(variables))
    return environment.compile(source, {}).run(environment.bind(variables))


@cache
def _environment(variables: tuple[str, ...]) -> Environment:
    return Environment(variables)
