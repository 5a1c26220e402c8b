"""The subresources that connect to pods, and what they read of the cluster."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import User
from kilonova.local.errors import ApiError, method_not_allowed
from kilonova.local.kubelets import Kubelets
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import key_of
from kilonova.local.routes import Target
from kilonova.local.streaming.proxy import Proxies
from kilonova.local.streaming.session import Upgrade

if TYPE_CHECKING:  # what speaks WebSocket and SPDY is imported when somebody does
    from kilonova.local.streaming.connections import PodConnections

Endpoint = Callable[[Request, Target, User], Awaitable[Reply | StreamReply]]
_Connect = Callable[["PodConnections", JsonObject, Request], Awaitable[Upgrade]]

_SERVICE_NAME = "kubernetes.io/service-name"


def connect_endpoints(
    registry: Registry, kubelets: Kubelets
) -> dict[tuple[str, str, str], Endpoint]:
    """By group, resource and subresource."""
    store = registry.store

    def find_in(resource: str, namespace: str, name: str) -> JsonObject | None:
        entry = store.collection(resource).get(key_of(namespace, name))
        return None if entry is None else entry.decode()

    def slices(namespace: str, service: str) -> list[JsonObject]:
        entries = store.collection("endpointslices.discovery.k8s.io").between(namespace)
        return [each.decode() for each in entries if each.labels.get(_SERVICE_NAME) == service]

    def connect(into: _Connect) -> Endpoint:
        async def endpoint(request: Request, target: Target, user: User) -> StreamReply:
            if request.method not in ("GET", "POST"):
                raise method_not_allowed()
            from kilonova.local.streaming.connections import PodConnections

            pod = registry.entry(target).decode()
            return await into(PodConnections(kubelets), pod, request)

        return endpoint

    proxies = Proxies(
        kubelets,
        lambda namespace, name: find_in("pods", namespace, name),
        lambda namespace, name: find_in("services", namespace, name),
        slices,
        registry.identities.random,
    )

    async def to_pod(request: Request, target: Target, user: User) -> Reply | StreamReply:
        return await proxies.pod(target.namespace, target.name, request)

    async def to_service(request: Request, target: Target, user: User) -> Reply | StreamReply:
        return await proxies.service(target.namespace, target.name, request)

    return {
        ("", "pods", "exec"): connect(lambda into, pod, request: into.execute(pod, request)),
        ("", "pods", "attach"): connect(lambda into, pod, request: into.attach(pod, request)),
        ("", "pods", "portforward"): connect(lambda into, pod, request: into.forward(pod, request)),
        ("", "pods", "proxy"): to_pod,
        ("", "services", "proxy"): to_service,
        ("", "nodes", "proxy"): _to_node,
    }


async def _to_node(request: Request, target: Target, user: User) -> Reply | StreamReply:
    raise ApiError(
        501,
        "NotImplemented",
        f'node "{target.name}" serves no pages of its own: read logs with `kubectl logs`, and '
        "usage from metrics.k8s.io",
    )
