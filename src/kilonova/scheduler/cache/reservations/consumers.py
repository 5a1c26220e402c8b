"""Which gangs may consume a reservation, or reuse the nodes of another gang.

A gang names a Reservation in its namespace by `reuseReservationRef` or by an annotation of its own
or of its pods; or a Reservation names the gang. If `reuseReservationRef` names a PodGang, that
gang's nodes are preferred. All of these are soft: a gang that finds no such capacity is scheduled
as any other.
"""

from collections.abc import Iterable

from kilonova.api.scheduling import Reservation
from kilonova.scheduler.cache.sources import ClusterStores
from kilonova.scheduler.convert.gangs.podgangs import (
    gang_object_key,
    is_single_pod_gang,
    podgang_pod_keys,
)
from kilonova.scheduler.convert.reservations.reserved_gangs import (
    find_reservation_name,
    reservation_gang_name,
)
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.objects.keys import split_key


class ReservationConsumers:
    """Looks up the reservations and predecessors of gangs."""

    def __init__(self, cluster: Cluster, stores: ClusterStores) -> None:
        self._cluster = cluster
        self._reservations = stores.reservations
        self._gangs = stores.gangs
        self._pods = stores.pods
        self._reserved_for: dict[str, str] = {}
        """Reservations by the gang that they name."""
        self._predecessor_nodes: dict[str, tuple[str, ...]] = {}
        """Nodes of predecessors, by the gang that reuses them."""

    def update_reservation(self, old: Reservation | None, new: Reservation | None) -> Iterable[str]:
        """Apply a reservation event; returns the gangs that it named or names."""
        for reservation in (old, new):
            if reservation is not None and reservation.spec.pod_gang is not None:
                meta = reservation.metadata
                gang = f"{meta.namespace}/{reservation.spec.pod_gang}"
                self._reserved_for.pop(gang, None)
                if reservation is new:
                    self._reserved_for[gang] = reservation_gang_name(meta.namespace, meta.name)
                yield gang

    def reservation_of(self, gang: str) -> str:
        """The reservation that a gang may consume; empty if there is none."""
        if not len(self._reservations):
            return ""
        namespace, object_name = split_key(gang_object_key(gang))
        reservation = self._reservation_named_by(gang)
        if reservation and (namespace, reservation) in self._reservations:
            return reservation_gang_name(namespace, reservation)
        return (
            ""
            if is_single_pod_gang(gang)
            else self._reserved_for.get(f"{namespace}/{object_name}", "")
        )

    def predecessor_nodes(self, gang: str) -> tuple[str, ...]:
        """The nodes of the gang that this gang replaces, now or when it was last seen."""
        found = None if is_single_pod_gang(gang) else self._gangs.get(split_key(gang))
        ref = found.spec.reuse_reservation_ref if found is not None else None
        if ref is None:
            self._predecessor_nodes.pop(gang, None)
            return ()
        nodes = self._cluster.nodes_of_gang(f"{ref.namespace}/{ref.name}")
        if nodes is not None:
            self._predecessor_nodes[gang] = nodes
        return self._predecessor_nodes.get(gang, ())

    def _reservation_named_by(self, name: str) -> str:
        gang = None if is_single_pod_gang(name) else self._gangs.get(split_key(name))
        pods = podgang_pod_keys(gang) if gang is not None else [gang_object_key(name)]
        return find_reservation_name(
            gang, filter(None, (self._pods.get(split_key(pod)) for pod in pods))
        )
