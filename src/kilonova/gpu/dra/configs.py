"""Opaque configuration of claims: how containers share the devices. Pure.

In the format of NVIDIA's driver, for our driver's name:

    apiVersion: resource.nvidia.com/v1beta1
    kind: GpuConfig            # or MigDeviceConfig
    sharing:
      strategy: MPS            # or TimeSlicing, not for MIG
      mpsConfig: {defaultActiveThreadPercentage: 50, defaultPinnedDeviceMemoryLimit: 10Gi}
      timeSlicingConfig: {interval: Long}
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from kilonova.api.json import JsonObject
from kilonova.api.quantity import QuantityError, parse_quantity

API_VERSIONS = frozenset({"resource.nvidia.com/v1beta1", "gpu.kilonova.dev/v1alpha1"})
GPU_CONFIG = "GpuConfig"
MIG_CONFIG = "MigDeviceConfig"
_KINDS = (GPU_CONFIG, MIG_CONFIG)


class InvalidConfig(ValueError):
    """An opaque configuration that cannot be used, and why."""


class SharingStrategy(StrEnum):
    """How several containers use a device at the same time."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class Interval(StrEnum):
    """How long a process computes before the next one does."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


class TimeSlicingConfig(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Parameters of time-slicing."""

    interval: Interval = Interval.DEFAULT


class MpsConfig(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Parameters of an MPS server."""

    default_active_thread_percentage: Annotated[int, Meta(ge=1, le=100)] | None = None
    default_pinned_device_memory_limit: str | None = None
    """A quantity, for each device."""
    default_per_device_pinned_memory_limit: dict[str, str] = {}
    """By UUID, or by the position of the device in the claim."""


class Sharing(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """How the devices of a claim are shared."""

    strategy: SharingStrategy
    time_slicing_config: TimeSlicingConfig | None = None
    mps_config: MpsConfig | None = None


class OpaqueConfig(msgspec.Struct, frozen=True):
    """A configuration of a claim, or of its class, for our driver."""

    requests: tuple[str, ...]
    """That it is for; none is all."""
    parameters: JsonObject


def find_sharing(
    configs: Sequence[OpaqueConfig], request: str, is_instance: bool
) -> Sharing | None:
    """How the devices of a request are shared: the last configuration for it counts, and those of
    classes come before those of the claim. Raises `InvalidConfig`."""
    kind = MIG_CONFIG if is_instance else GPU_CONFIG
    main = request.partition("/")[0]
    for config in reversed(configs):
        parsed = _parse(config.parameters)
        applies = not config.requests or {request, main} & set(config.requests)
        if not applies:
            continue
        if parsed.kind == kind:
            return _check(parsed, is_instance)
        if config.requests:
            raise InvalidConfig(
                f"request {request} has {'MIG instances' if is_instance else 'whole GPUs'}, "
                f"and its configuration is a {parsed.kind}: use {kind}"
            )
    return None


class _Parameters(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    api_version: str
    kind: str
    sharing: Sharing | None = None


def _parse(parameters: Mapping[str, object]) -> _Parameters:
    try:
        parsed = msgspec.convert(parameters, _Parameters)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"opaque parameters: {error}") from None
    if parsed.api_version not in API_VERSIONS:
        expected = " or ".join(sorted(API_VERSIONS))
        raise InvalidConfig(f"apiVersion {parsed.api_version}: use {expected}")
    if parsed.kind not in _KINDS:
        raise InvalidConfig(f"kind {parsed.kind}: use {' or '.join(_KINDS)}")
    return parsed


def _check(parsed: _Parameters, is_instance: bool) -> Sharing | None:
    sharing = parsed.sharing
    if sharing is None:
        return None
    if is_instance and sharing.strategy is not SharingStrategy.MPS:
        raise InvalidConfig(f"sharing.strategy {sharing.strategy}: MIG instances support MPS alone")
    if sharing.strategy is SharingStrategy.MPS and sharing.time_slicing_config is not None:
        raise InvalidConfig("sharing.timeSlicingConfig: the strategy is MPS")
    if sharing.strategy is SharingStrategy.TIME_SLICING and sharing.mps_config is not None:
        raise InvalidConfig("sharing.mpsConfig: the strategy is TimeSlicing")
    mps = sharing.mps_config or MpsConfig()
    limits = {
        f"defaultPerDevicePinnedMemoryLimit[{name}]": limit
        for name, limit in mps.default_per_device_pinned_memory_limit.items()
    }
    if mps.default_pinned_device_memory_limit is not None:
        limits["defaultPinnedDeviceMemoryLimit"] = mps.default_pinned_device_memory_limit
    for field, limit in limits.items():
        try:
            amount = parse_quantity(limit).value
        except QuantityError as error:
            raise InvalidConfig(f"sharing.mpsConfig.{field}: {error}") from None
        if amount <= 0:
            raise InvalidConfig(f"sharing.mpsConfig.{field}: {limit} is not a size of memory")
    return sharing
