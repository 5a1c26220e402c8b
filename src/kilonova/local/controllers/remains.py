"""What is left in a namespace that is going, as its conditions tell it. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from kilonova.kube import Resource
from kilonova.local.controllers.ownership import AnyObject


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """One condition of a Namespace."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Remains:
    """Counts the objects that are still there, and the finalizers that keep them."""

    def __init__(self) -> None:
        self._objects: Counter[str] = Counter()
        self._finalizers: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._objects)

    def add(self, resource: Resource[AnyObject], objects: Iterable[AnyObject]) -> None:
        """These are still there."""
        for obj in objects:
            self._objects[f"{resource.plural}.{resource.group}"] += 1
            self._finalizers.update(obj.metadata.finalizers)

    def conditions(self, before: Sequence[Condition], now: str) -> tuple[Condition, ...]:
        """The conditions of the namespace; a time changes only with its condition's status."""
        times = {(each.type, each.status): each.last_transition_time for each in before}
        return tuple(
            msgspec.structs.replace(
                each, last_transition_time=times.get((each.type, each.status)) or now
            )
            for each in self._current()
        )

    def _current(self) -> list[Condition]:
        kinds = _listed(
            f"{name} has {count} resource instances" for name, count in self._objects.items()
        )
        kept = _listed(
            f"{name} in {count} resource instances" for name, count in self._finalizers.items()
        )
        holds = f"Some content in the namespace has finalizers remaining: {kept}"
        return [
            Condition(
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            Condition(
                "NamespaceDeletionGroupVersionParsingFailure",
                "False",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            Condition(
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            Condition(
                "NamespaceContentRemaining",
                "True",
                "SomeResourcesRemain",
                f"Some resources are remaining: {kinds}",
            ),
            Condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", holds)
            if kept
            else Condition(
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            ),
        ]


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(sorted(texts))
