"""Time-slicing: how many pods take turns on a device, and how long a turn is.

The configuration is that of NVIDIA's device plugin, with three extensions that its users ask for:
`devices` gives each GPU its own number, one replica is allowed, and both may be mixed.

```yaml
sharing:
  timeSlicing:               # or mps
    renameByDefault: false
    failRequestsGreaterThanOne: true
    resources:
    - name: nvidia.com/gpu
      replicas: 4
      devices: [0, GPU-8d…]  # all where it is absent
```
"""

import subprocess
from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from kilonova.catalog.resource_names import GPU
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import Device

_SHARED_SUFFIX = ".shared"
_SECONDS = 30.0


class TimeSlice(IntEnum):
    """The length of a turn, as `nvidia-smi compute-policy` numbers it."""

    DEFAULT = 0
    SHORT = 1
    MEDIUM = 2
    LONG = 3


def parse_time_slice(text: str) -> TimeSlice:
    """`Default`, `Short`, `Medium` or `Long`; `ValueError` for anything else."""
    try:
        return TimeSlice[text.upper()]
    except KeyError:
        raise ValueError(f"interval {text!r}: must be Default, Short, Medium or Long") from None


class SharedResource(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """A resource whose devices are shared."""

    name: str
    replicas: Annotated[int, Meta(ge=1, le=1000)]
    rename: str = ""
    devices: tuple[int | str, ...] | None = None
    """Indices or UUIDs; None is all."""

    def is_for(self, device: Device) -> bool:
        """Whether it is for a device."""
        return self.devices is None or device.index in self.devices or device.uuid in self.devices


class SharedResources(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """How resources are shared."""

    resources: Annotated[tuple[SharedResource, ...], Meta(min_length=1)]
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool = False


class SharingConfig(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The `sharing` of a device plugin's configuration."""

    time_slicing: SharedResources | None = None
    mps: SharedResources | None = None

    @property
    def strategy(self) -> str:
        """As in the label `nvidia.com/gpu.sharing-strategy`."""
        if self.mps is not None:
            return "mps"
        return "none" if self.time_slicing is None else "time-slicing"

    def replicas(self, device: Device, resource: str) -> int:
        """How many pods share a device of the resource; the last entry that is for it counts."""
        shared = self.mps or self.time_slicing
        found = 1
        for each in () if shared is None else shared.resources:
            if each.name == resource and each.is_for(device):
                found = each.replicas
        return found

    def resource_name(self, resource: str) -> str:
        """The name under which a shared resource is offered."""
        shared = self.mps or self.time_slicing
        for each in () if shared is None else shared.resources:
            if each.name == resource and each.rename:
                return each.rename
            if each.name == resource and shared is not None and shared.rename_by_default:
                return resource + _SHARED_SUFFIX
        return resource


def parse_sharing(value: Mapping[str, object]) -> SharingConfig:
    """Read the `sharing` of a configuration; `ValueError` names the field."""
    try:
        config = msgspec.convert(value, SharingConfig)
    except msgspec.ValidationError as error:
        raise ValueError(f"sharing: {error}") from None
    if config.mps is not None and config.time_slicing is not None:
        raise ValueError("sharing: timeSlicing and mps exclude each other; remove one of them")
    for each in config.mps.resources if config.mps is not None else ():
        if each.name != GPU:
            raise ValueError(f"sharing.mps.resources: {each.name}: MPS shares nvidia.com/gpu alone")
    return config


class TimeSliceControl(Protocol):
    """Sets the length of turns. Blocks; raises `GpuError`."""

    def set_time_slice(self, device: str, length: TimeSlice) -> None:
        """The length of turns on a device (UUID) from now on."""
        ...


class NvidiaSmiTimeSlice:
    """By `nvidia-smi compute-policy`: NVML has no call for it."""

    def __init__(self, program: str = "nvidia-smi") -> None:
        self._program = program

    def set_time_slice(self, device: str, length: TimeSlice) -> None:
        command = [
            self._program,
            "compute-policy",
            "-i",
            device,
            "--set-timeslice",
            str(int(length)),
        ]
        operation = "set_time_slice"
        try:
            done = subprocess.run(  # noqa: S603 (without a shell)
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except FileNotFoundError:
            detail = f"{self._program} is not installed"
            raise GpuError(
                GpuErrorKind.DRIVER_NOT_FOUND, operation, device=device, detail=detail
            ) from None
        except subprocess.TimeoutExpired:
            raise GpuError(GpuErrorKind.TIMEOUT, operation, device=device) from None
        if done.returncode:
            detail = (done.stdout + done.stderr).strip()
            kind = GpuErrorKind.UNKNOWN
            if "Insufficient Permissions" in detail:
                kind = GpuErrorKind.NO_PERMISSION
            elif "Not Supported" in detail:
                kind = GpuErrorKind.NOT_SUPPORTED
            raise GpuError(kind, operation, device=device, detail=detail)
