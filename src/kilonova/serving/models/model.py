"""The values of placement: models, how much they are used, and which server has which."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Servers: TypeAlias = Mapping[str, frozenset[str]]
"""The models of each server, by its name."""


@dataclass(frozen=True, slots=True)
class PlacedModel:
    """A model, and how much it is used."""

    name: str
    memory: int = 0
    """Bytes of a copy; 0 if that is not known, and then it fits everywhere."""
    min_copies: int = 1
    """0 for a model on demand."""
    max_copies: int | None = None
    load: float = 0.0
    """Mean requests in flight, on all copies together."""
    idle_seconds: float = math.inf
    """Since it was last asked for."""
    is_requested: bool = False
    """Whether requests wait for it."""

    def limit_copies(self, servers: int) -> int:
        """The copies that it has at most on this number of servers."""
        return servers if self.max_copies is None else min(self.max_copies, servers)


@dataclass(frozen=True, slots=True)
class Placement:
    """The models that servers are to have."""

    servers: dict[str, frozenset[str]]
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Why a model has fewer copies than it needs."""
