"""Reads Prometheus' text format: of all samples only those that are asked for. Pure.

What cannot be read is left out: a line that is not a sample, a value that cannot be.
"""

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_MAX_VALUE = 1e18
"""No gauge, counter or sum that is read here is greater, nor negative. The sum of many such values
is finite, too."""

_label = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """A value, with its labels."""

    name: str
    labels: dict[str, str]
    value: float


def parse_samples(text: str, names: Collection[str]) -> Iterator[Sample]:
    """The samples of these names, in the order of the text."""
    # Servers of LLMs have a thousand lines: most are passed by with one comparison.
    prefixes = tuple(names)
    wanted = frozenset(names)
    for line in text.splitlines():
        if not line.startswith(prefixes):
            continue
        name, labels, rest = _split_line(line)
        if name not in wanted:
            continue
        value = parse_value(rest)
        if value is not None:
            yield Sample(name, labels, value)


def parse_value(text: str) -> float | None:
    """The number at the beginning of a text (a timestamp may follow); None for what is no number of
    requests, tokens or seconds."""
    words = text.split(None, 1)
    try:
        value = float(words[0]) if words else math.nan
    except ValueError:
        return None
    return value if 0 <= value <= _MAX_VALUE else None


def _split_line(line: str) -> tuple[str, dict[str, str], str]:
    brace = line.find("{")
    if brace < 0:
        name, _, rest = line.partition(" ")
        return name, {}, rest
    # A label may contain a brace, a number cannot.
    end = line.rfind("}")
    return line[:brace], dict(_label.findall(line[brace:end])), line[end + 1 :]
