"""Label requirements, of a node or of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement on one label; `Gt` and `Lt` compare integers."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels of an object match."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                bound = _parse_int(self.values[0]) if len(self.values) == 1 else None
                number = None if value is None else _parse_int(value)
                if bound is None or number is None:
                    return False
                return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements on the labels and the name of a node: all must match. An empty term matches
    none."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()


def _parse_int(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
