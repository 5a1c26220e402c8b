"""What exists of a workload, and what its pods do. Values only."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from kilonova.api.grove import names as grove_names
from kilonova.api.kgwe import GPUWorkload, names
from kilonova.api.podgang import PodGang
from kilonova.gpu.controllers.gpuworkload.affinity import PodKey, ReferencedPod
from kilonova.gpu.controllers.gpuworkload.placement import ReadDevices
from kilonova.gpu.controllers.resources import ChildObject
from kilonova.kube.status import is_condition_true
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.objects.core_v1 import Pod

_DISRUPTION_REASONS = frozenset(
    {
        "Evicted",
        "NodeAffinity",
        "NodeLost",
        "NodeShutdown",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfnvidia.com/gpu",
        "OutOfpods",
        "Preempting",
        "Shutdown",
        "Terminated",
        "UnexpectedAdmissionError",
    }
)
"""Reasons that kubelets and the node lifecycle controller give for failures that are not the
pod's."""

FindFitting = Callable[[Shape, int], bool]
"""Whether a node that may run a pod has enough devices for it, with so many instead of its own."""


@dataclass(frozen=True)
class ObservedWorkload:
    """A workload and all that exists of it."""

    workload: GPUWorkload
    pods: Sequence[Pod]
    """Pods with its label, also those that are not its own."""
    gang: PodGang | None
    service: ChildObject | None
    read_devices: ReadDevices
    fits: FindFitting
    referenced_pods: Mapping[PodKey, ReferencedPod] = field(
        default_factory=dict[PodKey, ReferencedPod]
    )
    """The pods that its constraints name."""

    @cached_property
    def own_pods(self) -> tuple[Pod, ...]:
        """The pods that it controls, by rank."""
        uid = self.workload.metadata.uid
        own = (pod for pod in self.pods if _controller_uid(pod) == uid)
        return tuple(sorted(own, key=lambda pod: (get_rank(pod), pod.metadata.name)))

    @cached_property
    def current_pods(self) -> tuple[Pod, ...]:
        """Those of the current incarnation."""
        incarnation = str(self.workload.status.incarnation)
        return tuple(
            pod
            for pod in self.own_pods
            if pod.metadata.labels.get(names.INCARNATION) == incarnation
        )

    @cached_property
    def former_pods(self) -> tuple[Pod, ...]:
        """Those of earlier incarnations."""
        current = {pod.metadata.uid for pod in self.current_pods}
        return tuple(pod for pod in self.own_pods if pod.metadata.uid not in current)

    @property
    def own_gang(self) -> PodGang | None:
        """Its gang, unless another object has the name."""
        if self.gang is None:
            return None
        owner = self.gang.metadata.controller
        is_own = owner is not None and owner.uid == self.workload.metadata.uid
        return self.gang if is_own and self.gang.metadata.deletion_timestamp is None else None

    @property
    def is_placed(self) -> bool:
        """Whether any of the current pods has a node."""
        return any(pod.spec.node_name for pod in self.current_pods)


def get_rank(pod: Pod) -> int:
    """The rank of a pod by its label; -1 if it has none."""
    text = pod.metadata.labels.get(grove_names.POD_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else -1


def is_gated(pod: Pod) -> bool:
    """Whether the pod has the gate of its gang."""
    return any(gate.name == grove_names.POD_GANG_GATE for gate in pod.spec.scheduling_gates)


def is_terminating(pod: Pod) -> bool:
    """Whether the pod has been deleted and has not gone yet."""
    return pod.metadata.deletion_timestamp is not None


def is_disrupted(pod: Pod) -> bool:
    """Whether the pod was evicted, preempted, or rejected by its node: another one may succeed."""
    if is_condition_true(pod.status.conditions, "DisruptionTarget"):
        return True
    return pod.status.phase == "Failed" and pod.status.reason in _DISRUPTION_REASONS


def describe_failure(pod: Pod) -> str:
    """Why a pod has failed."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        end = status.state.terminated
        if end is not None and end.exit_code:
            return f"container {status.name} of pod {pod.metadata.name} exited with {end.exit_code}"
    reason = f" ({pod.status.reason})" if pod.status.reason else ""
    return f"pod {pod.metadata.name} failed{reason}"


def _controller_uid(pod: Pod) -> str:
    owner = pod.metadata.controller
    return "" if owner is None else owner.uid
