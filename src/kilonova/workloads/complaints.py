"""What the server refuses to replicas of sets, for the sets to tell of.

Kept in memory: an operator that starts anew meets the same refusals again.
"""

from collections.abc import Callable

from kilonova.api.grove.parts import LastError
from kilonova.kube import Key
from kilonova.workloads.keys import Replica


class Complaints:
    """The last refusal that each replica met, until a round of it goes well."""

    def __init__(self) -> None:
        self._by_set: dict[Key, dict[int, LastError]] = {}
        self._listener: Callable[[Key], None] = lambda _: None

    def listen(self, listener: Callable[[Key], None]) -> None:
        """Call `listener` with the key of a set whenever there is something new of it."""
        self._listener = listener

    def set(self, replica: Replica, error: LastError | None) -> None:
        """What a round of a replica met with; None if it went well."""
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
        self._listener(key)

    def of(self, key: Key) -> tuple[LastError, ...]:
        """What replicas of a set met with, each kind of it once."""
        known = self._by_set.get(key)
        if not known:
            return ()
        found = {(each.code, each.description): each for _, each in sorted(known.items())}
        return tuple(found.values())
