"""The remaining content of a terminating namespace, and its conditions. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from kilonova.kube import Resource
from kilonova.local.controllers.garbagecollector.graph import OwnedObject


class NamespaceCondition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of a Namespace."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class RemainingContent:
    """Counts the objects that still exist, and their finalizers."""

    def __init__(self) -> None:
        self._objects: Counter[str] = Counter()
        self._finalizers: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._objects)

    def add(self, resource: Resource[OwnedObject], objects: Iterable[OwnedObject]) -> None:
        """Count objects that still exist."""
        for obj in objects:
            self._objects[f"{resource.plural}.{resource.group}"] += 1
            self._finalizers.update(obj.metadata.finalizers)

    def build_conditions(
        self, before: Sequence[NamespaceCondition], now: str
    ) -> tuple[NamespaceCondition, ...]:
        """The conditions of the namespace; a transition time changes only with the status."""
        times = {(each.type, each.status): each.last_transition_time for each in before}
        return tuple(
            msgspec.structs.replace(
                each, last_transition_time=times.get((each.type, each.status)) or now
            )
            for each in self._current_conditions()
        )

    def _current_conditions(self) -> list[NamespaceCondition]:
        kinds = _join_sorted(
            f"{name} has {count} resource instances" for name, count in self._objects.items()
        )
        finalizers = _join_sorted(
            f"{name} in {count} resource instances" for name, count in self._finalizers.items()
        )
        holds = f"Some content in the namespace has finalizers remaining: {finalizers}"
        return [
            NamespaceCondition(
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            NamespaceCondition(
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            NamespaceCondition(
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            NamespaceCondition(
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                f"Some resources are remaining: {kinds}",
            ),
            NamespaceCondition(
                "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", holds
            )
            if finalizers
            else NamespaceCondition(
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ]


def _join_sorted(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts))
