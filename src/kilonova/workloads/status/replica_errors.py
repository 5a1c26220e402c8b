"""API errors of replicas, which are reported in `lastErrors` of their sets.

Kept in memory: after a restart of the operator the same errors occur again.
"""

from collections.abc import Callable

from kilonova.api.grove.common import LastError
from kilonova.kube import Key
from kilonova.workloads.keys import ReplicaKey


class ReplicaErrors:
    """The last API error of each replica, until a reconcile of it succeeds."""

    def __init__(self) -> None:
        self._by_set: dict[Key, dict[int, LastError]] = {}
        self._on_change: Callable[[Key], None] = lambda _: None

    def subscribe(self, listener: Callable[[Key], None]) -> None:
        """Call `listener` with the key of a set whenever its errors change."""
        self._on_change = listener

    def record(self, replica: ReplicaKey, error: LastError | None) -> None:
        """Record the result of reconciling a replica; None if it succeeded."""
        key = replica.namespace, replica.set_name
        known = self._by_set.get(key, {})
        old = known.get(replica.index)
        if error is None and old is None:
            return
        if error is None:
            del known[replica.index]
            if not known:
                del self._by_set[key]
        elif old is not None and (old.code, old.description) == (error.code, error.description):
            return
        else:
            self._by_set.setdefault(key, {})[replica.index] = error
        self._on_change(key)

    def list_errors(self, key: Key) -> tuple[LastError, ...]:
        """The distinct errors of a set's replicas."""
        known = self._by_set.get(key)
        if not known:
            return ()
        found = {(each.code, each.description): each for _, each in sorted(known.items())}
        return tuple(found.values())
