"""GPUWorkloads, to the fields that the console shows."""

import msgspec

from kilonova.api.meta import Condition
from kilonova.console.objects.controllers import WorkloadMeta
from kilonova.kube import Resource


class _Mig(msgspec.Struct, frozen=True, gc=False):
    profile: str = ""


class _Requirements(msgspec.Struct, frozen=True, gc=False):
    count: int = 0
    mig: _Mig | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    gpu_requirements: _Requirements = _Requirements()


class _Status(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    pods: int | None = None
    conditions: tuple[Condition, ...] = ()


class GpuWorkload(msgspec.Struct, gc=False):
    """The fields shown of a GPUWorkload."""

    metadata: WorkloadMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


GPU_WORKLOADS = Resource("kgwe.nvidia.io", "v1", "gpuworkloads", "GPUWorkload", True, GpuWorkload)
