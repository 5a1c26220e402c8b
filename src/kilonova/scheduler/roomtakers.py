"""Which gangs take room that is kept, or take over the place of another.

A gang names a Reservation of its namespace, by `reuseReservationRef`, or by an annotation of its
own or of its pods; or a Reservation names the gang. If `reuseReservationRef` names a PodGang, its
nodes are what is meant. Each is a wish: who finds no such room is placed as any other.
"""

from collections.abc import Iterable

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Reservation
from kilonova.kube import Key, Store
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import is_lone, plain_name, pods_of_gang
from kilonova.scheduler.reading.reservations import named_by, reservation_name


class RoomTakers:
    """Looks them up."""

    def __init__(
        self,
        cluster: Cluster,
        reservations: Store[Reservation],
        gangs: Store[PodGang],
        pods: Store[Pod],
    ) -> None:
        self._cluster = cluster
        self._reservations = reservations
        self._gangs = gangs
        self._pods = pods
        self._meant: dict[str, str] = {}
        """Reservations by the gang that they are for."""
        self._before: dict[str, tuple[str, ...]] = {}
        """Nodes of gangs whose place another takes over, by the other."""

    def note(self, old: Reservation | None, new: Reservation | None) -> Iterable[str]:
        """A reservation changed: the gangs that it was for, and is for."""
        for one in (old, new):
            if one is not None and one.spec.pod_gang is not None:
                meta = one.metadata
                gang = f"{meta.namespace}/{one.spec.pod_gang}"
                self._meant.pop(gang, None)
                if one is new:
                    self._meant[gang] = reservation_name(meta.namespace, meta.name)
                yield gang

    def room_of(self, gang: str) -> str:
        """The reservation whose room a gang may take; empty if there is none."""
        if not len(self._reservations):
            return ""
        namespace, plain = key_of(plain_name(gang))
        said = self._named_by(gang)
        if said and (namespace, said) in self._reservations:
            return reservation_name(namespace, said)
        return "" if is_lone(gang) else self._meant.get(f"{namespace}/{plain}", "")

    def nodes_before(self, gang: str) -> tuple[str, ...]:
        """Where the gang stands, or stood when it was seen last, whose place a gang takes over."""
        found = None if is_lone(gang) else self._gangs.get(key_of(gang))
        ref = found.spec.reuse_reservation_ref if found is not None else None
        if ref is None:
            self._before.pop(gang, None)
            return ()
        nodes = self.nodes_of(f"{ref.namespace}/{ref.name}")
        if nodes is not None:
            self._before[gang] = nodes
        return self._before.get(gang, ())

    def nodes_of(self, gang: str) -> tuple[str, ...] | None:
        """Where a gang stands; None if it does not."""
        standing, snapshot = self._cluster.standing.get(gang), self._cluster.snapshot
        if standing is None:
            return None
        return tuple(sorted({snapshot.names[snapshot.bookings[pod].row] for pod in standing.pods}))

    def _named_by(self, name: str) -> str:
        gang = None if is_lone(name) else self._gangs.get(key_of(name))
        pods = pods_of_gang(gang) if gang is not None else [plain_name(name)]
        return named_by(gang, filter(None, (self._pods.get(key_of(pod)) for pod in pods)))


def key_of(name: str) -> Key:
    """(namespace, name) of what is called NAMESPACE/NAME."""
    namespace, _, plain = name.rpartition("/")
    return namespace, plain
