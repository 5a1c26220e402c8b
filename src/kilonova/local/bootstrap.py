"""The objects that every cluster has from its first moment."""

from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, Resource
from kilonova.kube.resource import plain

_NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)
_SERVICES = plain("", "v1", "services", "Service", True)
_CLASSES = plain("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)


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


async def _ensure(
    client: Client, resource: Resource[JsonObject], obj: JsonObject, namespace: str | None
) -> None:
    try:
        await client.create(resource, obj, namespace)
    except AlreadyExists:
        return
