"""What a GPUWorkload requires of its GPUs."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.validation_rules import ValidationRule

Preference = Literal["None", "NVLinkOptimal", "NVLinkRequired", "SameNUMA", "SamePCIeSwitch"]
Architecture = Literal["Volta", "Turing", "Ampere", "Hopper", "Ada", "Blackwell"]

MAX_GPUS = 64
"""The most GPUs of one workload."""

Bandwidth = Annotated[float, Meta(ge=0, le=1_000_000)]


class TopologyRequirements(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """How the GPUs of one pod are connected."""

    preference: Annotated[Preference, Meta(extra={"default": "None"})] = "None"
    """NVLinkRequired is a requirement: the workload waits until every two of its GPUs are connected
    by NVLink. The others are preferences."""
    min_bandwidth: Bandwidth | None = msgspec.field(name="minBandwidthGBps", default=None)
    """The minimum bandwidth between the GPUs of a pod in GB/s, in both directions together. A
    requirement."""


class MigRequirements(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """MIG instances instead of whole GPUs."""

    profile: Annotated[
        str, Meta(max_length=32, pattern=r"^[0-9]+g\.[0-9]+gb([+-][a-z]+(\.[a-z]+)*)?$")
    ]
    """The MIG profile: any that the GPUs of the cluster have, such as 1g.10gb, 3g.71gb or
    1g.18gb+me."""
    count: Annotated[int, Meta(ge=1, le=512, extra={"format": "int32"})] | None = None
    """The number of instances of the workload. Defaults to the count of GPUs."""
    allow_partial_placement: bool | None = None
    """Whether the instances may be on several GPUs. Only one instance can be kept to one GPU:
    several always may."""


class GpuRequirements(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The GPUs of a workload. Without `mig` they are whole GPUs that no other pod uses."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.mig) || !has(self.mig.count) || self.count == 1"
            " || self.count == self.mig.count",
            "with mig, mig.count is the number of instances: set count to 1 or to mig.count",
            field_path=".count",
        ),
        ValidationRule(
            "!has(self.mig) || !has(self.mig.allowPartialPlacement)"
            " || self.mig.allowPartialPlacement"
            " || (has(self.mig.count) ? self.mig.count : self.count) == 1",
            "several MIG instances may be on several GPUs: set mig.allowPartialPlacement to true,"
            " or request one instance of a larger profile",
            field_path=".mig",
        ),
        ValidationRule(
            "!has(self.mig) || !has(self.topology) || !has(self.topology.preference)"
            " || self.topology.preference != 'NVLinkRequired'",
            "MIG instances cannot use NVLink: leave out mig, or the preference NVLinkRequired",
            field_path=".topology",
        ),
        ValidationRule(
            "!has(self.mig) || ((!has(self.minBandwidthGBps) || self.minBandwidthGBps == 0.0)"
            " && (!has(self.topology) || !has(self.topology.minBandwidthGBps)"
            " || self.topology.minBandwidthGBps == 0.0))",
            "MIG instances have no connection to each other: leave out mig, or minBandwidthGBps",
            field_path=".mig",
        ),
    )

    count: Annotated[int, Meta(ge=1, le=MAX_GPUS, extra={"format": "int32"})]
    """The number of all GPUs of the workload. They are in one pod where a node has so many;
    otherwise in as many equal pods as are needed, or as distributedConfig.worldSize says."""
    min_memory_gb: Annotated[int, Meta(ge=1, le=4096)] | None = msgspec.field(
        name="minMemoryGB", default=None
    )
    """The minimum memory of each GPU, in GB (1,000,000,000 bytes)."""
    min_bandwidth: Bandwidth | None = msgspec.field(name="minBandwidthGBps", default=None)
    """The same as topology.minBandwidthGBps; the larger one counts."""
    topology: TopologyRequirements | None = None
    mig: MigRequirements | None = None
    gpu_model: Annotated[str, Meta(max_length=253)] = ""
    """The required model, such as H100; several are separated by commas."""
    architecture: Architecture | None = None
    """The required architecture."""

    @property
    def amount(self) -> int:
        """The number of GPUs, or of MIG instances."""
        return self.count if self.mig is None else self.mig.count or self.count

    @property
    def profile(self) -> str:
        """The MIG profile; empty for whole GPUs."""
        return "" if self.mig is None else self.mig.profile

    @property
    def preference(self) -> Preference:
        """The topology preference."""
        return "None" if self.topology is None else self.topology.preference

    @property
    def bandwidth(self) -> float:
        """The minimum bandwidth within a pod in GB/s; 0 without one."""
        inner = None if self.topology is None else self.topology.min_bandwidth
        return max(self.min_bandwidth or 0.0, inner or 0.0)
