"""The controllers of MIGStrategies. A key of the first is a node, of the second a strategy."""

from collections.abc import Iterable

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.api.gpu.mig_strategy import MIG_STRATEGY, format_mig_strategy
from kilonova.api.kgwe import MIGStrategy, MIGStrategyStatus
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.controllers.context import ControllerContext
from kilonova.gpu.controllers.migstrategy.assignment import (
    Assignment,
    assign_strategy,
    selects_node,
)
from kilonova.gpu.controllers.migstrategy.status import SelectedNode, build_status, read_strategy
from kilonova.gpu.controllers.resources import MIG_STRATEGIES, NODES
from kilonova.kube import ChangeWatch, Conflict, Controller, Key, NotFound, Result
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import ObjectReference
from kilonova.kube.status import StatusThrottle, StatusWriter, find_condition
from kilonova.scheduler.objects.core_v1 import Node

_NODE_WORKERS = 16


def build_strategy_controllers(context: ControllerContext) -> tuple[Controller, Controller]:
    """The controller of nodes, and that of statuses."""
    nodes = _NodeReconciler(context)
    strategies = _StatusReconciler(context)
    caches = context.caches
    return (
        Controller(
            "migstrategy-node",
            nodes.reconcile,
            [
                ChangeWatch(caches.nodes, nodes.on_node),
                ChangeWatch(caches.strategies, nodes.on_strategy),
            ],
            workers=_NODE_WORKERS,
            runtime_metrics=context.runtime_metrics,
        ),
        Controller(
            "migstrategy",
            strategies.reconcile,
            [
                ChangeWatch(caches.nodes, strategies.on_node),
                ChangeWatch(caches.strategies, strategies.on_strategy),
            ],
            runtime_metrics=context.runtime_metrics,
        ),
    )


class _NodeReconciler:
    """Writes the strategy of a node into its annotation."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._expectations = Expectations(context.caches.nodes)

    def on_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        """The node, after a change of what decides on its strategy."""
        if new is not None and (old is None or _facts(old) != _facts(new)):
            yield "", new.metadata.name

    def on_strategy(self, old: MIGStrategy | None, new: MIGStrategy | None) -> Iterable[Key]:
        """All nodes that a strategy selects, or selected."""
        if _has_same_spec(old, new):
            return
        store = self._context.caches.nodes.store
        for node in store.objects():
            own = read_strategy(node)
            changed = [each for each in (old, new) if each is not None]
            if any(
                selects_node(each.spec, node) or (own and own.name == each.metadata.name)
                for each in changed
            ):
                yield store.key_of(node)

    async def reconcile(self, key: Key) -> Result | None:
        """Write the annotation of one node, if it differs."""
        node = self._context.caches.nodes.store.get(key)
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        wanted = _assign(self._context, node).strategy
        text = None if wanted is None else format_mig_strategy(wanted)
        known = node.metadata
        if known.annotations.get(MIG_STRATEGY) == text:
            return None
        patch = {"metadata": {"uid": known.uid, "annotations": {MIG_STRATEGY: text}}}
        try:
            written = await self._context.client.patch(NODES, known.name, patch)
        except (NotFound, Conflict):
            return None  # gone, or another node of that name
        await self._expectations.wait_for_version(written.metadata.resource_version)
        return None


class _StatusReconciler:
    """Writes the statuses of strategies."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._status = StatusWriter(
            context.client, MIG_STRATEGIES, Expectations(context.caches.strategies)
        )
        self._throttle = StatusThrottle(context.settings.status_write_interval, context.monotonic)

    def on_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        """Strategies whose status depends on a node."""
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        store = self._context.caches.strategies.store
        for strategy in store.objects():
            if any(each is not None and selects_node(strategy.spec, each) for each in (old, new)):
                yield store.key_of(strategy)

    def on_strategy(self, old: MIGStrategy | None, new: MIGStrategy | None) -> Iterable[Key]:
        """All strategies: one may take precedence over another."""
        if _has_same_spec(old, new):
            return []
        store = self._context.caches.strategies.store
        return [store.key_of(each) for each in store.objects()]

    async def reconcile(self, key: Key) -> Result | None:
        """Write the status of one strategy, if it differs."""
        strategy = self._context.caches.strategies.store.get(key)
        if strategy is None or strategy.metadata.deletion_timestamp is not None:
            self._throttle.forget(key)
            return None
        delay = self._throttle.get_delay(key)
        if delay > 0:
            return Result(delay)
        selected = [
            SelectedNode(node, self._context.devices.read(node), _assign(self._context, node))
            for node in self._context.caches.nodes.store.objects()
            if selects_node(strategy.spec, node)
        ]
        status = build_status(strategy, selected, self._context.now())
        if status == strategy.status:
            return None
        self._throttle.record_write(key)
        await self._status.write(strategy, status)
        self._record_event(strategy, status)
        return None

    def _record_event(self, strategy: MIGStrategy, status: MIGStrategyStatus) -> None:
        old = find_condition(strategy.status.conditions, "Ready")
        new = find_condition(status.conditions, "Ready")
        if new is None or new.reason == "Assigning":
            return
        if old is not None and (old.reason, old.message) == (new.reason, new.message):
            return
        known = strategy.metadata
        reference = ObjectReference.to(MIG_STRATEGIES, known.name, "", known.uid)
        is_warning = new.status == "False"
        self._context.recorder.event(reference, new.reason, new.message, warning=is_warning)


def _assign(context: ControllerContext, node: Node) -> Assignment:
    strategies = context.caches.strategies.store.objects()
    return assign_strategy(node, context.devices.read(node), strategies)


def _facts(node: Node) -> object:
    annotations = node.metadata.annotations
    return (
        node.metadata.labels,
        annotations.get(TOPOLOGY),
        annotations.get(MIG_STRATEGY),
        node.status.allocatable.get(GPU),
        node.metadata.deletion_timestamp,
    )


def _has_same_spec(old: MIGStrategy | None, new: MIGStrategy | None) -> bool:
    if old is None or new is None:
        return False
    was, now = old.metadata, new.metadata
    return (was.uid, was.generation, was.deletion_timestamp) == (
        now.uid,
        now.generation,
        now.deletion_timestamp,
    )
