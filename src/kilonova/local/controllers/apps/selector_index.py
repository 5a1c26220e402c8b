"""Finds the workloads that may select an object without a controller, without scanning all."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

from kilonova.api.meta import Metadata
from kilonova.kube import Key, Store
from kilonova.local.controllers.apps.objects import WorkloadObject

S = TypeVar("S", bound=WorkloadObject)

BY_SELECTOR = "selector"
"""Workloads by a label that their selector requires; those without one by namespace."""


def index_by_selector(workload: WorkloadObject) -> Iterable[Hashable]:
    """The values of a workload in the index `BY_SELECTOR`."""
    return ((workload.metadata.namespace, first_match_label(workload)),)


def first_match_label(workload: WorkloadObject) -> tuple[str, str] | None:
    """A label that every selected object has, if the selector requires one."""
    labels: dict[str, str] = workload.label_selector_json.get("matchLabels") or {}
    return min(labels.items(), default=None)


def find_selecting_keys(store: Store[S], metadata: Metadata) -> list[Key]:
    """The keys of the workloads whose selectors match an object. The cost depends on its labels."""
    labels = metadata.labels
    if not labels:
        return []
    candidates = store.by_index(BY_SELECTOR, (metadata.namespace, None))
    for label in labels.items():
        candidates += store.by_index(BY_SELECTOR, (metadata.namespace, label))
    found: list[Key] = []
    for each in candidates:
        selector = each.selector
        if selector and selector.matches(labels):
            found.append(store.key_of(each))
    return found
