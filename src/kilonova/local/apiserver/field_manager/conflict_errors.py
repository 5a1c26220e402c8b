"""The error of an apply whose fields other managers own; `apply` decides it.

Its words are those of Kubernetes' structured-merge-diff (`merge.Conflicts`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.field_manager.field_sets import FieldPath
from kilonova.local.apiserver.field_manager.managed_fields import APPLY, ManagedFieldsEntry
from kilonova.local.apiserver.field_manager.path_elements import format_element


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that another manager owns with another value."""

    owner: ManagedFieldsEntry
    path: FieldPath

    @property
    def field_path(self) -> str:
        """The path as in messages: `.spec.containers[name="x"].image`."""
        return "".join(format_element(element) for element in self.path)

    @property
    def owner_description(self) -> str:
        """The owner as in messages."""
        owner = self.owner
        text = f'"{owner.manager}"'
        if owner.subresource:
            text += f' with subresource "{owner.subresource}"'
        return text if owner.operation == APPLY else f"{text} using {owner.api_version}"


@dataclass(eq=False)
class ApplyConflict(ApiError):
    """An apply that fails unless it is forced. `status()` is sent to the client."""

    conflicts: tuple[FieldConflict, ...] = ()


def conflict_error(conflicts: Iterable[FieldConflict]) -> ApplyConflict:
    """The error for these conflicts."""
    ordered = tuple(sorted(conflicts, key=lambda conflict: conflict.owner.identity))
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.owner_description}",
            "field": conflict.field_path,
        }
        for conflict in ordered
    ]
    return ApplyConflict(
        409, "Conflict", _conflict_message(ordered), details={"causes": causes}, conflicts=ordered
    )


def _conflict_message(conflicts: tuple[FieldConflict, ...]) -> str:
    if len(conflicts) == 1:
        (only,) = conflicts
        return (
            f"Apply failed with 1 conflict: conflict with {only.owner_description}: "
            f"{only.field_path}"
        )
    lines: list[str] = []
    previous: ManagedFieldsEntry | None = None
    for conflict in conflicts:
        if conflict.owner is not previous:
            lines.append(f"conflicts with {conflict.owner_description}:")
            previous = conflict.owner
        lines.append(f"- {conflict.field_path}")
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
