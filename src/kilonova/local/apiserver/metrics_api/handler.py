"""Handles requests for metrics, by querying the kubelets."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Reply, Request
from kilonova.local.apimachinery.errors import ApiError, not_found
from kilonova.local.apiserver.auth import User
from kilonova.local.apiserver.endpoints.negotiation import (
    AcceptedMediaType,
    Representation,
    negotiate,
)
from kilonova.local.apiserver.endpoints.query_options import parse_selectors
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.endpoints.responses import document_response
from kilonova.local.apiserver.endpoints.tables import render_table
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.metrics_api.kinds import GROUP, VERSION
from kilonova.local.apiserver.metrics_api.objects import node_metrics, pod_metrics
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import field_values
from kilonova.local.apiserver.registry.lists import all_entries
from kilonova.local.apiserver.registry.selection import entry_selector
from kilonova.local.apiserver.storage import Entry
from kilonova.local.kubelet_api import Kubelet, Kubelets, NodeUsage, PodUsage

_BATCH_SIZE = 500
"""The number of kubelets that are queried before yielding to other tasks."""


class MetricsHandler:
    """The handler of metrics.k8s.io."""

    def __init__(self, registry: RegistryContext, kubelets: Kubelets) -> None:
        self._registry = registry
        self._kubelets = kubelets

    def handles(self, kind: Kind) -> bool:
        return kind.group == GROUP

    async def handle(self, request: Request, target: ResourceTarget, user: User) -> Reply:
        """One object, or the list of those that selectors match."""
        accepted = negotiate(request.headers.get("accept") or "*/*", is_list=not target.name)
        kind = target.kind
        core = self._registry.served_kinds.find("", "v1", kind.plural)
        assert core is not None
        core_target = ResourceTarget(core, target.namespace, target.name, "")
        entries = all_entries(
            self._registry.collection(core_target),
            entry_selector(core_target, parse_selectors(request.query)),
        )
        metrics = (
            self._node_metrics(entries)
            if core.plural == "nodes"
            else self._pod_metrics(core, entries)
        )
        items = [item async for item in metrics]
        if target.name:
            if not items:
                name = f"{target.namespace}/{target.name}" if target.namespace else target.name
                raise not_found(GROUP, kind.plural, name)
            if accepted.representation is Representation.TABLE:
                return self._table_response(kind, items, accepted)
            return document_response(items[0], accepted)
        if accepted.representation is Representation.TABLE:
            return self._table_response(kind, items, accepted)
        for item in items:
            del item["kind"], item["apiVersion"]
        listed: JsonObject = {
            "kind": f"{kind.kind}List",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {},
            "items": items,
        }
        return document_response(listed, accepted)

    async def _node_metrics(self, nodes: Iterable[Entry]) -> AsyncIterator[JsonObject]:
        now = self._registry.clock.now()
        kubelets = dict(self._kubelets.items())
        for count, node in enumerate(nodes, 1):
            usage = await _read_usage(kubelets.get(node.key))
            if usage is not None:
                measured = self._kubelets.read_gpus(node.key)
                if measured is not None:
                    usage = replace(usage, gpus=measured)
                yield node_metrics(node.key, node.labels, usage, now)
            if count % _BATCH_SIZE == 0:
                await asyncio.sleep(0)

    async def _pod_metrics(self, kind: Kind, pods: Iterable[Entry]) -> AsyncIterator[JsonObject]:
        """Each node is queried once, and only if it has one of the pods."""
        now = self._registry.clock.now()
        kubelets = dict(self._kubelets.items())
        node_field = list(kind.strategy.selectable_fields).index("spec.nodeName")
        usage_by_node: dict[str, tuple[NodeUsage, dict[str, PodUsage]] | None] = {}
        for pod in pods:
            node = field_values(kind, pod)[node_field]
            if node not in usage_by_node:
                usage = await _read_usage(kubelets.get(node))
                usage_by_node[node] = None if usage is None else (usage, _index_pods(usage))
                if len(usage_by_node) % _BATCH_SIZE == 0:
                    await asyncio.sleep(0)
            found = usage_by_node[node]
            if found is not None and pod.key in found[1]:
                yield pod_metrics(found[1][pod.key], pod.labels, found[0], now)

    def _table_response(
        self, kind: Kind, items: list[JsonObject], accepted: AcceptedMediaType
    ) -> Reply:
        made = render_table(
            kind, items, include_object="Metadata", now=self._registry.clock.now(), list_meta={}
        )
        made["apiVersion"] = f"meta.k8s.io/{accepted.version}"
        return document_response(made, accepted)


async def _read_usage(kubelet: Kubelet | None) -> NodeUsage | None:
    """The usage of a node; None if it has no kubelet or no usage: it is left out."""
    try:
        return None if kubelet is None else await kubelet.usage()
    except (ApiError, OSError):
        return None


def _index_pods(usage: NodeUsage) -> dict[str, PodUsage]:
    return {f"{pod.namespace}/{pod.name}": pod for pod in usage.pods}
