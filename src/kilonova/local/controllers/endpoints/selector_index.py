"""An index of pods by selectors, updated at the cost of one pod per change.

A selector is indexed by one of its labels, the one with the fewest other selectors, so that a pod
is compared with few selectors that do not match it.
"""

from collections.abc import Iterable, Mapping

from kilonova.kube.informers.object_keys import Key

_LabelKey = tuple[str, str, str]
"""Namespace, label, value."""


class SelectorIndex:
    """Selectors by the key of their owner, and the pods that each one selects."""

    def __init__(self) -> None:
        self._selectors: dict[Key, Mapping[str, str]] = {}
        self._selected_pods: dict[Key, dict[Key, None]] = {}
        self._owners_by_label: dict[_LabelKey, set[Key]] = {}
        self._label_of_owner: dict[Key, _LabelKey] = {}

    def selected_pods(self, owner: Key) -> Iterable[Key]:
        """The pods that an owner selects, in order of arrival."""
        return self._selected_pods.get(owner, ())

    def set_selector(
        self,
        owner: Key,
        selector: Mapping[str, str] | None,
        pods: Iterable[tuple[Key, Mapping[str, str]]],
    ) -> None:
        """Set the selector of an owner; None or empty selects nothing."""
        if selector == self._selectors.get(owner):
            return
        self._remove_owner(owner)
        if not selector:
            return
        self._selectors[owner] = selector
        pair = self._label_of_owner[owner] = self._select_rarest_label(owner, selector)
        self._owners_by_label.setdefault(pair, set()).add(owner)
        self._selected_pods[owner] = {
            key: None for key, labels in pods if key[0] == owner[0] and _matches(selector, labels)
        }

    def put_pod(self, pod: Key, labels: Mapping[str, str]) -> list[Key]:
        """Set the labels of a pod; returns the owners that select it."""
        found: list[Key] = []
        for label, value in labels.items():
            for owner in self._owners_by_label.get((pod[0], label, value), ()):
                if _matches(self._selectors[owner], labels):
                    found.append(owner)
        for owner in found:
            self._selected_pods[owner][pod] = None
        return found

    def remove_pod(self, pod: Key, labels: Mapping[str, str]) -> list[Key]:
        """Remove a pod with these labels; returns the owners that selected it."""
        found: list[Key] = []
        for label, value in labels.items():
            for owner in self._owners_by_label.get((pod[0], label, value), ()):
                if pod in self._selected_pods[owner]:
                    del self._selected_pods[owner][pod]
                    found.append(owner)
        return found

    def _remove_owner(self, owner: Key) -> None:
        selector = self._selectors.pop(owner, None)
        if selector is None:
            return
        del self._selected_pods[owner]
        pair = self._label_of_owner.pop(owner)
        owners = self._owners_by_label[pair]
        owners.discard(owner)
        if not owners:
            del self._owners_by_label[pair]

    def _select_rarest_label(self, owner: Key, selector: Mapping[str, str]) -> _LabelKey:
        """The label by which the fewest selectors are indexed."""
        pairs = [(owner[0], label, selector[label]) for label in sorted(selector)]
        return min(pairs, key=lambda pair: len(self._owners_by_label.get(pair, ())))


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(label) == value for label, value in selector.items())
