"""The API resources of the hub."""

from typing import Any

from kilonova.api import fleet
from kilonova.api import inference_engine as engine
from kilonova.fleet.planning.model import ObjectKind
from kilonova.kube import Resource

CLUSTERS = Resource(fleet.GROUP, fleet.VERSION, "clusters", "Cluster", False, fleet.Cluster)
DEPLOYMENTS = Resource(
    engine.GROUP, engine.VERSION, "deployments", "Deployment", True, engine.Deployment
)
RELEASES = Resource(engine.GROUP, engine.VERSION, "releases", "Release", True, engine.Release)
NAMESPACES: Resource[dict[str, Any]] = Resource("", "v1", "namespaces", "Namespace", False, dict)

RESOURCES: dict[ObjectKind, Resource[Any]] = {
    "Cluster": CLUSTERS,
    "Deployment": DEPLOYMENTS,
    "Release": RELEASES,
}
