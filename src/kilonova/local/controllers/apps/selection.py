"""Which sets may select an object that nobody controls, without asking all of them."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from kilonova.api.meta import Metadata
from kilonova.kube import Key, Store
from kilonova.local.controllers.apps.objects import PodSet

S = TypeVar("S", bound=PodSet)

BY_SELECTOR = "selector"
"""Sets under a label that their selector asks for; those that ask for none, by namespace."""


def selector_values(found: PodSet) -> Iterable[Hashable]:
    """The value of a set in the index `BY_SELECTOR`."""
    return ((found.metadata.namespace, asked_label(found)),)


def asked_label(found: PodSet) -> tuple[str, str] | None:
    """A label that everything has that the set selects, if its selector names one."""
    labels: dict[str, str] = found.selection.get("matchLabels") or {}
    return min(labels.items(), default=None)


def keys_of_selecting(store: Store[S], about: Metadata) -> list[Key]:
    """The keys of the sets whose selectors find an object. Costs what its labels cost."""
    labels = about.labels
    if not labels:
        return []
    candidates = store.find(BY_SELECTOR, (about.namespace, None))
    for label in labels.items():
        candidates += store.find(BY_SELECTOR, (about.namespace, label))
    found: list[Key] = []
    for each in candidates:
        selector = each.selector
        if selector and selector.matches(labels):
            found.append(store.key_of(each))
    return found
