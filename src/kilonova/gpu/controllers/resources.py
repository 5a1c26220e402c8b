"""The API resources that the controllers read and write."""

from typing import Any

import msgspec

from kilonova.api import kgwe
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.scheduler.objects.core_v1 import GANGS, NODES, PODS

__all__ = [
    "GANGS",
    "MIG_STRATEGIES",
    "NODES",
    "PODS",
    "PRIORITY_CLASSES",
    "SERVICES",
    "WORKLOADS",
    "ChildObject",
    "PriorityClass",
]


class ChildObject(msgspec.Struct, gc=False):
    """An object that is only compared with what it should be."""

    metadata: Metadata
    spec: dict[str, Any] = {}


class PriorityClass(msgspec.Struct, gc=False):
    """A PriorityClass."""

    metadata: Metadata
    value: int = 0


WORKLOADS = Resource(
    kgwe.GROUP, kgwe.VERSION, "gpuworkloads", "GPUWorkload", True, kgwe.GPUWorkload
)
MIG_STRATEGIES = Resource(
    kgwe.GROUP, kgwe.VERSION, "migstrategies", "MIGStrategy", False, kgwe.MIGStrategy
)
SERVICES = Resource("", "v1", "services", "Service", True, ChildObject)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClass
)
