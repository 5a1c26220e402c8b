"""Profiling counters of Hopper and later devices (GPM): how busy SMs, tensor cores and memory are.

A counter is read as two samples and what lies between them, so that the first reading of a device
or instance gives nothing, and each later one the mean since the one before.
"""

import math
from collections.abc import Callable

import msgspec

from kilonova.gpu.devices.model import Activity
from kilonova.gpu.devices.nvml.library import Handle
from kilonova.gpu.devices.nvml.session import SUCCESS, Session

_VERSION = 1
_GRAPHICS, _SM, _OCCUPANCY, _TENSOR, _DRAM = 1, 2, 3, 5, 10
_PCIE_SENT, _PCIE_RECEIVED = 20, 21
_NVLINK_RECEIVED, _NVLINK_SENT = 60, 61
_METRICS = (
    *(_GRAPHICS, _SM, _OCCUPANCY, _TENSOR, _DRAM),
    *(_PCIE_SENT, _PCIE_RECEIVED, _NVLINK_RECEIVED, _NVLINK_SENT),
)
_INSTANCE_METRICS = (_GRAPHICS, _SM, _OCCUPANCY, _TENSOR, _DRAM)
_MEBIBYTE = 1 << 20
_MIN_SECONDS = 0.1
"""Between samples; below, the driver's counters have not moved."""


class Counters(msgspec.Struct, frozen=True):
    """What the counters report; None is unknown. Amounts are bytes per second."""

    activity: Activity = Activity()
    pcie_sent: int | None = None
    pcie_received: int | None = None
    nvlink: int | None = None


class _Sample(msgspec.Struct):
    handle: Handle
    taken: float
    counters: Counters = Counters()


class Profiler:
    """The samples of devices and instances; none, unless enabled. `now` is in seconds. Not
    synchronised."""

    def __init__(
        self, session: Session, now: Callable[[], float], *, is_enabled: bool = True
    ) -> None:
        self._session = session
        self._is_enabled = is_enabled
        self._now = now
        self._samples: dict[tuple[str, int | None], _Sample] = {}
        self._supported: dict[str, bool] = {}
        self._generation = 0

    def read(self, uuid: str, device: Handle, gpu_instance: int | None = None) -> Counters:
        """The counters of a device, or of a GPU instance of it, since they were last read."""
        if self._generation != self._session.generation:
            self._generation = self._session.generation
            self._samples.clear()
        if not self._is_enabled or not self._is_supported(uuid, device):
            return Counters()
        key, now = (uuid, gpu_instance), self._now()
        last = self._samples.get(key)
        if last is not None and now - last.taken < _MIN_SECONDS:
            return last.counters
        handle = self._take_sample(device, gpu_instance)
        if handle is None:
            return Counters()
        sample = _Sample(handle, now)
        if last is not None:
            sample.counters = self._compare(last.handle, handle, gpu_instance)
            self._session.read(self._session.library.nvmlGpmSampleFree, last.handle)
        self._samples[key] = sample
        return sample.counters

    def forget_instances(self, uuid: str, keep: set[int]) -> None:
        """Free the samples of instances of a device that are gone."""
        for key in list(self._samples):
            if key[0] == uuid and key[1] is not None and key[1] not in keep:
                sample = self._samples.pop(key)
                self._session.read(self._session.library.nvmlGpmSampleFree, sample.handle)

    def _is_supported(self, uuid: str, device: Handle) -> bool:
        if uuid not in self._supported:
            found = self._session.read(self._session.library.nvmlGpmQueryDeviceSupport, device)
            self._supported[uuid] = found is not None and bool(found.isSupportedDevice)
        return self._supported[uuid]

    def _take_sample(self, device: Handle, gpu_instance: int | None) -> Handle | None:
        library = self._session.library
        handle = self._session.read(library.nvmlGpmSampleAlloc)
        if handle is None:
            return None
        if gpu_instance is None:
            taken = self._session.read(library.nvmlGpmSampleGet, device, handle)
        else:
            taken = self._session.read(library.nvmlGpmMigSampleGet, device, gpu_instance, handle)
        if taken is None:
            self._session.read(library.nvmlGpmSampleFree, handle)
        return taken

    def _compare(self, first: Handle, second: Handle, gpu_instance: int | None) -> Counters:
        library = self._session.library
        wanted = _METRICS if gpu_instance is None else _INSTANCE_METRICS
        request = library.c_nvmlGpmMetricsGet_t()
        request.version, request.numMetrics = _VERSION, len(wanted)
        request.sample1, request.sample2 = first, second
        for position, metric in enumerate(wanted):
            request.metrics[position].metricId = metric
        if self._session.read(library.nvmlGpmMetricsGet, request) is None:
            return Counters()
        values = {
            metric: request.metrics[position].value
            for position, metric in enumerate(wanted)
            if request.metrics[position].nvmlReturn == SUCCESS
            and math.isfinite(request.metrics[position].value)
        }
        nvlink = [values[each] for each in (_NVLINK_RECEIVED, _NVLINK_SENT) if each in values]
        return Counters(
            Activity(
                gpu=_share(values.get(_GRAPHICS)),
                sm_active=_share(values.get(_SM)),
                sm_occupancy=_share(values.get(_OCCUPANCY)),
                tensor=_share(values.get(_TENSOR)),
                dram=_share(values.get(_DRAM)),
            ),
            _bytes(values.get(_PCIE_SENT)),
            _bytes(values.get(_PCIE_RECEIVED)),
            _bytes(sum(nvlink)) if nvlink else None,
        )


def _share(percent: float | None) -> float | None:
    return None if percent is None else min(max(percent / 100, 0.0), 1.0)


def _bytes(mebibytes: float | None) -> int | None:
    return None if mebibytes is None else int(mebibytes * _MEBIBYTE)
