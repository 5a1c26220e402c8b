"""The order of names with numbers: `rack-2` before `rack-10`."""

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d{1,18})")


@lru_cache(maxsize=65_536)
def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key: runs of digits compare as numbers."""
    parts = _DIGITS.split(name)
    return tuple((int(part), part) if odd % 2 else (-1, part) for odd, part in enumerate(parts))
