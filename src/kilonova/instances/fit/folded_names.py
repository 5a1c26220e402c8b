"""Many names as one text: `h100-[4-7]`, as host lists of Slurm are written. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

_NUMBERED = re.compile(r"(.*?)(0|[1-9]\d{0,17})")
_MAX_LENGTH = 24


def fold_names(names: Sequence[str]) -> str:
    """Names in natural order; where the list would be long, `h100-0 +12`: the first, and how many
    more there are."""
    if len(names) == 1:
        return names[0]
    folded = _fold_numbers(names)
    if folded is None or len(folded) > max(_MAX_LENGTH, len(names[0]) + 4):
        return f"{names[0]} +{len(names) - 1}"
    return folded


def _fold_numbers(names: Sequence[str]) -> str | None:
    """The list of names that differ in a number at their end; None for others."""
    matches = [_NUMBERED.fullmatch(name) for name in names]
    prefixes = {match[1] for match in matches if match is not None}
    if len(prefixes) != 1 or None in matches:
        return None
    numbers = [int(match[2]) for match in matches if match is not None]
    return f"{prefixes.pop()}[{','.join(_list_runs(numbers))}]"


def _list_runs(numbers: Iterable[int]) -> Iterator[str]:
    ordered = enumerate(sorted(numbers))
    for _, run in groupby(ordered, key=lambda each: each[1] - each[0]):
        first, *others = (number for _, number in run)
        yield f"{first}-{others[-1]}" if others else str(first)
