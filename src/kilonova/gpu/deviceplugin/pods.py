"""The pods of a node as the device plugin sees them: what their containers request of GPUs, and
what the scheduler assigned."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from kilonova.api.gpu.annotations import DEVICES
from kilonova.api.meta import Metadata
from kilonova.api.quantity import QuantityError, parse_quantity
from kilonova.gpu.deviceplugin.plugin_devices import is_gpu_resource
from kilonova.kube import Client, Resource

_ALWAYS = "Always"
_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


class ContainerKind(StrEnum):
    """When a container runs."""

    INIT = "Init"
    """Before the others, alone."""
    SIDECAR = "Sidecar"
    """From its turn among the init containers on."""
    MAIN = "Main"


class ContainerNeed(msgspec.Struct, frozen=True):
    """What a container requests of GPUs, by resource."""

    name: str
    amounts: Mapping[str, int]
    kind: ContainerKind = ContainerKind.MAIN


class NodePod(msgspec.Struct, frozen=True):
    """A pod that is bound to the node."""

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerNeed, ...]
    """In the order in which the kubelet allocates: init containers first."""
    devices: str | None = None
    """The annotation with the assigned devices; None if no scheduler assigned any."""
    created: str = ""
    is_terminal: bool = False
    """Whether it has ended: its devices are free."""

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}"


class PodSource(Protocol):
    """The pods that are bound to the node."""

    async def list_pods(self, *, fresh: bool) -> Sequence[NodePod]:
        """All of them. `fresh`: no older than this call; otherwise a cache may answer."""
        ...


class ApiPods:
    """A `PodSource` that asks the API server each time."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._selector = f"spec.nodeName={node}"

    async def list_pods(self, *, fresh: bool) -> Sequence[NodePod]:
        # Version 0 is whatever the API server's cache has.
        version = "" if fresh else "0"
        listing = await self._client.list(
            PODS, field_selector=self._selector, resource_version=version
        )
        return [convert_pod(each) for each in listing.items]


class _Resources(msgspec.Struct, frozen=True):
    limits: Mapping[str, str | int | float] = {}


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    resources: _Resources = _Resources()
    restart_policy: str | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class PluginPod(msgspec.Struct):
    """The fields of a pod that are used."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()


PODS = Resource("", "v1", "pods", "Pod", True, PluginPod)


def convert_pod(pod: PluginPod) -> NodePod:
    """A pod of the API as the device plugin sees it."""
    meta = pod.metadata
    return NodePod(
        meta.uid,
        meta.namespace,
        meta.name,
        tuple(_iter_needs(pod.spec)),
        meta.annotations.get(DEVICES),
        meta.creation_timestamp,
        pod.status.phase in _TERMINAL_PHASES,
    )


def _iter_needs(spec: _Spec) -> Iterator[ContainerNeed]:
    for each in spec.init_containers:
        kind = ContainerKind.SIDECAR if each.restart_policy == _ALWAYS else ContainerKind.INIT
        yield ContainerNeed(each.name, _gpu_amounts(each), kind)
    for each in spec.containers:
        yield ContainerNeed(each.name, _gpu_amounts(each))


def _gpu_amounts(container: _Container) -> Mapping[str, int]:
    amounts: dict[str, int] = {}
    for name, text in container.resources.limits.items():
        if is_gpu_resource(name):
            try:
                amount = parse_quantity(str(text)).value
            except QuantityError:
                continue  # the API server accepts none
            if amount > 0:
                amounts[name] = amount
    return amounts
