"""Pods."""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.gpu import annotations as gpu_annotations
from kilonova.api.grove import names
from kilonova.api.meta import Condition, intern_value
from kilonova.api.pods.workload_owner import WORKLOAD, OwnerLabels
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME, KAI_QUEUE, QUEUE
from kilonova.console.objects.metadata import NamespacedMeta, Quantities
from kilonova.kube import Resource


class PodLabels(OwnerLabels, frozen=True, gc=False):
    """Labels that name a pod's workload, gang and queue."""

    gang: str = msgspec.field(default="", name=names.POD_GANG)
    queue: str = msgspec.field(default="", name=QUEUE)
    kai_queue: str = msgspec.field(default="", name=KAI_QUEUE)


class PodAnnotations(msgspec.Struct, frozen=True, gc=False):
    """GPU assignment, the workload where its label is truncated, and the mark of a mirror
    (static) pod."""

    workload: str = msgspec.field(default="", name=WORKLOAD)
    devices: str = msgspec.field(default="", name=gpu_annotations.DEVICES)
    mirror: str = msgspec.field(default="", name="kubernetes.io/config.mirror")


class PodMeta(NamespacedMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of a pod."""

    uid: str = ""
    labels: PodLabels = PodLabels()
    annotations: PodAnnotations = PodAnnotations()


class Resources(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits; templates are not defaulted and may have limits only."""

    requests: Quantities = {}
    limits: Quantities = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """A scheduling gate."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a pod."""

    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources = Resources()
    """Pod-level resources, if set."""
    overhead: Quantities = {}

    def __post_init__(self) -> None:
        force_setattr(self, "scheduler_name", intern_value(self.scheduler_name))


class ContainerStateWaiting(msgspec.Struct, frozen=True, gc=False):
    """A container that has not started."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A running container."""

    started_at: str | None = None


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A terminated container."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """State of a container."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a container."""

    name: str = ""
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "conditions", intern_value(self.conditions))
        force_setattr(self, "container_statuses", intern_value(self.container_statuses))


class Pod(msgspec.Struct, gc=False):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
