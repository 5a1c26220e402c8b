"""What-if: where additional pods would be placed now. Pure; the snapshot is not changed."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from kilonova.api.podgang import PodGang
from kilonova.scheduler.convert.gangs.pod_groups import (
    PodGroupObject,
    PodGroupRef,
    convert_pod_group,
    find_pod_group_ref,
    pod_group_ref,
)
from kilonova.scheduler.convert.gangs.podgangs import (
    GangNotReady,
    convert_podgang,
    convert_single_pod,
    gang_object_key,
    pod_group_not_found,
    podgang_pod_keys,
)
from kilonova.scheduler.convert.reservations.reserved_gangs import (
    find_reservation_name,
    reservation_gang_name,
)
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import GangPlacement, Plan, UnschedulableGang
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.library.decisions import SchedulingDecisions, to_scheduling_decisions
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.objects.core_v1 import Pod


def convert_pod_groups(
    groups: Iterable[PodGroupObject], pods: Iterable[Pod], gangs: Iterable[PodGang]
) -> list[PodGang]:
    """The gangs of PodGroups, of pods that no PodGang lists."""
    listed = {pod for gang in gangs for pod in podgang_pod_keys(gang)}
    members: dict[PodGroupRef | None, list[Pod]] = {}
    for pod in pods:
        if pod.key not in listed:
            members.setdefault(find_pod_group_ref(pod), []).append(pod)
    found = (convert_pod_group(group, members.get(pod_group_ref(group), ())) for group in groups)
    return [gang for gang in found if gang is not None]


def what_if(
    cluster_snapshot: ClusterSnapshot,
    pods: Iterable[Pod],
    gangs: Iterable[PodGang],
    groups: Collection[PodGroupRef] = (),
) -> SchedulingDecisions:
    """Schedule additional pods together with the pending gangs. `groups` are the PodGroups created
    with them.

    Scaled gangs are scheduled after their base gang, as in a live cluster.
    """
    cluster = cluster_snapshot.to_cluster()
    planner = cluster_snapshot.build_planner(cluster)
    simulation = _ArrivalSimulation(
        cluster, planner, list(pods), list(gangs), groups, cluster_snapshot.now
    )
    simulation.schedule_independent(cluster_snapshot.pending_gangs)
    simulation.schedule_dependent()
    plan = Plan(tuple(simulation.placements), tuple(simulation.rejections), simulation.reservation)
    return to_scheduling_decisions(
        replace(cluster_snapshot, not_ready=simulation.not_ready), cluster, plan
    )


def pod_and_gang_names(pods: Iterable[Pod], gangs: Iterable[PodGang]) -> Iterator[str]:
    """Pods and gangs as NAMESPACE/NAME."""
    yield from (pod.key for pod in pods)
    yield from map(_gang_key, gangs)


class _ArrivalSimulation:
    """Additional gangs and the decisions about them."""

    def __init__(
        self,
        cluster: Cluster,
        planner: Planner,
        pods: Sequence[Pod],
        gangs: Sequence[PodGang],
        groups: Collection[PodGroupRef],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._planner = planner
        self._now = now
        self._pods = {pod.key: pod for pod in pods}
        self._gangs = sorted(gangs, key=_gang_key)
        self._groups = groups
        self.placements: list[GangPlacement] = []
        self.rejections: list[UnschedulableGang] = []
        self.not_ready: dict[str, GangNotReady] = {}
        self.reservation: BackfillReservation | None = None

    def schedule_independent(self, waiting: Iterable[Gang]) -> None:
        """Schedule the gangs without a base gang, together with all pending gangs."""
        new: list[Gang] = []
        for pod in self._single_pods():
            ref = find_pod_group_ref(pod)
            if ref is None or ref in self._groups:
                self._add_gang(pod.key, convert_single_pod(pod), new)
            else:
                self._add_gang(pod.key, pod_group_not_found(ref), new)
        for gang in self._gangs:
            if not _has_base(gang):
                self._add_gang(_gang_key(gang), self._convert_gang(gang), new)
        self._schedule(new, waiting)

    def schedule_dependent(self) -> None:
        """Schedule the scaled gangs, one after the other."""
        for gang in filter(_has_base, self._gangs):
            new: list[Gang] = []
            self._add_gang(_gang_key(gang), self._convert_gang(gang), new)
            self._schedule(new)

    def _schedule(self, new: Sequence[Gang], waiting: Iterable[Gang] = ()) -> None:
        names = {gang.name for gang in new}
        plan = self._planner.schedule([*waiting, *new], self._now)
        self.placements += [each for each in plan.placements if each.gang.name in names]
        self.rejections += [each for each in plan.unschedulable if each.gang.name in names]
        self.reservation = self.reservation or plan.backfill_reservation

    def _add_gang(self, name: str, read: Gang | GangNotReady, new: list[Gang]) -> None:
        if isinstance(read, GangNotReady):
            self.not_ready[name] = read
        else:
            new.append(self._with_reservation(read))

    def _with_reservation(self, gang: Gang) -> Gang:
        """A gang with the reservation that it names."""
        podgang = next((each for each in self._gangs if _gang_key(each) == gang.name), None)
        pods = [gang_object_key(gang.name)] if podgang is None else podgang_pod_keys(podgang)
        reservation = find_reservation_name(podgang, filter(None, map(self._pods.get, pods)))
        namespace, _, _ = gang_object_key(gang.name).partition("/")
        return (
            replace(gang, reservation=reservation_gang_name(namespace, reservation))
            if reservation
            else gang
        )

    def _single_pods(self) -> Iterator[Pod]:
        listed = {pod for gang in self._gangs for pod in podgang_pod_keys(gang)}
        return (pod for key, pod in sorted(self._pods.items()) if key not in listed)

    def _convert_gang(self, gang: PodGang) -> Gang | GangNotReady:
        base = gang.spec.base_ref
        return convert_podgang(
            gang,
            self._pods.get,
            base_nodes=None
            if base is None
            else self._cluster.nodes_of_gang(f"{base.namespace}/{base.name}"),
        )


def _gang_key(gang: PodGang) -> str:
    return f"{gang.metadata.namespace}/{gang.metadata.name}"


def _has_base(gang: PodGang) -> bool:
    return gang.spec.base_ref is not None
