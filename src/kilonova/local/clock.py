"""Clock and id generator, passed in wherever they are needed, so that tests control them."""

import os
import time
from datetime import UTC, datetime
from random import Random
from typing import Protocol


class Clock(Protocol):
    """The wall clock and a monotonic clock."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class IdGenerator:
    """Generates uids and the random suffixes of generated names."""

    _LETTERS = "bcdfghjklmnpqrstvwxz2456789"

    def __init__(self, random: Random | None = None) -> None:
        self.random = random or _RANDOM
        """The source of all other randomness."""
        self._is_seeded = random is not None

    def uid(self) -> str:
        """A random UUID, formatted here: the standard library takes three times as long."""
        digits = f"{self.random.getrandbits(128):032x}" if self._is_seeded else os.urandom(16).hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def name_suffix(self) -> str:
        """Five characters, as in Kubernetes' generateName."""
        return "".join(self.random.choices(self._LETTERS, k=5))

    def event_name_suffix(self) -> str:
        """The suffix of an Event's name."""
        return f"{self.random.getrandbits(64):016x}"


_RANDOM = Random()  # noqa: S311 (names, not secrets)
