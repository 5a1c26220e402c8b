"""Rules of fields that several kinds have."""

import re
from collections.abc import Iterator

from kilonova.api.durations import parse_duration
from kilonova.api.grove.common import IntOrPercent
from kilonova.kube.admission.field_errors import invalid_value
from kilonova.kube.admission.review import FieldError

_is_percent = re.compile("[0-9]{1,9}%").fullmatch


def validate_amount(
    path: str, amount: IntOrPercent | None, max_percent: int | None = None
) -> Iterator[FieldError]:
    """A number or a percentage."""
    if isinstance(amount, int):
        if amount < 0:
            yield invalid_value(path, amount, "must be greater than or equal to 0")
    elif amount is not None:
        if not _is_percent(amount):
            yield invalid_value(path, amount, "must be a number or a percentage, such as 2 or 25%")
        elif max_percent is not None and int(amount[:-1]) > max_percent:
            yield invalid_value(path, amount, f"must not be greater than {max_percent}%")


def is_zero_amount(amount: IntOrPercent | None, default: int) -> bool:
    """Whether a number or a percentage is 0; `default` is the number if it is not set."""
    if isinstance(amount, str):
        return bool(_is_percent(amount)) and int(amount[:-1]) == 0
    return (default if amount is None else amount) == 0


def validate_duration(path: str, text: str) -> Iterator[FieldError]:
    """A duration of more than 0."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        yield invalid_value(path, text, "must be a duration, such as 90s, 1h30m or 4h")
    else:
        if seconds <= 0:
            yield invalid_value(path, text, "must be greater than 0")
