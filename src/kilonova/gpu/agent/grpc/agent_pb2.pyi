from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetTopologyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Topology(_message.Message):
    __slots__ = ("node", "driver_version", "cuda_version", "backend", "devices", "paths")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DRIVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    CUDA_VERSION_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    node: str
    driver_version: str
    cuda_version: str
    backend: str
    devices: _containers.RepeatedCompositeFieldContainer[Device]
    paths: _containers.RepeatedCompositeFieldContainer[Path]
    def __init__(self, node: _Optional[str] = ..., driver_version: _Optional[str] = ..., cuda_version: _Optional[str] = ..., backend: _Optional[str] = ..., devices: _Optional[_Iterable[_Union[Device, _Mapping]]] = ..., paths: _Optional[_Iterable[_Union[Path, _Mapping]]] = ...) -> None: ...

class Device(_message.Message):
    __slots__ = ("index", "uuid", "pci", "product", "architecture", "memory_mib", "sms", "numa", "pcie_switch", "mig_capable", "mig_enabled", "clique")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    PCI_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    SMS_FIELD_NUMBER: _ClassVar[int]
    NUMA_FIELD_NUMBER: _ClassVar[int]
    PCIE_SWITCH_FIELD_NUMBER: _ClassVar[int]
    MIG_CAPABLE_FIELD_NUMBER: _ClassVar[int]
    MIG_ENABLED_FIELD_NUMBER: _ClassVar[int]
    CLIQUE_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    pci: str
    product: str
    architecture: str
    memory_mib: int
    sms: int
    numa: int
    pcie_switch: str
    mig_capable: bool
    mig_enabled: bool
    clique: str
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., pci: _Optional[str] = ..., product: _Optional[str] = ..., architecture: _Optional[str] = ..., memory_mib: _Optional[int] = ..., sms: _Optional[int] = ..., numa: _Optional[int] = ..., pcie_switch: _Optional[str] = ..., mig_capable: _Optional[bool] = ..., mig_enabled: _Optional[bool] = ..., clique: _Optional[str] = ...) -> None: ...

class Path(_message.Message):
    __slots__ = ("first", "second", "kind", "nvlinks", "bandwidth", "switched")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NVLINKS_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_FIELD_NUMBER: _ClassVar[int]
    SWITCHED_FIELD_NUMBER: _ClassVar[int]
    first: int
    second: int
    kind: str
    nvlinks: int
    bandwidth: int
    switched: bool
    def __init__(self, first: _Optional[int] = ..., second: _Optional[int] = ..., kind: _Optional[str] = ..., nvlinks: _Optional[int] = ..., bandwidth: _Optional[int] = ..., switched: _Optional[bool] = ...) -> None: ...

class GetHealthRequest(_message.Message):
    __slots__ = ("watch",)
    WATCH_FIELD_NUMBER: _ClassVar[int]
    watch: bool
    def __init__(self, watch: _Optional[bool] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("node", "devices")
    NODE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    node: str
    devices: _containers.RepeatedCompositeFieldContainer[DeviceHealth]
    def __init__(self, node: _Optional[str] = ..., devices: _Optional[_Iterable[_Union[DeviceHealth, _Mapping]]] = ...) -> None: ...

class DeviceHealth(_message.Message):
    __slots__ = ("index", "uuid", "state", "reasons", "recovery", "phase", "since", "xid")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    XID_FIELD_NUMBER: _ClassVar[int]
    index: int
    uuid: str
    state: str
    reasons: _containers.RepeatedScalarFieldContainer[str]
    recovery: str
    phase: str
    since: str
    xid: int
    def __init__(self, index: _Optional[int] = ..., uuid: _Optional[str] = ..., state: _Optional[str] = ..., reasons: _Optional[_Iterable[str]] = ..., recovery: _Optional[str] = ..., phase: _Optional[str] = ..., since: _Optional[str] = ..., xid: _Optional[int] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Partitions(_message.Message):
    __slots__ = ("node", "partitions")
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    node: str
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, node: _Optional[str] = ..., partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("uuid", "device_uuid", "device_index", "profile", "start", "memory_mib", "sms", "state", "holder")
    UUID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_UUID_FIELD_NUMBER: _ClassVar[int]
    DEVICE_INDEX_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    SMS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    device_uuid: str
    device_index: int
    profile: str
    start: int
    memory_mib: int
    sms: int
    state: str
    holder: str
    def __init__(self, uuid: _Optional[str] = ..., device_uuid: _Optional[str] = ..., device_index: _Optional[int] = ..., profile: _Optional[str] = ..., start: _Optional[int] = ..., memory_mib: _Optional[int] = ..., sms: _Optional[int] = ..., state: _Optional[str] = ..., holder: _Optional[str] = ...) -> None: ...

class StreamTelemetryRequest(_message.Message):
    __slots__ = ("window_seconds",)
    WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    window_seconds: float
    def __init__(self, window_seconds: _Optional[float] = ...) -> None: ...

class TelemetryWindow(_message.Message):
    __slots__ = ("node", "start", "end", "devices")
    NODE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    node: str
    start: float
    end: float
    devices: _containers.RepeatedCompositeFieldContainer[DeviceWindow]
    def __init__(self, node: _Optional[str] = ..., start: _Optional[float] = ..., end: _Optional[float] = ..., devices: _Optional[_Iterable[_Union[DeviceWindow, _Mapping]]] = ...) -> None: ...

class DeviceWindow(_message.Message):
    __slots__ = ("device_uuid", "instance_uuid", "samples", "last_xid", "quantities")
    class QuantitiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Aggregate
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Aggregate, _Mapping]] = ...) -> None: ...
    DEVICE_UUID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_UUID_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    LAST_XID_FIELD_NUMBER: _ClassVar[int]
    QUANTITIES_FIELD_NUMBER: _ClassVar[int]
    device_uuid: str
    instance_uuid: str
    samples: int
    last_xid: int
    quantities: _containers.MessageMap[str, Aggregate]
    def __init__(self, device_uuid: _Optional[str] = ..., instance_uuid: _Optional[str] = ..., samples: _Optional[int] = ..., last_xid: _Optional[int] = ..., quantities: _Optional[_Mapping[str, Aggregate]] = ...) -> None: ...

class Aggregate(_message.Message):
    __slots__ = ("min", "mean", "max", "last")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    min: float
    mean: float
    max: float
    last: float
    def __init__(self, min: _Optional[float] = ..., mean: _Optional[float] = ..., max: _Optional[float] = ..., last: _Optional[float] = ...) -> None: ...
