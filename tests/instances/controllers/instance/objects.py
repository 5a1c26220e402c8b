"""Small objects for the pure functions of the controller."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kilonova.api.podgang import PodGang
from kilonova.instances.controllers.instance.observed import ObservedAllocation
from kilonova.instances.controllers.instance.record import AllocationRecord
from kilonova.instances.resources import Node, Pod

CREATED = "2026-05-01T00:00:00Z"


def metadata(name: str, **fields: Any) -> Any:
    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": CREATED,
        **fields,
    }


def condition(type_: str, status: str = "True", **fields: Any) -> Any:
    return {"type": type_, "status": status, "lastTransitionTime": CREATED, **fields}


def pod(
    name: str = "llama-agent-0",
    *,
    node: str = "n1",
    ready: bool | None = None,
    annotations: Any = None,
    deleted: bool = False,
    tolerations: Any = (),
    **status: Any,
) -> Pod:
    """A pod that is ready, unless it has no node."""
    is_ready = bool(node) if ready is None else ready
    conditions = [condition("PodScheduled")] if node else []
    conditions.append(condition("Ready", "True" if is_ready else "False"))
    stamp = {"deletionTimestamp": CREATED} if deleted else {}
    body = {
        "metadata": metadata(name, annotations=annotations or {}, **stamp),
        "spec": {"nodeName": node, "tolerations": tolerations},
        "status": {"phase": "Running" if node else "Pending", "conditions": conditions, **status},
    }
    return msgspec.convert(body, Pod)


def node(
    name: str = "n1",
    *,
    ready: str = "True",
    labels: Mapping[str, str] | None = None,
    annotations: Any = None,
    deleted: bool = False,
    **spec: Any,
) -> Node:
    stamp = {"deletionTimestamp": CREATED} if deleted else {}
    body = {
        "metadata": metadata(name, labels=labels or {}, annotations=annotations or {}, **stamp),
        "spec": spec,
        "status": {"conditions": [condition("Ready", ready)]},
    }
    return msgspec.convert(body, Node)


def nodes(*known: Node) -> Callable[[str], Node | None]:
    by_name = {each.metadata.name: each for each in known}
    return by_name.get


def allocation(
    record: AllocationRecord,
    *pods: Pod,
    allocated: bool = True,
    created: bool = True,
) -> ObservedAllocation:
    """An allocation whose pods have all been created, and have had a node."""
    status = {
        "conditions": [condition("Initialized", observedGeneration=3)] if created else [],
        **({"lastScheduled": CREATED} if allocated else {}),
    }
    body = {
        "metadata": metadata("iei-llama", generation=3),
        "spec": {"podgroups": []},
        "status": status,
    }
    gang = msgspec.convert(body, PodGang)
    return ObservedAllocation(0, gang, record, {each.metadata.name: each for each in pods})
