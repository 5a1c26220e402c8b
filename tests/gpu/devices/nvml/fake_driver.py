"""A fake driver: GPUs as values, of which some are error codes, and MIG as NVML has it."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.gpu.devices.nvml.fake_library import (
    GPU_IS_LOST,
    IN_USE,
    INSUFFICIENT_RESOURCES,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    SUCCESS,
    TIMEOUT,
    FakeLibrary,
    address,
    number,
    put,
    put_handle,
    put_text,
    target,
)

MIB = 1 << 20
_GPU, _MIG, _GI, _CI, _SET, _SAMPLE = (kind << 32 for kind in range(1, 7))
NO_INSTANCE = 0xFFFFFFFF


@dataclass(frozen=True)
class Code:
    """A value that cannot be read: the return code."""

    code: int


UNSUPPORTED = Code(NOT_SUPPORTED)


@dataclass
class Profile:
    """A MIG profile, by its index in NVML."""

    index: int
    id: int
    name: str
    slices: int
    size: int
    starts: tuple[int, ...]
    limit: int
    sms: int
    memory: int
    ofa: int = 0


def seven_slices(sizes: Sequence[int], sms: Sequence[int], memory: int) -> list[Profile]:
    """The profiles of most devices: of 1, 1 with media, double memory, 2, 3, 4 and 7 slices."""
    one, double, half, whole = sizes
    all_starts, pairs = tuple(range(7)), (0, 2, 4)
    rows = [
        (0, 19, f"1g.{one}gb", 1, 1, all_starts, 7, sms[0], 0),
        (7, 20, f"1g.{one}gb+me", 1, 1, all_starts, 1, sms[0], 1),
        (9, 15, f"1g.{double}gb", 1, 2, (*pairs, 6), 4, sms[1], 0),
        (1, 14, f"2g.{double}gb", 2, 2, pairs, 3, sms[2], 0),
        (2, 9, f"3g.{half}gb", 3, 4, (0, 4), 2, sms[3], 0),
        (3, 5, f"4g.{half}gb", 4, 4, (0,), 1, sms[4], 0),
        (4, 0, f"7g.{whole}gb", 7, 8, (0,), 1, sms[5], 1),
    ]
    return [
        Profile(index, id, f"MIG {name}", slices, size, starts, limit, sm, memory * size // 8, ofa)
        for index, id, name, slices, size, starts, limit, sm, ofa in rows
    ]


H100_PROFILES = seven_slices((10, 20, 40, 80), (16, 26, 32, 60, 64, 132), 81559)
A100_PROFILES = seven_slices((10, 20, 40, 80), (14, 14, 28, 42, 56, 98), 81920)


@dataclass
class Link:
    """An NVLink: what it leads to."""

    remote: str = ""
    kind: int = 2
    active: bool = True
    version: int = 6
    errors: tuple[int, int, int] = (0, 0, 0)


@dataclass
class Process:
    pid: int
    memory: int = 0
    sm: int = 0
    gpu_instance: int = NO_INSTANCE


@dataclass
class FakeGpu:
    """A GPU. Any value may be a `Code`."""

    uuid: str
    name: Any = "NVIDIA H100 80GB HBM3"
    pci: str = "00000000:18:00.0"
    pci_id: int = 0x233010DE
    serial: Any = "1650000000001"
    minor: Any = 0
    architecture: Any = 9
    capability: Any = (9, 0)
    cores: Any = 16896
    memory: Any = (81559 * MIB, 500 * MIB, 600 * MIB)
    """Total, used, reserved."""
    pcie: Any = (5, 16)
    clocks: Any = (345, 2619)
    max_clocks: Any = (1980, 2619)
    power_limit: Any = 700_000
    numa_nodes: Any = (0,)
    links: list[Link] = field(default_factory=list[Link])
    fabric: Any = UNSUPPORTED
    """State, status, clique, UUID, mask, summary."""
    mig: Any = (0, 0)
    profiles: list[Profile] = field(default_factory=lambda: list(H100_PROFILES))
    needs_reset_for_mig: bool = False
    utilization: Any = (42, 17)
    codecs: Any = (3, 5)
    power: Any = 251_500
    energy: Any = 9_876_543
    temperature: Any = 51
    memory_temperature: Any = 60
    pcie_throughput: Any = (964, 594)
    replays: Any = 1
    throttle: Any = 0x4
    ecc: Any = (2, 1)
    rows: Any = (1, 0, 1, 0)
    nvlink_kib: Any = UNSUPPORTED
    processes: list[Process] = field(default_factory=list[Process])
    gpm: dict[int, float] | None = None
    """Metrics by their id; None: not supported."""
    event_types: Any = 0x10B
    compute_mode: Any = 0
    is_lost: bool = False
    instances: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    """By GPU instance id: profile, start, and the compute instance's id or None."""

    def mig_uuid(self, gpu_instance: int) -> str:
        return f"MIG-{self.uuid[4:]}-{gpu_instance}"

    @property
    def complete(self) -> list[int]:
        return [each for each, (_, _, compute) in sorted(self.instances.items()) if compute == 0]


class FakeDriver(FakeLibrary):
    """The driver's library with these GPUs."""

    def __init__(self, *gpus: FakeGpu, p2p: Any = None, ancestors: Any = None) -> None:
        super().__init__()
        self.gpus = list(gpus)
        self.p2p = p2p or {}
        """P2P status of NVLink by pairs of indices; 5 otherwise."""
        self.ancestors = ancestors or {}
        self.is_open = False
        self.events: list[tuple[int, int, int]] = []
        """Index of the GPU, type, data."""
        self.waits: list[int] = []
        self._samples = 0

    # The driver.

    def c_nvmlInitWithFlags(self, _flags: Any) -> int:
        self.is_open = True
        return SUCCESS

    def c_nvmlShutdown(self) -> int:
        self.is_open = False
        return SUCCESS

    def c_nvmlErrorString(self, code: Any) -> bytes:
        return f"error {number(code)}".encode()

    def c_nvmlSystemGetDriverVersion(self, buffer: Any, _size: Any) -> int:
        return put_text(buffer, "580.159.04")

    def c_nvmlSystemGetCudaDriverVersion_v2(self, out: Any) -> int:
        return put(out, 13000)

    def c_nvmlDeviceGetCount_v2(self, out: Any) -> int:
        return put(out, len(self.gpus))

    def c_nvmlDeviceGetHandleByIndex_v2(self, index: Any, out: Any) -> int:
        position = number(index)
        if self.gpus[position].is_lost:
            return GPU_IS_LOST
        return put_handle(out, _GPU | id(self.gpus[position]) & 0xFFFFFFFF)

    def c_nvmlDeviceGetHandleByUUID(self, uuid: Any, out: Any) -> int:
        for gpu in self.gpus:
            if gpu.uuid.encode() == uuid.value:
                return put_handle(out, _GPU | id(gpu) & 0xFFFFFFFF)
        return NOT_FOUND

    def gpu(self, handle: Any) -> FakeGpu:
        for gpu in self.gpus:
            if address(handle) == _GPU | id(gpu) & 0xFFFFFFFF:
                return gpu
        raise AssertionError("not a handle of a device")

    def read(self, handle: Any, attribute: str, *outs: Any) -> int:
        gpu = self.gpu(handle)
        value = getattr(gpu, attribute)
        if gpu.is_lost:
            return GPU_IS_LOST
        if isinstance(value, Code):
            return value.code
        values = value if isinstance(value, tuple) else (value,)
        for out, each in zip(outs, values, strict=True):
            put(out, each)
        return SUCCESS

    # What a device is.

    def c_nvmlDeviceGetUUID(self, handle: Any, buffer: Any, _size: Any) -> int:
        found = self._mig_device(handle)
        if found is not None:
            return put_text(buffer, found[0].mig_uuid(found[1]))
        gpu = self.gpu(handle)
        return GPU_IS_LOST if gpu.is_lost else put_text(buffer, gpu.uuid)

    def _text(self, handle: Any, buffer: Any, value: Any) -> int:
        if self.gpu(handle).is_lost:
            return GPU_IS_LOST
        return value.code if isinstance(value, Code) else put_text(buffer, value)

    def c_nvmlDeviceGetName(self, handle: Any, buffer: Any, _size: Any) -> int:
        return self._text(handle, buffer, self.gpu(handle).name)

    def c_nvmlDeviceGetSerial(self, handle: Any, buffer: Any, _size: Any) -> int:
        return self._text(handle, buffer, self.gpu(handle).serial)

    def c_nvmlDeviceGetMinorNumber(self, handle: Any, out: Any) -> int:
        return self.read(handle, "minor", out)

    def c_nvmlDeviceGetPciInfo_v3(self, handle: Any, out: Any) -> int:
        gpu, info = self.gpu(handle), target(out)
        if gpu.is_lost:
            return GPU_IS_LOST
        info.busId, info.pciDeviceId = gpu.pci, gpu.pci_id
        return SUCCESS

    def c_nvmlDeviceGetArchitecture(self, handle: Any, out: Any) -> int:
        return self.read(handle, "architecture", out)

    def c_nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:
        return self.read(handle, "capability", major, minor)

    def c_nvmlDeviceGetNumGpuCores(self, handle: Any, out: Any) -> int:
        return self.read(handle, "cores", out)

    def c_nvmlDeviceGetMemoryInfo(self, handle: Any, out: Any) -> int:
        return self._memory(handle, target(out))

    def c_nvmlDeviceGetMemoryInfo_v2(self, handle: Any, out: Any) -> int:
        memory = target(out)
        assert memory.version == 0x02000028
        return self._memory(handle, memory)

    def _memory(self, handle: Any, memory: Any) -> int:
        found = self._mig_device(handle)
        if found is not None:
            profile = found[0].instances[found[1]][0]
            memory.total, memory.used = profile.memory * MIB, 64 * MIB
            return SUCCESS
        gpu = self.gpu(handle)
        if isinstance(gpu.memory, Code):
            return gpu.memory.code
        memory.total, memory.used, reserved = gpu.memory
        if hasattr(memory, "reserved"):
            memory.reserved = reserved
        return SUCCESS

    def _pick(self, handle: Any, attribute: str, position: int, out: Any) -> int:
        value = getattr(self.gpu(handle), attribute)
        return value.code if isinstance(value, Code) else put(out, value[position])

    def c_nvmlDeviceGetMaxPcieLinkGeneration(self, handle: Any, out: Any) -> int:
        return self._pick(handle, "pcie", 0, out)

    def c_nvmlDeviceGetMaxPcieLinkWidth(self, handle: Any, out: Any) -> int:
        return self._pick(handle, "pcie", 1, out)

    def c_nvmlDeviceGetMaxClockInfo(self, handle: Any, clock: Any, out: Any) -> int:
        return self._pick(handle, "max_clocks", number(clock) - 1, out)

    def c_nvmlDeviceGetClockInfo(self, handle: Any, clock: Any, out: Any) -> int:
        return self._pick(handle, "clocks", number(clock) - 1, out)

    def c_nvmlDeviceGetEnforcedPowerLimit(self, handle: Any, out: Any) -> int:
        return self.read(handle, "power_limit", out)

    def c_nvmlDeviceGetMemoryAffinity(self, handle: Any, size: Any, out: Any, _scope: Any) -> int:
        nodes = self.gpu(handle).numa_nodes
        if isinstance(nodes, Code):
            return nodes.code
        assert number(size) >= 1
        for node in nodes:
            target(out)[node // 64] |= 1 << node % 64
        return SUCCESS

    # Links.

    def _link(self, handle: Any, link: Any) -> Link | int:
        links = self.gpu(handle).links
        if not links:
            return NOT_SUPPORTED
        position = number(link)
        return links[position] if position < len(links) else INVALID_ARGUMENT

    def c_nvmlDeviceGetNvLinkState(self, handle: Any, link: Any, out: Any) -> int:
        found = self._link(handle, link)
        return found if isinstance(found, int) else put(out, int(found.active))

    def c_nvmlDeviceGetNvLinkVersion(self, handle: Any, link: Any, out: Any) -> int:
        found = self._link(handle, link)
        return found if isinstance(found, int) else put(out, found.version)

    def c_nvmlDeviceGetNvLinkRemotePciInfo_v2(self, handle: Any, link: Any, out: Any) -> int:
        found = self._link(handle, link)
        if isinstance(found, int) or not found.remote:
            return NOT_SUPPORTED
        target(out).busId = found.remote
        return SUCCESS

    def c_nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: Any, link: Any, out: Any) -> int:
        found = self._link(handle, link)
        return found if isinstance(found, int) else put(out, found.kind)

    def c_nvmlDeviceGetNvLinkErrorCounter(
        self, handle: Any, link: Any, counter: Any, out: Any
    ) -> int:
        found = self._link(handle, link)
        return found if isinstance(found, int) else put(out, found.errors[number(counter)])

    def _pair(self, one: Any, other: Any) -> tuple[int, int]:
        first, second = (self.gpus.index(self.gpu(each)) for each in (one, other))
        return min(first, second), max(first, second)

    def c_nvmlDeviceGetP2PStatus(self, one: Any, other: Any, kind: Any, out: Any) -> int:
        assert number(kind) == 2
        return put(out, self.p2p.get(self._pair(one, other), 5))

    def c_nvmlDeviceGetTopologyCommonAncestor(self, one: Any, other: Any, out: Any) -> int:
        level = self.ancestors.get(self._pair(one, other), 50)
        return level.code if isinstance(level, Code) else put(out, level)

    def c_nvmlDeviceGetGpuFabricInfoV(self, handle: Any, out: Any) -> int:
        fabric, info = self.gpu(handle).fabric, target(out)
        if isinstance(fabric, Code):
            return fabric.code
        state, status, clique, cluster, mask, summary = fabric
        if summary is None and hasattr(info, "healthSummary"):
            return 25  # an older driver
        info.state, info.status, info.cliqueId, info.healthMask = state, status, clique, mask
        for position, each in enumerate(cluster):
            info.clusterUuid[position] = each
        if summary is not None:
            info.healthSummary = summary
        return SUCCESS

    # Measurements.

    def c_nvmlDeviceGetUtilizationRates(self, handle: Any, out: Any) -> int:
        rates = self.gpu(handle).utilization
        if isinstance(rates, Code) or self.gpu(handle).mig[0]:
            return NOT_SUPPORTED
        target(out).gpu, target(out).memory = rates
        return SUCCESS

    def _codec(self, handle: Any, position: int, out: Any, period: Any) -> int:
        codecs = self.gpu(handle).codecs
        if isinstance(codecs, Code):
            return codecs.code
        put(period, 167)
        return put(out, codecs[position])

    def c_nvmlDeviceGetEncoderUtilization(self, handle: Any, out: Any, period: Any) -> int:
        return self._codec(handle, 0, out, period)

    def c_nvmlDeviceGetDecoderUtilization(self, handle: Any, out: Any, period: Any) -> int:
        return self._codec(handle, 1, out, period)

    def c_nvmlDeviceGetPowerUsage(self, handle: Any, out: Any) -> int:
        return self.read(handle, "power", out)

    def c_nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, out: Any) -> int:
        return self.read(handle, "energy", out)

    def c_nvmlDeviceGetTemperature(self, handle: Any, _sensor: Any, out: Any) -> int:
        return self.read(handle, "temperature", out)

    def c_nvmlDeviceGetPcieThroughput(self, handle: Any, counter: Any, out: Any) -> int:
        return self._pick(handle, "pcie_throughput", number(counter), out)

    def c_nvmlDeviceGetPcieReplayCounter(self, handle: Any, out: Any) -> int:
        return self.read(handle, "replays", out)

    def c_nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, out: Any) -> int:
        return self.read(handle, "throttle", out)

    def c_nvmlDeviceGetTotalEccErrors(self, handle: Any, kind: Any, counter: Any, out: Any) -> int:
        assert number(counter) == 0
        return self._pick(handle, "ecc", number(kind), out)

    def c_nvmlDeviceGetRemappedRows(self, handle: Any, *outs: Any) -> int:
        return self.read(handle, "rows", *outs)

    def c_nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        gpu = self.gpu(handle)
        for position in range(number(count)):
            value = target(values)[position]
            read = {82: gpu.memory_temperature, 138: gpu.nvlink_kib, 139: gpu.nvlink_kib}[
                value.fieldId
            ]
            if isinstance(read, Code):
                value.nvmlReturn = read.code
            elif value.fieldId == 82:
                value.value.uiVal = read
            else:
                assert value.scopeId == 0xFFFFFFFF
                value.value.ullVal = read
        return SUCCESS

    def _processes(self, handle: Any, count: Any, rows: Any) -> int:
        processes = self.gpu(handle).processes
        if isinstance(processes, Code):
            return processes.code
        wanted = len(processes)
        if rows is None:
            put(count, wanted)
            return INSUFFICIENT_SIZE if wanted else SUCCESS
        for row, each in zip(rows, processes, strict=False):
            row.pid, row.usedGpuMemory = each.pid, each.memory
            row.gpuInstanceId = row.computeInstanceId = each.gpu_instance
        return put(count, wanted)

    def c_nvmlDeviceGetComputeRunningProcesses_v3(self, handle: Any, *arguments: Any) -> int:
        return self._processes(handle, *arguments)

    def c_nvmlDeviceGetMPSComputeRunningProcesses_v3(self, handle: Any, *arguments: Any) -> int:
        return self._processes(handle, *arguments)

    def c_nvmlDeviceGetProcessUtilization(
        self, handle: Any, samples: Any, count: Any, since: Any
    ) -> int:
        gpu = self.gpu(handle)
        if gpu.mig[0] or isinstance(gpu.processes, Code):
            return NOT_SUPPORTED
        found = [each for each in gpu.processes if each.sm]
        if not found or number(since) >= 1000:
            return NOT_FOUND
        if samples is None:
            put(count, len(found))
            return INSUFFICIENT_SIZE
        for row, each in zip(samples, found, strict=False):
            row.pid, row.smUtil, row.timeStamp = each.pid, each.sm, 1000
        return put(count, len(found))

    def c_nvmlGpmQueryDeviceSupport(self, handle: Any, out: Any) -> int:
        target(out).isSupportedDevice = int(self.gpu(handle).gpm is not None)
        return SUCCESS

    def c_nvmlGpmSampleAlloc(self, out: Any) -> int:
        self._samples += 1
        return put_handle(out, _SAMPLE | self._samples)

    def c_nvmlGpmSampleFree(self, _sample: Any) -> int:
        return SUCCESS

    def c_nvmlGpmSampleGet(self, handle: Any, _sample: Any) -> int:
        self.sampled = self.gpu(handle)
        return SUCCESS

    def c_nvmlGpmMigSampleGet(self, handle: Any, gpu_instance: Any, _sample: Any) -> int:
        self.sampled = self.gpu(handle)
        return SUCCESS if number(gpu_instance) in self.sampled.instances else INVALID_ARGUMENT

    def c_nvmlGpmMetricsGet(self, out: Any) -> int:
        request = target(out)
        assert request.version == 1
        assert address(request.sample1) != address(request.sample2)
        for position in range(request.numMetrics):
            metric = request.metrics[position]
            value = (self.sampled.gpm or {}).get(metric.metricId)
            metric.nvmlReturn = NOT_SUPPORTED if value is None else SUCCESS
            metric.value = value or 0.0
        return SUCCESS

    # Events.

    def c_nvmlEventSetCreate(self, out: Any) -> int:
        return put_handle(out, _SET | 1)

    def c_nvmlEventSetFree(self, _set: Any) -> int:
        return SUCCESS

    def c_nvmlDeviceGetSupportedEventTypes(self, handle: Any, out: Any) -> int:
        return self.read(handle, "event_types", out)

    def c_nvmlDeviceRegisterEvents(self, handle: Any, types: Any, _set: Any) -> int:
        gpu = self.gpu(handle)
        return INVALID_ARGUMENT if number(types) & ~gpu.event_types else SUCCESS

    def c_nvmlEventSetWait_v2(self, _set: Any, out: Any, milliseconds: Any) -> int:
        self.waits.append(number(milliseconds))
        if not self.events:
            return TIMEOUT
        index, kind, code = self.events.pop(0)
        data = target(out)
        data.eventType, data.eventData = kind, code
        data.device = type(data.device)()
        pointer = ctypes.c_void_p(_GPU | id(self.gpus[index]) & 0xFFFFFFFF)
        data.device = ctypes.cast(pointer, type(data.device))
        return SUCCESS

    # MIG.

    def c_nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> int:
        return self.read(handle, "mig", current, pending)

    def c_nvmlDeviceSetMigMode(self, handle: Any, mode: Any, status: Any) -> int:
        gpu, wanted = self.gpu(handle), number(mode)
        if isinstance(gpu.mig, Code):
            return gpu.mig.code
        if gpu.instances and not wanted:
            return IN_USE
        if gpu.mig[0] == wanted:
            gpu.mig = (wanted, wanted)
            return put(status, SUCCESS)
        if gpu.processes or gpu.needs_reset_for_mig:
            gpu.mig = (gpu.mig[0], wanted)
            return put(status, IN_USE if gpu.processes else RESET_REQUIRED)
        gpu.mig = (wanted, wanted)
        return put(status, SUCCESS)

    def c_nvmlDeviceGetGpuInstanceProfileInfoV(self, handle: Any, index: Any, out: Any) -> int:
        profiles = {each.index: each for each in self.gpu(handle).profiles}
        position = number(index)
        if position not in profiles:
            return INVALID_ARGUMENT if position == 17 else NOT_SUPPORTED
        info, profile = target(out), profiles[position]
        info.id, info.name = profile.id, profile.name
        info.sliceCount, info.instanceCount = profile.slices, profile.limit
        info.multiprocessorCount, info.memorySizeMB = profile.sms, profile.memory
        info.copyEngineCount = info.decoderCount = info.jpegCount = profile.slices
        info.encoderCount, info.ofaCount = 0, profile.ofa
        return SUCCESS

    def _profile(self, handle: Any, profile: Any) -> Profile:
        return next(each for each in self.gpu(handle).profiles if each.id == number(profile))

    def c_nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        self, handle: Any, profile: Any, placements: Any, count: Any
    ) -> int:
        found = self._profile(handle, profile)
        if placements is not None:
            for row, start in zip(placements, found.starts, strict=True):
                row.start, row.size = start, found.size
        return put(count, len(found.starts))

    def c_nvmlDeviceCreateGpuInstanceWithPlacement(
        self, handle: Any, profile: Any, placement: Any, out: Any
    ) -> int:
        gpu, found, wanted = self.gpu(handle), self._profile(handle, profile), target(placement)
        if not gpu.mig[0]:
            return NOT_SUPPORTED
        if wanted.start not in found.starts or wanted.size != found.size:
            return INVALID_ARGUMENT
        for other, start, _ in gpu.instances.values():
            if start < wanted.start + found.size and wanted.start < start + other.size:
                return INSUFFICIENT_RESOURCES
            if other.ofa and found.ofa and found.slices == 1:
                return INSUFFICIENT_RESOURCES
        number_of = next(each for each in range(1, 20) if each not in gpu.instances)
        gpu.instances[number_of] = [found, wanted.start, None]
        return put_handle(out, _GI | self.gpus.index(gpu) << 16 | number_of)

    def _gpu_instance(self, handle: Any) -> tuple[FakeGpu, int]:
        value = address(handle)
        assert value & ~0xFFFFFFFF == _GI, "not a handle of a GPU instance"
        return self.gpus[value >> 16 & 0xFF], value & 0xFFFF

    def c_nvmlGpuInstanceGetInfo(self, handle: Any, out: Any) -> int:
        gpu, number_of = self._gpu_instance(handle)
        if number_of not in gpu.instances:
            return NOT_FOUND
        profile, start, _ = gpu.instances[number_of]
        info = target(out)
        info.id, info.profileId = number_of, profile.id
        info.placement.start, info.placement.size = start, profile.size
        return SUCCESS

    def c_nvmlDeviceGetGpuInstances(
        self, handle: Any, profile: Any, instances: Any, count: Any
    ) -> int:
        gpu = self.gpu(handle)
        found = [
            each for each, (known, _, _) in gpu.instances.items() if known.id == number(profile)
        ]
        for position, each in enumerate(found):
            instances[position] = _GI | self.gpus.index(gpu) << 16 | each
        return put(count, len(found))

    def c_nvmlDeviceGetGpuInstanceById(self, handle: Any, number_of: Any, out: Any) -> int:
        gpu = self.gpu(handle)
        if number(number_of) not in gpu.instances:
            return NOT_FOUND
        return put_handle(out, _GI | self.gpus.index(gpu) << 16 | number(number_of))

    def c_nvmlGpuInstanceDestroy(self, handle: Any) -> int:
        gpu, number_of = self._gpu_instance(handle)
        if gpu.instances[number_of][2] is not None:
            return IN_USE
        del gpu.instances[number_of]
        return SUCCESS

    def c_nvmlGpuInstanceGetComputeInstanceProfileInfoV(
        self, handle: Any, index: Any, _engines: Any, out: Any
    ) -> int:
        gpu, number_of = self._gpu_instance(handle)
        sizes = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 7: 1}
        slices = sizes.get(number(index))
        profile = gpu.instances[number_of][0]
        if slices is None or slices > profile.slices:
            return NOT_SUPPORTED
        info = target(out)
        info.id, info.sliceCount = number(index), slices
        info.multiprocessorCount = profile.sms if slices == profile.slices else 16 * slices
        return SUCCESS

    def c_nvmlGpuInstanceCreateComputeInstance(self, handle: Any, profile: Any, out: Any) -> int:
        gpu, number_of = self._gpu_instance(handle)
        if gpu.instances[number_of][2] is not None:
            return INSUFFICIENT_RESOURCES
        sizes = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7, 7: 1}
        assert sizes[number(profile)] == gpu.instances[number_of][0].slices
        gpu.instances[number_of][2] = 0
        return put_handle(out, _CI | self.gpus.index(gpu) << 16 | number_of)

    def c_nvmlGpuInstanceGetComputeInstanceById(self, handle: Any, compute: Any, out: Any) -> int:
        gpu, number_of = self._gpu_instance(handle)
        if gpu.instances[number_of][2] != number(compute):
            return NOT_FOUND
        return put_handle(out, _CI | self.gpus.index(gpu) << 16 | number_of)

    def c_nvmlComputeInstanceDestroy(self, handle: Any) -> int:
        value = address(handle)
        assert value & ~0xFFFFFFFF == _CI, "not a handle of a compute instance"
        gpu, number_of = self.gpus[value >> 16 & 0xFF], value & 0xFFFF
        if any(each.gpu_instance == number_of for each in gpu.processes):
            return IN_USE
        gpu.instances[number_of][2] = None
        return SUCCESS

    def c_nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, out: Any) -> int:
        return put(out, 7 if self.gpu(handle).profiles and self.gpu(handle).mig[0] else 0)

    def c_nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, out: Any) -> int:
        gpu, position = self.gpu(handle), number(index)
        if position >= len(gpu.complete):
            return NOT_FOUND
        return put_handle(out, _MIG | self.gpus.index(gpu) << 16 | gpu.complete[position])

    def _mig_device(self, handle: Any) -> tuple[FakeGpu, int] | None:
        value = address(handle)
        if value & ~0xFFFFFFFF != _MIG:
            return None
        return self.gpus[value >> 16 & 0xFF], value & 0xFFFF

    def c_nvmlDeviceGetGpuInstanceId(self, handle: Any, out: Any) -> int:
        found = self._mig_device(handle)
        return INVALID_ARGUMENT if found is None else put(out, found[1])

    def c_nvmlDeviceGetComputeInstanceId(self, handle: Any, out: Any) -> int:
        found = self._mig_device(handle)
        return INVALID_ARGUMENT if found is None else put(out, 0)

    def c_nvmlDeviceGetComputeMode(self, handle: Any, out: Any) -> int:
        return self.read(handle, "compute_mode", out)

    def c_nvmlDeviceSetComputeMode(self, handle: Any, mode: Any) -> int:
        gpu = self.gpu(handle)
        if isinstance(gpu.compute_mode, Code):
            return gpu.compute_mode.code
        gpu.compute_mode = number(mode)
        return SUCCESS
