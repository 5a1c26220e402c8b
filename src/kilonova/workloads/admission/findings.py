"""What is found wrong with an object, field by field, in the words that Kubernetes uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kilonova.kube.admission import Problem


@dataclass(frozen=True, slots=True)
class Findings:
    """Why an object is refused, and what its author should know even if it is not."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


def invalid_value(path: str, value: object, rule: str) -> Problem:
    """The value is of the right type, and breaks a rule."""
    return Problem(path, f"Invalid value: {_shown(value)}: {rule}")


def required(path: str, rule: str) -> Problem:
    """The field must be there, and not be empty."""
    return Problem(path, f"Required value: {rule}")


def duplicate(path: str, value: str, rule: str = "") -> Problem:
    """The value is somewhere else already."""
    return Problem(path, f"Duplicate value: {_shown(value)}" + (f": {rule}" if rule else ""))


def not_found(path: str, value: str, rule: str) -> Problem:
    """The value names something that is not there."""
    return Problem(path, f"Not found: {_shown(value)}: {rule}")


def unsupported(path: str, value: object, allowed: Sequence[str]) -> Problem:
    """The value is none of those that there are."""
    words = ", ".join(map(_shown, allowed))
    return Problem(path, f"Unsupported value: {_shown(value)}: supported values: {words}")


def forbidden(path: str, rule: str) -> Problem:
    """The field may not be set, or not be changed."""
    return Problem(path, f"Forbidden: {rule}")


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
