"""Which pods match which selectors, kept up to date at the cost of one pod per change.

A selector is found through one of its labels, the one that fewest others are found through, so
that a pod is compared with few that do not select it, however many others there are.
"""

from collections.abc import Iterable, Mapping

from kilonova.kube.identity import Key

_Pair = tuple[str, str, str]
"""Namespace, label, value."""


class Membership:
    """Selectors by the key of what they belong to, and the pods that each one selects."""

    def __init__(self) -> None:
        self._selectors: dict[Key, Mapping[str, str]] = {}
        self._members: dict[Key, dict[Key, None]] = {}
        self._by_pair: dict[_Pair, set[Key]] = {}
        self._pair_of: dict[Key, _Pair] = {}

    def members(self, owner: Key) -> Iterable[Key]:
        """The pods that an owner selects, in order of arrival."""
        return self._members.get(owner, ())

    def set_selector(
        self,
        owner: Key,
        selector: Mapping[str, str] | None,
        pods: Iterable[tuple[Key, Mapping[str, str]]],
    ) -> None:
        """Select by these labels from now on; None or none selects nothing."""
        if selector == self._selectors.get(owner):
            return
        self._drop(owner)
        if not selector:
            return
        self._selectors[owner] = selector
        pair = self._pair_of[owner] = self._rarest(owner, selector)
        self._by_pair.setdefault(pair, set()).add(owner)
        self._members[owner] = {
            key: None for key, labels in pods if key[0] == owner[0] and _matches(selector, labels)
        }

    def put_pod(self, pod: Key, labels: Mapping[str, str]) -> list[Key]:
        """A pod has these labels now; who selects it."""
        found: list[Key] = []
        for label, value in labels.items():
            for owner in self._by_pair.get((pod[0], label, value), ()):
                if _matches(self._selectors[owner], labels):
                    found.append(owner)
        for owner in found:
            self._members[owner][pod] = None
        return found

    def remove_pod(self, pod: Key, labels: Mapping[str, str]) -> list[Key]:
        """A pod has these labels no more; who selected it."""
        found: list[Key] = []
        for label, value in labels.items():
            for owner in self._by_pair.get((pod[0], label, value), ()):
                if pod in self._members[owner]:
                    del self._members[owner][pod]
                    found.append(owner)
        return found

    def _drop(self, owner: Key) -> None:
        selector = self._selectors.pop(owner, None)
        if selector is None:
            return
        del self._members[owner]
        pair = self._pair_of.pop(owner)
        owners = self._by_pair[pair]
        owners.discard(owner)
        if not owners:
            del self._by_pair[pair]

    def _rarest(self, owner: Key, selector: Mapping[str, str]) -> _Pair:
        """By which of its labels the fewest selectors are found."""
        pairs = [(owner[0], label, selector[label]) for label in sorted(selector)]
        return min(pairs, key=lambda pair: len(self._by_pair.get(pair, ())))


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(label) == value for label, value in selector.items())
