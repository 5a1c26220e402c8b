"""Compilation of a schema's fields on first use.

A pod template has about a thousand fields, of which an object has a few dozen.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

Source = TypeVar("Source")
Compiled = TypeVar("Compiled")


class LazyCompiledFields(dict[str, Compiled | None], Generic[Source, Compiled]):
    """Field names to what their schemas compile to; None for undeclared fields."""

    def __init__(
        self, sources: Mapping[str, Source], compile: Callable[[Source], Compiled | None]
    ) -> None:
        super().__init__()
        self._sources = sources
        self._compile = compile

    def __missing__(self, name: str) -> Compiled | None:
        if name not in self._sources:
            return None  # not cached: clients may send any number of names
        compiled = self[name] = self._compile(self._sources[name])
        return compiled
