"""Series: numbers over time, computed from the objects of a table, or read."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from kilonova.kube import Client

T = TypeVar("T")


class Measurement(NamedTuple):
    """What one object counts for in a series."""

    series: str
    value: float
    key: str = ""
    """The object that the series is about, by the id of its row; empty for the whole cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series(Generic[T]):
    """Numbers over time, from the objects of one table.

    `measure` returns what an object counts for, in any of the series: `Measurement("gpus", 8)` for
    the cluster, `Measurement("gpus", 8, "research")` for the queue `research`. It is called for the
    objects that changed since the last sample, so that a cluster at rest costs nothing. An object
    for which it raises does not count.
    """

    names: tuple[str, ...]
    table: str
    measure: Callable[[T], Iterable[Measurement]]
    reduce: Literal["sum", "mean"] = "sum"
    """How the values of one key become one. A sum is 0 where there are none, a mean unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """Numbers over time that a component reads itself, such as the requests of a gateway.

    `read` is called every `seconds`, whether or not a page is open: keep it cheap. A key that it
    does not return is unknown; so are all if it fails or takes longer than ten seconds.
    """

    names: tuple[str, ...]
    read: Callable[[Client], Awaitable[Iterable[Measurement]]]
    """With the permissions of the console."""
    seconds: int = 60
    """10 or a multiple of it, up to 60."""

    def __post_init__(self) -> None:
        if self.seconds not in range(10, 61, 10):
            names = ", ".join(self.names)
            raise ValueError(
                f"series {names}: seconds is {self.seconds}: want 10, 20, 30, 40, 50 or 60"
            )
