"""The subresources that connect to pods, and their access to stored objects."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.auth import User
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import object_key
from kilonova.local.apiserver.streaming.proxy import PodProxy
from kilonova.local.apiserver.streaming.session import Upgrade
from kilonova.local.kubelet_api import Kubelets

if TYPE_CHECKING:  # the protocols are imported when they are used
    from kilonova.local.apiserver.streaming.pod_connections import PodConnectHandler

ConnectHandler = Callable[[Request, ResourceTarget, User], Awaitable[Reply | StreamReply]]
_PodConnectMethod = Callable[["PodConnectHandler", JsonObject, Request], Awaitable[Upgrade]]

_SERVICE_NAME = "kubernetes.io/service-name"


def connect_handlers(
    registry: RegistryContext, kubelets: Kubelets
) -> dict[tuple[str, str, str], ConnectHandler]:
    """Handlers by group, resource and subresource."""
    store = registry.store

    def find_object(resource: str, namespace: str, name: str) -> JsonObject | None:
        entry = store.collection(resource).get(object_key(namespace, name))
        return None if entry is None else entry.decode()

    def list_slices(namespace: str, service: str) -> list[JsonObject]:
        entries = store.collection("endpointslices.discovery.k8s.io").range_entries(namespace)
        return [each.decode() for each in entries if each.labels.get(_SERVICE_NAME) == service]

    def pod_connect_handler(into: _PodConnectMethod) -> ConnectHandler:
        async def endpoint(request: Request, target: ResourceTarget, user: User) -> StreamReply:
            from kilonova.local.apiserver.streaming.pod_connections import PodConnectHandler

            pod = registry.get_entry(target).decode()
            return await into(PodConnectHandler(kubelets), pod, request)

        return endpoint

    proxies = PodProxy(
        kubelets,
        lambda namespace, name: find_object("pods", namespace, name),
        lambda namespace, name: find_object("services", namespace, name),
        list_slices,
        registry.id_generator.random,
    )

    async def proxy_to_pod(
        request: Request, target: ResourceTarget, user: User
    ) -> Reply | StreamReply:
        return await proxies.proxy_pod(target, request)

    async def proxy_to_service(
        request: Request, target: ResourceTarget, user: User
    ) -> Reply | StreamReply:
        return await proxies.proxy_service(target, request)

    return {
        ("", "pods", "exec"): pod_connect_handler(
            lambda into, pod, request: into.execute(pod, request)
        ),
        ("", "pods", "attach"): pod_connect_handler(
            lambda into, pod, request: into.attach(pod, request)
        ),
        ("", "pods", "portforward"): pod_connect_handler(
            lambda into, pod, request: into.forward(pod, request)
        ),
        ("", "pods", "proxy"): proxy_to_pod,
        ("", "services", "proxy"): proxy_to_service,
        ("", "nodes", "proxy"): _proxy_to_node,
    }


async def _proxy_to_node(
    request: Request, target: ResourceTarget, user: User
) -> Reply | StreamReply:
    raise ApiError(
        501,
        "NotImplemented",
        f'node "{target.name}" does not support proxying: read logs with `kubectl logs`, and '
        "usage from metrics.k8s.io",
    )
