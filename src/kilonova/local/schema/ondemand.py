"""Parts of a schema that are compiled when a value first has them.

The template of a pod alone has some thousand fields, of which an object has a few dozen.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

Source = TypeVar("Source")
Compiled = TypeVar("Compiled")


class OnDemand(dict[str, Compiled | None], Generic[Source, Compiled]):
    """Names of fields to what their schemas compile to, `None` for fields that have none."""

    def __init__(
        self, sources: Mapping[str, Source], compile: Callable[[Source], Compiled | None]
    ) -> None:
        super().__init__()
        self._sources = sources
        self._compile = compile

    def __missing__(self, name: str) -> Compiled | None:
        if name not in self._sources:
            return None  # not kept: whoever writes objects may think of any number of names
        compiled = self[name] = self._compile(self._sources[name])
        return compiled
