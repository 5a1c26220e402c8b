"""The objects that every cluster has from its first moment."""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from urllib.parse import urlsplit

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, NotFound, Resource
from kilonova.kube.resource import plain
from kilonova.local.auth.rbac.defaults import default_objects, is_protected, reconciling_patch
from kilonova.local.customresources import vouch_for
from kilonova.local.kinds.walk import part

_NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)
_CONFIG_MAPS = plain("", "v1", "configmaps", "ConfigMap", True)
_SERVICES = plain("", "v1", "services", "Service", True)
_CLASSES = plain("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
_ROLES = tuple(
    plain("rbac.authorization.k8s.io", "v1", f"{kind.lower()}s", kind, not kind.startswith("C"))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
)
_DEFINITIONS = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
_DIGEST = "kilonova.dev/definition-digest"
"""Of a definition as it was last put here."""


async def create_default_objects(client: Client, url: str) -> None:
    """Create what is missing: namespaces, the API's Service, the two highest priorities."""
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        await _ensure(client, _NAMESPACES, {"metadata": {"name": name}}, None)
    labels = {"component": "apiserver", "provider": "kubernetes"}
    target = urlsplit(url).port or 443
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": target}
    service = {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "ports": [port]},
    }
    await _ensure(client, _SERVICES, service, "default")
    # The API may listen elsewhere than the last time.
    await client.patch(_SERVICES, "kubernetes", {"spec": {"ports": [port]}}, "default")
    for name, value, text in (
        (
            "system-cluster-critical",
            2_000_000_000,
            "For pods that the cluster cannot do without, on whichever node.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "For pods that their node cannot do without.",
        ),
    ):
        await _ensure(
            client,
            _CLASSES,
            {"metadata": {"name": name}, "value": value, "description": text},
            None,
        )


async def put_definitions(client: Client, definitions: Iterable[JsonObject]) -> None:
    """Serve these kinds; a definition that was put here before, and is the same, costs nothing.

    They are taken as good: whoever makes a program tests its definitions.
    """
    for definition in definitions:
        name: str = definition["metadata"]["name"]
        digest = sha256(msgspec.json.encode(definition)).hexdigest()
        try:
            found = await client.get(_DEFINITIONS, name)
        except NotFound:
            found = None
        if part(found or {}, "metadata", "annotations").get(_DIGEST) != digest:
            known = definition["metadata"]
            annotations = {**known.get("annotations", {}), _DIGEST: digest}
            vouch_for(definition)
            body = {**definition, "metadata": {**known, "annotations": annotations}}
            await client.apply(_DEFINITIONS, name, body)


async def let_viewers_see_usage(client: Client) -> None:
    """Create the role by which those who may view a namespace may also see what its pods use."""
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
    await _ensure(client, _ROLES[0], role, None)


async def tell_how_clients_are_known(client: Client, authority: str, now: datetime) -> None:
    """Create what programs of Kubernetes read about certificates and old tokens.

    `authority` is the certificate by which clients are known; servers beside this one trust it
    too. Tokens kept in Secrets have been looked at since the first start.
    """
    for name, data in (
        ("extension-apiserver-authentication", {"client-ca-file": authority}),
        (
            "kube-apiserver-legacy-service-account-token-tracking",
            {"since": now.date().isoformat()},
        ),
    ):
        config = {"metadata": {"name": name, "namespace": "kube-system"}, "data": data}
        await _ensure(client, _CONFIG_MAPS, config, "kube-system")


async def create_default_roles(client: Client) -> None:
    """Bring the default roles and bindings up to date, all in one commit where that can be."""
    defaults = default_objects()
    for resource in _ROLES:
        stored = {_key(obj): obj for obj in (await client.list(resource)).items}
        await asyncio.gather(
            *(
                _reconcile(client, resource, stored.get(_key(wanted)), wanted)
                for wanted in defaults[resource.plural]
            )
        )


async def _reconcile(
    client: Client, resource: Resource[JsonObject], live: JsonObject | None, wanted: JsonObject
) -> None:
    namespace, name = _key(wanted)
    where = namespace or None
    if live is not None and is_protected(live):
        return
    if live is not None and live.get("roleRef") != wanted.get("roleRef"):
        # A binding gives the same role all its life; what names another is no default.
        await client.delete(resource, name, where, uid=live["metadata"]["uid"])
        live = None
    if live is None:
        await _ensure(client, resource, wanted, where)
    elif patch := reconciling_patch(live, wanted):
        await client.patch(resource, name, patch, where)


def _key(obj: JsonObject) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _ensure(
    client: Client, resource: Resource[JsonObject], obj: JsonObject, namespace: str | None
) -> None:
    try:
        await client.create(resource, obj, namespace)
    except AlreadyExists:
        return
