"""The demo of `kilonova up`: what it is for, to be seen at once.

It is in the files of `demo/`: an inference service, work that queues, and a gang that cannot run.
It is applied once for each data folder; a ConfigMap remembers that, so that what people delete
stays deleted. The ConfigMap comes last: a start that was cut short applies everything again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kilonova.api.json import JsonObject
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.resource import plain

_FOLDER = Path(__file__).with_name("demo")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MARK = "kilonova-demo"
_REPLICAS_IN_LARGE = {"chat": 20, "pretrain": 60}
"""So that 2,000 machines have something to do."""
_CONFIG_MAPS = plain("", "v1", "configmaps", "ConfigMap", True)
_SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
_RESOURCES = {
    each.kind: each
    for each in (
        _SETS,
        plain("", "v1", "namespaces", "Namespace", False),
        plain("batch", "v1", "jobs", "Job", True),
        plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False),
        plain("grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", False),
    )
}


async def set_up_demo(client: Client, fleet: str) -> None:
    """Apply the demo, unless that was done on this data before; a large fleet has more of it."""
    if await _exists(client, _CONFIG_MAPS, _MARK, "kube-system"):
        return
    for body in _manifests():
        metadata = body["metadata"]
        resource = _RESOURCES[body["kind"]]
        if fleet == "large" and metadata["name"] in _REPLICAS_IN_LARGE:
            body["spec"]["replicas"] = _REPLICAS_IN_LARGE[metadata["name"]]
        await client.apply(resource, metadata["name"], body, metadata.get("namespace"))
    await client.create(_CONFIG_MAPS, {"metadata": {"name": _MARK}}, "kube-system")


async def is_demo_there(client: Client) -> bool:
    """Whether the gang that cannot run has not been deleted."""
    return await _exists(client, _SETS, "frontier", "demo")


def _manifests() -> Iterator[JsonObject]:
    for file in sorted(_FOLDER.glob("*.yaml")):
        yield from yaml.load_all(file.read_text(), _LOADER)


async def _exists(client: Client, resource: Resource[Any], name: str, namespace: str) -> bool:
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return False
    return True
