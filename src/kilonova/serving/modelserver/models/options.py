"""`NAME,option=value…`, as `--model` and `--llm` have it. Pure."""

import math
from collections.abc import Callable
from typing import TypeVar

from kilonova.api.durations import parse_duration
from kilonova.component.failure import WrongUsage

T = TypeVar("T", int, float)

MAX_COUNT = 1 << 20
"""Of what has no limit of its own: a greater number is a mistake."""


class Options:
    """The name and the options of a model; each is read once, with a default."""

    def __init__(self, flag: str, text: str) -> None:
        self.name, *pairs = text.split(",")
        self.text = text
        self._flag = flag
        self._values: dict[str, str] = {}
        for pair in pairs:
            option, equals, value = pair.partition("=")
            if not equals or not value or option in self._values:
                raise self.invalid(f"{pair!r}: write option=value, each once")
            self._values[option] = value
        if not self.name:
            raise self.invalid("there is no name: write NAME[,option=value…]")

    def invalid(self, problem: str) -> WrongUsage:
        """The error of the flag."""
        return WrongUsage(f"{self._flag} {self.text}: {problem}")

    def read_text(self, option: str, default: str, choices: tuple[str, ...] = ()) -> str:
        value = self._values.pop(option, default)
        if choices and value not in choices:
            raise self.invalid(f"{option} is {value!r}: use {' or '.join(choices)}")
        return value

    def read_int(
        self, option: str, default: int, minimum: int = 1, maximum: int = MAX_COUNT
    ) -> int:
        expected = f"a number from {minimum} to {maximum}"
        return self._read(option, default, int, (minimum, maximum), expected)

    def read_seconds(self, option: str, default: float) -> float:
        """A duration such as `20ms`."""
        expected = "a duration such as 20ms"
        return self._read(option, default, parse_duration, (0.0, math.inf), expected)

    def require_all_read(self, known: str) -> None:
        """`WrongUsage` if an option is left, which is unknown."""
        for option in self._values:
            raise self.invalid(f"there is no option {option!r}: use {known}")

    def _read(
        self,
        option: str,
        default: T,
        parse: Callable[[str], T],
        bounds: tuple[T, T],
        expected: str,
    ) -> T:
        text = self._values.pop(option, None)
        if text is None:
            return default
        try:
            value = parse(text)
        except ValueError:
            value = None
        if value is None or not bounds[0] <= value <= bounds[1]:
            raise self.invalid(f"{option} is {text!r}: write {expected}")
        return value
