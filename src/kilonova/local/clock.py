"""Time and identity, passed in wherever they are needed, so that a test can drive them."""

import os
import time
from datetime import UTC, datetime
from random import Random
from typing import Protocol


class Clock(Protocol):
    """Tells the time of day, and time that only goes forward."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """This machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class Identities:
    """Makes uids and the random ends of generated names."""

    _LETTERS = "bcdfghjklmnpqrstvwxz2456789"

    def __init__(self, random: Random | None = None) -> None:
        self.random = random or _RANDOM
        """Whatever else is left to chance."""
        self._is_given = random is not None

    def uid(self) -> str:
        """A random UUID, put together here: the standard library's takes three times as long."""
        digits = f"{self.random.getrandbits(128):032x}" if self._is_given else os.urandom(16).hex()
        variant = "89ab"[int(digits[16], 16) & 3]
        return (
            f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
        )

    def suffix(self) -> str:
        """Five letters, as Kubernetes ends a generateName."""
        return "".join(self.random.choices(self._LETTERS, k=5))

    def token(self) -> str:
        """The end of an Event's name."""
        return f"{self.random.getrandbits(64):016x}"


_RANDOM = Random()  # noqa: S311 (names, not secrets)
