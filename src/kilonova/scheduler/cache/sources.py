"""What a scheduler cache is derived from: stores, and caches of objects that pods refer to."""

from dataclasses import dataclass, field

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue, Reservation
from kilonova.api.scheduling_names import SCHEDULER_NAME
from kilonova.kube import Store
from kilonova.scheduler.cache.extensions.devices import DeviceCache
from kilonova.scheduler.cache.extensions.namespaces import NamespaceCache
from kilonova.scheduler.cache.extensions.pod_groups import GangLookup, PodGroupCache
from kilonova.scheduler.convert.pods.changes import RereadPods
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Node, Pod
from kilonova.scheduler.storage.volume_cache import VolumeCache


@dataclass(frozen=True, slots=True)
class ClusterStores:
    """The stores whose events the cache follows."""

    nodes: Store[Node]
    pods: Store[Pod]
    gangs: Store[PodGang]
    queues: Store[Queue]
    reservations: Store[Reservation] = field(default_factory=lambda: Store(Reservation))


@dataclass(frozen=True, slots=True)
class CacheExtensions:
    """Caches of objects that pods refer to.

    Without `devices` and `volumes`, claims are ignored; without `namespaces`, namespaces have no
    labels; `pod_groups` maintains the store of gangs where PodGroups are translated.
    """

    devices: DeviceCache | None = None
    volumes: VolumeCache | None = None
    namespaces: NamespaceCache | None = None
    pod_groups: PodGroupCache | None = None

    def attach(self, snapshot: Snapshot, gang_of_pod: GangLookup, reread_pods: RereadPods) -> None:
        """Keep a snapshot up to date, and have pods read again when such an object changes."""
        if self.devices is not None:
            self.devices.attach(snapshot, reread_pods)
        if self.volumes is not None:
            self.volumes.attach(snapshot, reread_pods)
        if self.namespaces is not None:
            self.namespaces.attach(reread_pods)
        if self.pod_groups is not None:
            self.pod_groups.attach_to_cache(gang_of_pod, reread_pods)


@dataclass(frozen=True, slots=True)
class GangSelection:
    """Which gangs are read: those of pods whose `schedulerName` is in `scheduler_names`; with
    `include_foreign_gangs` also those of other schedulers' pods."""

    scheduler_names: frozenset[str] = frozenset({SCHEDULER_NAME})
    include_foreign_gangs: bool = True
