"""The objects of the hub: caches of its three kinds, and one view of all of them."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from kilonova.api.fleet import Cluster, ClusterSpec, ClusterStatus
from kilonova.api.inference_engine import (
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    EngineSpec,
    Release,
    ReleaseStatus,
)
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.fleet.documents import SavedObject
from kilonova.fleet.manager.resources import CLUSTERS, DEPLOYMENTS, RELEASES
from kilonova.fleet.planning.model import ObjectKind
from kilonova.kube import NO_RUNTIME_METRICS, Client, Reflector, Runnable, RuntimeMetrics

HubObject: TypeAlias = Cluster | Deployment | Release
Status: TypeAlias = ClusterStatus | DeploymentStatus | ReleaseStatus

SAVED_HASH = "fleet.kilonova.dev/saved-spec"
"""Annotation: the hash of the spec that this hub and the store last had in common."""
FINALIZER = "fleet.kilonova.dev/manager"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SPEC_TYPES: dict[ObjectKind, type[Any]] = {
    "Cluster": ClusterSpec,
    "Deployment": DeploymentSpec,
    "Release": EngineSpec,
}
_STATUS_TYPES: dict[ObjectKind, type[Any]] = {
    "Cluster": ClusterStatus,
    "Deployment": DeploymentStatus,
    "Release": ReleaseStatus,
}
_OBJECT_TYPES: dict[ObjectKind, type[Any]] = {
    "Cluster": Cluster,
    "Deployment": Deployment,
    "Release": Release,
}


class ObjectId(NamedTuple):
    """The kind, namespace and name of an object of the hub."""

    kind: ObjectKind
    namespace: str
    name: str

    def __str__(self) -> str:
        return " ".join((self.kind, "/".join(filter(None, (self.namespace, self.name)))))


@dataclass(frozen=True, slots=True)
class Hub:
    """The caches. Run `runnables` before the manager."""

    clusters: Reflector[Cluster]
    deployments: Reflector[Deployment]
    releases: Reflector[Release]

    @property
    def runnables(self) -> list[Runnable]:
        """All caches."""
        return [self.clusters, self.deployments, self.releases]

    @property
    def has_synced(self) -> bool:
        """Whether all objects have been read once."""
        return all(each.has_synced for each in (self.clusters, self.deployments, self.releases))

    async def wait_for_sync(self) -> None:
        """Wait until all objects have been read once."""
        for each in (self.clusters, self.deployments, self.releases):
            await each.wait_for_sync()

    def list_objects(self) -> Iterator[tuple[ObjectId, HubObject]]:
        """All objects with their ids."""
        for cluster in self.clusters.store.objects():
            yield ObjectId("Cluster", "", cluster.metadata.name), cluster
        for deployment in self.deployments.store.objects():
            metadata = deployment.metadata
            yield ObjectId("Deployment", metadata.namespace, metadata.name), deployment
        for release in self.releases.store.objects():
            metadata = release.metadata
            yield ObjectId("Release", metadata.namespace, metadata.name), release


def build_hub(client: Client, runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS) -> Hub:
    """Build the caches over a client of the hub."""
    return Hub(
        Reflector(client, CLUSTERS, runtime_metrics=runtime_metrics),
        Reflector(client, DEPLOYMENTS, runtime_metrics=runtime_metrics),
        Reflector(client, RELEASES, runtime_metrics=runtime_metrics),
    )


def encode_spec(found: HubObject) -> JsonObject:
    """The spec as JSON, without what has its default: one hub sets defaults where another has
    nothing, and both mean the same."""
    return cast("JsonObject", _encode(found.spec))


def _encode(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return {
            each.encode_name: _encode(field)
            for each in fields
            if (field := getattr(value, each.name)) != _get_default(each)
        }
    if isinstance(value, tuple):
        return [_encode(each) for each in cast("tuple[Any, ...]", value)]
    return msgspec.to_builtins(value)


def _get_default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def hash_spec(spec: JsonObject) -> str:
    """A short hash of a spec."""
    return hashlib.sha256(msgspec.json.encode(spec, order="deterministic")).hexdigest()[:16]


def select_annotations(metadata: Metadata) -> dict[str, str]:
    """The annotations that another hub should have, too."""
    return {
        key: value
        for key, value in metadata.annotations.items()
        if key not in (SAVED_HASH, _LAST_APPLIED)
    }


def decode_saved(saved: SavedObject) -> tuple[ObjectId, HubObject]:
    """The object that was saved. Raises `msgspec.ValidationError`."""
    kind = _to_kind(saved.kind)
    metadata = Metadata(
        saved.name,
        "",
        "",
        namespace=saved.namespace,
        labels=saved.labels,
        annotations=saved.annotations,
    )
    spec = msgspec.convert(saved.spec, _SPEC_TYPES[kind])
    found: HubObject = _OBJECT_TYPES[kind](metadata, spec, decode_status(kind, saved.state))
    return ObjectId(kind, saved.namespace, saved.name), found


def decode_status(kind: ObjectKind, state: JsonObject) -> Status:
    """The saved status of an object. Raises `msgspec.ValidationError`."""
    return msgspec.convert(state, _STATUS_TYPES[kind])


def id_of(saved: SavedObject) -> ObjectId:
    """The id of a saved object."""
    return ObjectId(_to_kind(saved.kind), saved.namespace, saved.name)


def _to_kind(text: str) -> ObjectKind:
    for kind in _SPEC_TYPES:
        if kind == text:
            return kind
    raise msgspec.ValidationError(f"kind {text!r} is none of {', '.join(_SPEC_TYPES)}")
