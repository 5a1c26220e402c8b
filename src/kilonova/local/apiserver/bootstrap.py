"""The objects that every cluster has from its start: namespaces, roles, priorities, CRDs."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, NotFound, Resource
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.auth.rbac.default_roles import (
    default_objects,
    is_protected,
    reconciling_patch,
)
from kilonova.local.apiserver.customresources import trust_definition

_NAMESPACES = unstructured_resource("", "v1", "namespaces", "Namespace", False)
_CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
_SERVICES = unstructured_resource("", "v1", "services", "Service", True)
_PRIORITY_CLASSES = unstructured_resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
)
_ROLES = tuple(
    unstructured_resource(
        "rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, not kind.startswith("C")
    )
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
)
_CRDS = unstructured_resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
_CRD_DIGEST_ANNOTATION = "kilonova.dev/definition-digest"
"""The digest of a definition as it was last installed here."""


async def create_default_objects(client: Client, url: str, service_address: str) -> None:
    """Create what is missing: namespaces, the API's Service, the two highest priorities."""
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        await _create_if_missing(client, _NAMESPACES, {"metadata": {"name": name}}, None)
    labels = {"component": "apiserver", "provider": "kubernetes"}
    target = urlsplit(url).port or 443
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": target}
    service = {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"type": "ClusterIP", "clusterIP": service_address, "ports": [port]},
    }
    await _create_if_missing(client, _SERVICES, service, "default")
    # The API may listen on another port than at the last start.
    await client.patch(_SERVICES, "kubernetes", {"spec": {"ports": [port]}}, "default")
    for name, value, text in (
        (
            "system-cluster-critical",
            2_000_000_000,
            "For pods that the cluster needs, on any node.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "For pods that their node needs.",
        ),
    ):
        await _create_if_missing(
            client,
            _PRIORITY_CLASSES,
            {"metadata": {"name": name}, "value": value, "description": text},
            None,
        )


async def install_crds(client: Client, definitions: Iterable[JsonObject]) -> None:
    """Install these CRDs; one that is installed already and unchanged costs one read.

    They are trusted, not validated: definitions shipped with a program were validated when it was
    built.
    """
    for definition in definitions:
        name: str = definition["metadata"]["name"]
        digest = sha256(msgspec.json.encode(definition)).hexdigest()
        try:
            found = await client.get(_CRDS, name)
        except NotFound:
            found = None
        if (
            nested_object(found or {}, "metadata", "annotations").get(_CRD_DIGEST_ANNOTATION)
            != digest
        ):
            known = definition["metadata"]
            annotations = {**known.get("annotations", {}), _CRD_DIGEST_ANNOTATION: digest}
            trust_definition(definition)
            body = {**definition, "metadata": {**known, "annotations": annotations}}
            await client.apply(_CRDS, name, body)


async def create_metrics_reader_role(client: Client) -> None:
    """Create the role that adds the metrics of pods and nodes to `view`, `edit` and `admin`."""
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    labels = {f"{aggregate}{name}": "true" for name in ("view", "edit", "admin")}
    rule = {
        "apiGroups": ["metrics.k8s.io"],
        "resources": ["pods", "nodes"],
        "verbs": ["get", "list"],
    }
    role: JsonObject = {
        "metadata": {"name": "system:aggregated-metrics-reader", "labels": labels},
        "rules": [rule],
    }
    await _create_if_missing(client, _ROLES[0], role, None)


async def publish_authentication_config(client: Client, authority: str, now: datetime) -> None:
    """Create the ConfigMaps about client certificates and legacy tokens that Kubernetes programs
    read.

    `authority` is the CA of client certificates, which aggregated API servers trust as well. The
    use of legacy tokens (in Secrets) is tracked since the first start.
    """
    for name, data in (
        ("extension-apiserver-authentication", {"client-ca-file": authority}),
        (
            "kube-apiserver-legacy-service-account-token-tracking",
            {"since": now.date().isoformat()},
        ),
    ):
        config = {"metadata": {"name": name, "namespace": "kube-system"}, "data": data}
        await _create_if_missing(client, _CONFIG_MAPS, config, "kube-system")


async def reconcile_default_roles(client: Client) -> None:
    """Bring the default roles and bindings up to date, in one commit where possible.

    In a new store, `store_default_roles` writes them without requests.
    """
    defaults = default_objects()
    for resource in _ROLES:
        stored = {_object_key(obj): obj for obj in (await client.list(resource)).items}
        await asyncio.gather(
            *(
                _reconcile(client, resource, stored.get(_object_key(wanted)), wanted)
                for wanted in defaults[resource.plural]
            )
        )


async def _reconcile(
    client: Client, resource: Resource[JsonObject], live: JsonObject | None, default: JsonObject
) -> None:
    namespace, name = _object_key(default)
    where = namespace or None
    if live is not None and is_protected(live):
        return
    if live is not None and live.get("roleRef") != default.get("roleRef"):
        # roleRef is immutable: a binding to another role is deleted and created again.
        await client.delete(resource, name, where, uid=live["metadata"]["uid"])
        live = None
    if live is None:
        await _create_if_missing(client, resource, default, where)
    elif patch := reconciling_patch(live, default):
        await client.patch(resource, name, patch, where)


def _object_key(obj: JsonObject) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _create_if_missing(
    client: Client, resource: Resource[JsonObject], obj: JsonObject, namespace: str | None
) -> None:
    try:
        await client.create(resource, obj, namespace)
    except AlreadyExists:
        return
