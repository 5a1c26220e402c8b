from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetClusterRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Cluster(_message.Message):
    __slots__ = ("nodes", "gpus", "free_gpus", "unhealthy_gpus")
    NODES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    FREE_GPUS_FIELD_NUMBER: _ClassVar[int]
    UNHEALTHY_GPUS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    gpus: int
    free_gpus: int
    unhealthy_gpus: int
    def __init__(self, nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., gpus: _Optional[int] = ..., free_gpus: _Optional[int] = ..., unhealthy_gpus: _Optional[int] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("node", "domains", "free_gpus", "gpus", "links")
    class DomainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    FREE_GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    node: str
    domains: _containers.ScalarMap[str, str]
    free_gpus: int
    gpus: _containers.RepeatedCompositeFieldContainer[Gpu]
    links: _containers.RepeatedCompositeFieldContainer[Link]
    def __init__(self, node: _Optional[str] = ..., domains: _Optional[_Mapping[str, str]] = ..., free_gpus: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[Gpu, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[Link, _Mapping]]] = ...) -> None: ...

class Gpu(_message.Message):
    __slots__ = ("index", "healthy", "free_milli", "uuid", "pci", "product", "memory_mib", "architecture", "numa", "pcie_switch", "port_gbps", "reason", "mig_enabled", "occupied_slices", "instances")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_FIELD_NUMBER: _ClassVar[int]
    FREE_MILLI_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    PCI_FIELD_NUMBER: _ClassVar[int]
    PRODUCT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    NUMA_FIELD_NUMBER: _ClassVar[int]
    PCIE_SWITCH_FIELD_NUMBER: _ClassVar[int]
    PORT_GBPS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MIG_ENABLED_FIELD_NUMBER: _ClassVar[int]
    OCCUPIED_SLICES_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    index: int
    healthy: bool
    free_milli: int
    uuid: str
    pci: str
    product: str
    memory_mib: int
    architecture: str
    numa: int
    pcie_switch: str
    port_gbps: int
    reason: str
    mig_enabled: bool
    occupied_slices: _containers.RepeatedScalarFieldContainer[int]
    instances: _containers.RepeatedCompositeFieldContainer[Instance]
    def __init__(self, index: _Optional[int] = ..., healthy: _Optional[bool] = ..., free_milli: _Optional[int] = ..., uuid: _Optional[str] = ..., pci: _Optional[str] = ..., product: _Optional[str] = ..., memory_mib: _Optional[int] = ..., architecture: _Optional[str] = ..., numa: _Optional[int] = ..., pcie_switch: _Optional[str] = ..., port_gbps: _Optional[int] = ..., reason: _Optional[str] = ..., mig_enabled: _Optional[bool] = ..., occupied_slices: _Optional[_Iterable[int]] = ..., instances: _Optional[_Iterable[_Union[Instance, _Mapping]]] = ...) -> None: ...

class Instance(_message.Message):
    __slots__ = ("uuid", "profile", "start")
    UUID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    profile: str
    start: int
    def __init__(self, uuid: _Optional[str] = ..., profile: _Optional[str] = ..., start: _Optional[int] = ...) -> None: ...

class Link(_message.Message):
    __slots__ = ("first", "second", "gbps")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    GBPS_FIELD_NUMBER: _ClassVar[int]
    first: int
    second: int
    gbps: int
    def __init__(self, first: _Optional[int] = ..., second: _Optional[int] = ..., gbps: _Optional[int] = ...) -> None: ...

class FindBestSetRequest(_message.Message):
    __slots__ = ("gpus", "preference", "models", "architecture", "min_memory_mib", "min_bandwidth_gbps", "profile", "per_node")
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PREFERENCE_FIELD_NUMBER: _ClassVar[int]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    MIN_MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    MIN_BANDWIDTH_GBPS_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PER_NODE_FIELD_NUMBER: _ClassVar[int]
    gpus: int
    preference: str
    models: _containers.RepeatedScalarFieldContainer[str]
    architecture: str
    min_memory_mib: int
    min_bandwidth_gbps: int
    profile: str
    per_node: int
    def __init__(self, gpus: _Optional[int] = ..., preference: _Optional[str] = ..., models: _Optional[_Iterable[str]] = ..., architecture: _Optional[str] = ..., min_memory_mib: _Optional[int] = ..., min_bandwidth_gbps: _Optional[int] = ..., profile: _Optional[str] = ..., per_node: _Optional[int] = ...) -> None: ...

class BestSet(_message.Message):
    __slots__ = ("sets", "reason")
    SETS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    sets: _containers.RepeatedCompositeFieldContainer[ChosenSet]
    reason: str
    def __init__(self, sets: _Optional[_Iterable[_Union[ChosenSet, _Mapping]]] = ..., reason: _Optional[str] = ...) -> None: ...

class ChosenSet(_message.Message):
    __slots__ = ("node", "gpus", "uuids", "score", "bandwidth_gbps", "starts")
    NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    UUIDS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_GBPS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    node: str
    gpus: _containers.RepeatedScalarFieldContainer[int]
    uuids: _containers.RepeatedScalarFieldContainer[str]
    score: float
    bandwidth_gbps: float
    starts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[str] = ..., gpus: _Optional[_Iterable[int]] = ..., uuids: _Optional[_Iterable[str]] = ..., score: _Optional[float] = ..., bandwidth_gbps: _Optional[float] = ..., starts: _Optional[_Iterable[int]] = ...) -> None: ...
