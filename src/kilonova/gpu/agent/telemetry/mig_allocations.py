"""Counts the MIG instances that pods got and gave back, for metrics."""

from collections.abc import Iterable

from kilonova.gpu.exporter.model import DeviceUser, MigCounts

_Slot = tuple[str, int, str, int]
"""UID of the pod, index of the device, profile and start."""


class MigAllocationCounter:
    """Of each node, since the process started; what was there before is no allocation."""

    def __init__(self) -> None:
        self._slots: dict[str, frozenset[_Slot]] = {}
        self._counts: dict[str, MigCounts] = {}

    def counts(self, node: str) -> MigCounts:
        """The counts of a node."""
        return self._counts.get(node, MigCounts())

    def start(self, node: str, users: Iterable[DeviceUser]) -> None:
        """What users have now is where counting begins."""
        self._slots[node] = _list_slots(users)

    def observe(self, node: str, users: Iterable[DeviceUser]) -> None:
        """Count what has changed since the last call."""
        before, after = self._slots.get(node, frozenset[_Slot]()), _list_slots(users)
        if before == after:
            return
        old = self.counts(node)
        self._slots[node] = after
        self._counts[node] = MigCounts(
            old.allocations + len(after - before), old.releases + len(before - after)
        )

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._slots.pop(node, None)
        self._counts.pop(node, None)


def _list_slots(users: Iterable[DeviceUser]) -> frozenset[_Slot]:
    return frozenset(
        (user.uid, each.index, each.profile, each.start)
        for user in users
        for each in user.devices
        if each.profile
    )
