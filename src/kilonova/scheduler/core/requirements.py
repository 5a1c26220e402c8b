"""Conditions on labels, of a node or of a pod."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on one label; `Gt` and `Lt` compare integers."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels of one object meet it."""
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
                bound = _integer(self.values[0]) if len(self.values) == 1 else None
                number = None if value is None else _integer(value)
                if bound is None or number is None:
                    return False
                return number > bound if self.operator == "Gt" else number < bound


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Conditions on labels of a node and on its name: all must hold. Without any, none holds."""

    labels: tuple[Requirement, ...] = ()
    names: tuple[Requirement, ...] = ()


def _integer(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
