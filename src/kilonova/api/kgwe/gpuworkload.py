"""GPUWorkload: GPUs, and the pods that use them."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.json import JsonObject
from kilonova.api.kgwe.constraints import SchedulingConstraints
from kilonova.api.kgwe.requirements import GpuRequirements
from kilonova.api.meta import Condition, Metadata
from kilonova.api.scheduling import Duration
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

GROUP = "kgwe.nvidia.io"
VERSION = "v1"

WorkloadType = Literal[
    "Training",
    "Inference",
    "FineTuning",
    "DataPreprocessing",
    "Reinforcement",
    "Visualization",
    "DistributedTraining",
]
Framework = Literal["PyTorch", "TensorFlow", "JAX", "MXNet", "Triton"]
Strategy = Literal[
    "DataParallel", "ModelParallel", "PipelineParallel", "Hybrid", "FSDP", "DeepSpeed"
]
Backend = Literal["NCCL", "Gloo", "MPI"]
MemoryProfile = Literal["Low", "Medium", "High", "Maximum"]
Phase = Literal["Pending", "Scheduling", "Scheduled", "Running", "Succeeded", "Failed"]

DEFAULT_MASTER_PORT = 29500
"""The port of torch.distributed's rendezvous."""

AnyObject = Annotated[
    JsonObject, Meta(extra={"kubernetes": "io.k8s.apimachinery.pkg.runtime.RawExtension"})
]
"""An object whose fields are not in the schema."""


class DistributedConfig(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How the processes of the workload work together."""

    strategy: Strategy | None = None
    """The distribution strategy. Containers get it as KGWE_STRATEGY."""
    world_size: Annotated[int, Meta(ge=1, le=4096, extra={"format": "int32"})] | None = None
    """The total number of processes. Defaults to one for each GPU. With fewer processes than GPUs,
    and more GPUs than a node has, there is a pod for each process."""
    backend: Annotated[Backend, Meta(extra={"default": "NCCL"})] = "NCCL"
    """The communication backend."""
    local_rank: Annotated[int, Meta(ge=0, extra={"format": "int32"})] | None = None
    """Ignored: every process gets its own local rank."""
    master_addr: Annotated[str, Meta(max_length=253)] = ""
    """The address at which processes find each other. Defaults to the first pod."""
    master_port: Annotated[int, Meta(ge=1, le=65535, extra={"format": "int32"})] | None = None
    """The port at which processes find each other. Defaults to 29500."""


class GPUWorkloadSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """GPUs, and the pods that use them."""

    gpu_requirements: GpuRequirements
    workload_type: Annotated[WorkloadType, Meta(extra={"default": "Training"})] = "Training"
    """What the workload does. Containers of Inference and Visualization are restarted always, those
    of others on failure, where the pod template does not specify it. DistributedTraining is
    Training."""
    framework: Framework | None = None
    """The framework: it decides on the environment in which processes find each other."""
    distributed_config: DistributedConfig | None = None
    priority: Annotated[
        int, Meta(ge=0, extra={"default": 0, "maximum": 1_000_000, "format": "int32"})
    ] = 0
    """The priority: workloads of higher priority are scheduled first, and may preempt preemptible
    ones. 0 is the priority of pods without one."""
    preemptible: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether the workload may be preempted."""
    is_preemptible: bool | None = None
    """Another name of preemptible: the workload may be preempted if either is true."""
    expected_duration: Duration | None = None
    """How long the workload is expected to run, such as 2h30m: the scheduler lets it go before
    others where it ends in time."""
    memory_profile: MemoryProfile | None = None
    """How much of the memory of its GPUs it uses: Low is below 30 %, Medium up to 70 %, High up to
    90 %, Maximum above."""
    constraints: SchedulingConstraints | None = None
    pod_template: AnyObject | None = None
    """The template of its pods, as in a Deployment: metadata.labels, metadata.annotations and spec.
    GPUs are added to the first container that requests some, or to the first one."""

    @property
    def may_be_preempted(self) -> bool:
        """Whether either spelling indicates that it is preemptible."""
        return self.preemptible or bool(self.is_preemptible)


class AllocatedMigInstance(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """A MIG instance of the workload."""

    parent_gpu: str = msgspec.field(name="parentGPU")
    """UUID of the GPU."""
    instance_uuid: str = msgspec.field(name="instanceUUID", default="")
    """UUID of the instance; absent until it has been created."""
    profile: str = ""
    """The MIG profile."""
    node: str = ""
    """The node of the GPU."""


class ScoreParts(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The parts of the score, each from 0 to 100."""

    topology: int | None = None
    """How well the GPUs of each pod are connected, by the preference: the mean of all pods."""
    locality: int | None = None
    """How close to each other the pods are; only with several pods."""


class GPUWorkloadStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of a workload."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    phase: Annotated[Phase, Meta(extra={"default": "Pending"})] = "Pending"
    """Pending until its pods exist, Scheduling until all have a node, Scheduled until all run, then
    Running; Succeeded or Failed at its end."""
    pods: int | None = None
    """The number of its pods."""
    scheduled_node: str = ""
    """The nodes of its pods, separated by commas."""
    nodes: tuple[str, ...] = ()
    """The nodes of its pods, sorted by name."""
    allocated_gpus: tuple[str, ...] = msgspec.field(name="allocatedGPUs", default=())
    """UUIDs of its GPUs, or of those of its MIG instances. INDEX@NODE where a UUID is not known."""
    mig_instances: tuple[AllocatedMigInstance, ...] = ()
    """Its MIG instances."""
    scheduling_score: int | None = None
    """How good the placement is, from 0 to 100: the mean of the parts."""
    score_parts: ScoreParts | None = None
    estimated_bandwidth: float | None = None
    """What each GPU of a pod can exchange with the others, in GB/s in both directions together: the
    least of all pods. Absent for single GPUs."""
    incarnation: int = 0
    """How often all pods have been replaced, because one was lost or the spec was changed."""
    last_restart_time: Time | None = None
    """When that happened last."""
    conditions: tuple[Condition, ...] = ()
    """Accepted: the spec is valid. Scheduled: all pods have a node. Running: all pods
    run. Complete and Failed: how it ended."""
    start_time: Time | None = None
    """When all pods ran for the first time."""
    completion_time: Time | None = None
    """When it succeeded or failed."""


class GPUWorkload(msgspec.Struct, gc=False):
    """A number of GPUs and the pods that use them, which start together."""

    RULES: ClassVar = (
        ValidationRule(
            "size(self.metadata.name) <= 47"
            " && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must have at most 47 lower-case letters, digits and hyphens:"
            " host names of pods are derived from it",
        ),
    )

    metadata: Metadata
    spec: GPUWorkloadSpec
    status: GPUWorkloadStatus = GPUWorkloadStatus()
