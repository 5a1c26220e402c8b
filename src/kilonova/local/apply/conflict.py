"""Conflicts: an apply would change what others own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.local.apply.elements import shown
from kilonova.local.apply.entries import APPLY, Entry
from kilonova.local.apply.fields import Path
from kilonova.local.errors import ApiError


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that another manager owns with another value."""

    owner: Entry
    path: Path

    @property
    def field(self) -> str:
        """The path as users know it: `.spec.containers[name="x"].image`."""
        return "".join(shown(step) for step in self.path)

    @property
    def owner_shown(self) -> str:
        """The owner as messages show it."""
        owner = self.owner
        text = f'"{owner.manager}"'
        if owner.subresource:
            text += f' with subresource "{owner.subresource}"'
        return text if owner.operation == APPLY else f"{text} using {owner.api_version}"


@dataclass(eq=False)
class ApplyConflict(ApiError):
    """An apply that is refused unless it is forced. `status()` is what the client sees."""

    conflicts: tuple[Conflict, ...] = ()


def apply_conflict(conflicts: Iterable[Conflict]) -> ApplyConflict:
    """The refusal for these conflicts."""
    ordered = tuple(sorted(conflicts, key=lambda conflict: conflict.owner.identity))
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.owner_shown}",
            "field": conflict.field,
        }
        for conflict in ordered
    ]
    return ApplyConflict(
        409, "Conflict", _message(ordered), details={"causes": causes}, conflicts=ordered
    )


def _message(conflicts: tuple[Conflict, ...]) -> str:
    if len(conflicts) == 1:
        (only,) = conflicts
        return f"Apply failed with 1 conflict: conflict with {only.owner_shown}: {only.field}"
    lines: list[str] = []
    previous: Entry | None = None
    for conflict in conflicts:
        if conflict.owner is not previous:
            lines.append(f"conflicts with {conflict.owner_shown}:")
            previous = conflict.owner
        lines.append(f"- {conflict.field}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
