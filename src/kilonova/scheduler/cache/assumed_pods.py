"""Assumed pods: counted on their nodes from the decision until their binding is finished."""

from collections.abc import Iterable

from kilonova.scheduler.cache.placed_pods import PlacedPods
from kilonova.scheduler.cache.state import CacheState
from kilonova.scheduler.convert.gangs.podgangs import is_schedulable
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.storage.index import volume_claim_keys


class AssumedPods:
    """The assumed pods, and which of them are being bound."""

    def __init__(self, state: CacheState, placed: PlacedPods) -> None:
        self._snapshot = state.cluster.snapshot
        self._gangs = state.gangs
        self._placed = placed
        self._find_pod = state.gangs.find_pod
        self._assumed: dict[str, PodPlacement] = {}
        """Assumed pods as decided, by pod. The snapshot may have updated them since."""
        self._binding: set[str] = set()
        """The assumed pods whose bindings are being written."""

    def get(self, pod: str) -> PodPlacement | None:
        """The decision about a pod, if it is assumed."""
        return self._assumed.get(pod)

    def is_binding(self, pod: str) -> bool:
        """Whether the binding of an assumed pod is being written."""
        return pod in self._binding

    def add(self, pod_placements: Iterable[PodPlacement]) -> None:
        """Assume pods that are already counted in the snapshot."""
        self._assumed.update((pod_placement.pod, pod_placement) for pod_placement in pod_placements)

    def withdraw(self, pod: str) -> None:
        """The decision about a pod is void before its binding is written: its gang is pending."""
        del self._assumed[pod]
        self._gangs.mark_pod_dirty(pod)

    def assume_pod(
        self, pod: Pod, member: Member, row: int, devices: tuple[GpuShare, ...]
    ) -> PodPlacement:
        """Assume a pod on a node that another scheduler chose; the rest of its gang is read
        again."""
        pod_placement = PodPlacement(member, row, devices, self._gangs.gang_name_of(pod))
        self._snapshot.add_pod(pod_placement)
        self._assumed[pod.key] = pod_placement
        self._binding.add(pod.key)
        self._gangs.mark_pod_dirty(pod.key)
        return pod_placement

    def begin_binding(self, pod_placements: Iterable[PodPlacement]) -> None:
        """Bindings are being written: their capacity stays in use until they are finished, whatever
        changes."""
        self._binding.update(pod_placement.pod for pod_placement in pod_placements)

    def finish_binding(self, placement: GangPlacement, failed: Iterable[PodPlacement]) -> None:
        """Finish the bindings of a gang; those that failed are forgotten."""
        failed = list(failed)
        failed_pods = {pod_placement.pod for pod_placement in failed}
        bound = {pod_placement.pod for pod_placement in placement.pods} - failed_pods
        for pod_placement in placement.pods:
            if pod_placement.pod in bound:
                self._discard(pod_placement)
        self._gangs.record_bound_pods(placement.gang, bound)
        self.forget(failed)

    def forget(self, pod_placements: Iterable[PodPlacement]) -> None:
        """Forget assumed pods whose bindings failed: their capacity is free, their gangs are
        pending."""
        for pod_placement in pod_placements:
            pod = self._find_pod(pod_placement.pod)
            if self._is_counted(pod_placement):
                if pod is not None and pod.spec.node_name and not pod.ended:
                    self._placed.account_bound_pod(pod)  # another scheduler chose the same node
                else:
                    self._placed.remove(pod_placement.pod)
            self._discard(pod_placement)
            if pod is not None and volume_claim_keys(pod):
                self._gangs.forget_member(pod_placement.pod)
            self._gangs.mark_pod_dirty(pod_placement.pod)

    def find_unbound_pod(self, pod_placement: PodPlacement) -> Pod | None:
        """The pod of a placement while it is assumed and not bound."""
        pod = self._find_pod(pod_placement.pod)
        if pod is None or not is_schedulable(pod):
            return None
        return pod if self._is_counted(pod_placement) else None

    def is_superseded(self, pod_placement: PodPlacement) -> bool:
        """Whether a later decision replaced the placement of the pod."""
        return self._assumed.get(pod_placement.pod, pod_placement) is not pod_placement

    def _is_counted(self, pod_placement: PodPlacement) -> bool:
        """Whether a placement is the latest decision about its pod, and still counted."""
        assumed = self._assumed.get(pod_placement.pod)
        return assumed is pod_placement and pod_placement.pod in self._snapshot.placements

    def _discard(self, pod_placement: PodPlacement) -> None:
        if self._assumed.get(pod_placement.pod) is pod_placement:
            del self._assumed[pod_placement.pod]
            self._binding.discard(pod_placement.pod)
