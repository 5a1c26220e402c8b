"""Requests for metrics: which objects they are about, and what their nodes tell of them."""

import asyncio
from collections.abc import AsyncIterator, Iterable

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request
from kilonova.local.auth import User
from kilonova.local.errors import ApiError, method_not_allowed, not_found
from kilonova.local.kinds.base import Kind
from kilonova.local.kubelets import Kubelet, Kubelets, NodeUsage, PodUsage
from kilonova.local.metricsapi.kinds import GROUP, VERSION
from kilonova.local.metricsapi.objects import node_metrics, pod_metrics
from kilonova.local.negotiation import Shape, Wanted, wanted
from kilonova.local.presentation import document
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import field_values
from kilonova.local.registry.reads import read_everything
from kilonova.local.registry.selection import selection
from kilonova.local.routes import Target
from kilonova.local.storage import Entry
from kilonova.local.tables import table

_AT_ONCE = 500
"""Of so many nodes the usage is asked before others get their turn."""


class Metrics:
    """Answers for metrics.k8s.io."""

    def __init__(self, registry: Registry, kubelets: Kubelets) -> None:
        self._registry = registry
        self._kubelets = kubelets

    def handles(self, kind: Kind) -> bool:
        return kind.group == GROUP

    async def answer(self, request: Request, target: Target, user: User) -> Reply:
        """One object, or the list of those that labels and fields select."""
        if request.method != "GET" or request.param("watch") in ("true", "1"):
            raise method_not_allowed()
        form = wanted(request.headers.get("accept") or "*/*", is_list=not target.name)
        kind = target.kind
        core = self._registry.catalog.find("", "v1", kind.plural)
        assert core is not None
        what = Target(core, target.namespace, target.name, "")
        entries = read_everything(self._registry.collection(what), selection(what, request))
        told = self._nodes(entries) if core.plural == "nodes" else self._pods(core, entries)
        items = [item async for item in told]
        if target.name:
            if not items:
                name = f"{target.namespace}/{target.name}" if target.namespace else target.name
                raise not_found(GROUP, kind.plural, name)
            if form.shape is Shape.TABLE:
                return self._table(kind, items, form)
            return document(items[0], form)
        if form.shape is Shape.TABLE:
            return self._table(kind, items, form)
        for item in items:
            del item["kind"], item["apiVersion"]
        listed: JsonObject = {
            "kind": f"{kind.kind}List",
            "apiVersion": f"{GROUP}/{VERSION}",
            "metadata": {},
            "items": items,
        }
        return document(listed, form)

    async def _nodes(self, nodes: Iterable[Entry]) -> AsyncIterator[JsonObject]:
        now = self._registry.clock.now()
        kubelets = dict(self._kubelets.all())
        for count, node in enumerate(nodes, 1):
            usage = await _usage(kubelets.get(node.key))
            if usage is not None:
                yield node_metrics(node.key, node.labels, usage, now)
            if count % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _pods(self, kind: Kind, pods: Iterable[Entry]) -> AsyncIterator[JsonObject]:
        """Each node is asked once, and only if it has one of the pods."""
        now = self._registry.clock.now()
        kubelets = dict(self._kubelets.all())
        node_field = list(kind.behavior.selectable).index("spec.nodeName")
        told: dict[str, tuple[NodeUsage, dict[str, PodUsage]] | None] = {}
        for pod in pods:
            node = field_values(kind, pod)[node_field]
            if node not in told:
                usage = await _usage(kubelets.get(node))
                told[node] = None if usage is None else (usage, _by_key(usage))
                if len(told) % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            found = told[node]
            if found is not None and pod.key in found[1]:
                yield pod_metrics(found[1][pod.key], pod.labels, found[0], now)

    def _table(self, kind: Kind, items: list[JsonObject], form: Wanted) -> Reply:
        made = table(
            kind, items, include_object="Metadata", now=self._registry.clock.now(), list_meta={}
        )
        made["apiVersion"] = f"meta.k8s.io/{form.version}"
        return document(made, form)


async def _usage(kubelet: Kubelet | None) -> NodeUsage | None:
    """None of a node that nobody plays, or that cannot tell: it is left out."""
    try:
        return None if kubelet is None else await kubelet.usage()
    except (ApiError, OSError):
        return None


def _by_key(usage: NodeUsage) -> dict[str, PodUsage]:
    return {f"{pod.namespace}/{pod.name}": pod for pod in usage.pods}
