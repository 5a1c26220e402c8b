"""The demo workloads of `kilonova up`, from the manifests in `demo/`.

A model on simulated GPUs, jobs in a queue, a gang that cannot be scheduled, and an inference
service on this machine. They are applied once per data directory; a ConfigMap records that, so that
deleted objects are not created again. The ConfigMap is created last: after an interrupted start
everything is applied again.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kilonova.api.json import JsonObject
from kilonova.cli.up.welcome import Demo
from kilonova.kube import Client, KubeError, NotFound, Request, Resource
from kilonova.kube.client.resource import unstructured_resource

DEMO = Path(__file__).with_name("demo")
"""The manifests of the demo of one cluster."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NEEDED_COMPONENTS = {"4-serving.yaml": frozenset({"serving", "process-node"})}
"""Components without which a manifest is left out."""
_MARKER_NAME = "kilonova-demo"
_REPLICAS_IN_LARGE = {"chat": 20, "pretrain": 60}
"""More replicas, to put load on 2,000 nodes."""
_CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
_SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
_SERVICES = unstructured_resource(
    "serving.kilonova.dev", "v1alpha1", "inferenceservices", "InferenceService", True
)


class _ApiResource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool


class _ApiResourceList(msgspec.Struct):
    resources: list[_ApiResource]


async def set_up_demo(
    client: Client, fleet: str, components: Collection[str], manifests: Path = DEMO
) -> None:
    """Apply the demo, unless this data directory has had it; a large fleet gets more replicas.

    What needs a component that is not among `components` is left out.
    """
    if await _exists(client, _CONFIG_MAPS, _MARKER_NAME, "kube-system"):
        return
    found: dict[str, Resource[Any]] = {}
    for body in _read_manifests(manifests, components):
        metadata = body["metadata"]
        kind = f"{body['apiVersion']}/{body['kind']}"
        if kind not in found:
            found[kind] = await _find_resource(client, body["apiVersion"], body["kind"])
        resource = found[kind]
        if fleet == "large" and metadata["name"] in _REPLICAS_IN_LARGE:
            body["spec"]["replicas"] = _REPLICAS_IN_LARGE[metadata["name"]]
        await client.apply(resource, metadata["name"], body, metadata.get("namespace"))
    await client.create(_CONFIG_MAPS, {"metadata": {"name": _MARKER_NAME}}, "kube-system")


async def find_demo(client: Client) -> Demo:
    """What there is of the demo."""
    return Demo(
        gang=await _exists(client, _SETS, "frontier", "demo"),
        service=await _exists(client, _SERVICES, "assistant", "demo"),
    )


async def _find_resource(client: Client, api_version: str, kind: str) -> Resource[Any]:
    """The resource of a kind, by discovery; `KubeError` if it is not served."""
    group, _, version = api_version.rpartition("/")
    path = f"/apis/{api_version}" if group else f"/api/{version}"
    reply = await client.send(Request("GET", path))
    for each in msgspec.json.decode(reply.body, type=_ApiResourceList).resources:
        if each.kind == kind and "/" not in each.name:
            return unstructured_resource(group, version, each.name, kind, each.namespaced)
    raise KubeError(f"{api_version} has no kind {kind}")


def _read_manifests(folder: Path, components: Collection[str]) -> Iterator[JsonObject]:
    for file in sorted(folder.glob("*.yaml")):
        if _NEEDED_COMPONENTS.get(file.name, frozenset()) <= {*components}:
            yield from yaml.load_all(file.read_text(), _LOADER)


async def _exists(client: Client, resource: Resource[Any], name: str, namespace: str) -> bool:
    try:
        await client.get(resource, name, namespace)
    except NotFound:
        return False
    return True
