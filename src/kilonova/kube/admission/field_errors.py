"""Field errors, worded as apimachinery's field.Error."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kilonova.kube.admission.review import FieldError


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Why an object is rejected, and warnings that are returned in any case."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()


def invalid_value(path: str, value: object, rule: str) -> FieldError:
    """The value has the right type and violates a rule."""
    return FieldError(path, f"Invalid value: {_quote_value(value)}: {rule}")


def required(path: str, rule: str) -> FieldError:
    """The field must be set and not be empty."""
    return FieldError(path, f"Required value: {rule}")


def duplicate(path: str, value: str, rule: str = "") -> FieldError:
    """The value occurs more than once."""
    return FieldError(
        path, f"Duplicate value: {_quote_value(value)}" + (f": {rule}" if rule else "")
    )


def not_found(path: str, value: str, rule: str) -> FieldError:
    """The value refers to an object that does not exist."""
    return FieldError(path, f"Not found: {_quote_value(value)}: {rule}")


def unsupported(path: str, value: object, allowed: Sequence[str]) -> FieldError:
    """The value is not one of the supported values."""
    words = ", ".join(map(_quote_value, allowed))
    return FieldError(path, f"Unsupported value: {_quote_value(value)}: supported values: {words}")


def forbidden(path: str, rule: str) -> FieldError:
    """The field must not be set or changed."""
    return FieldError(path, f"Forbidden: {rule}")


def _quote_value(value: object) -> str:
    return msgspec.json.encode(value).decode()
