"""The pools of GPUs whose MIGStrategy allows that pods are evicted, read from the nodes.

A strategy's controller writes it into an annotation of each of its nodes
(`kilonova.api.gpu.mig_strategy`); the nodes of one strategy are one pool.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from kilonova.api.gpu.mig_strategy import (
    MIG_STRATEGY,
    InvalidAnnotation,
    NodeMigStrategy,
    parse_mig_strategy,
)
from kilonova.kube import Store
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.core.consolidation.mig_rebalancing import MigPool
from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings
from kilonova.scheduler.objects.core_v1 import Node, Pod

_STATELESS_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


class MigPools:
    """Reads the pools from the cached nodes."""

    def __init__(self, nodes: Store[Node], cache: SchedulerCache) -> None:
        self._nodes = nodes
        self._cache = cache
        self._texts: dict[str, NodeMigStrategy | None] = {}
        """Annotations as parsed."""
        self.uids: dict[str, str] = {}
        """The UIDs of the strategies, by name, as last read."""

    def read(self) -> list[MigPool]:
        """The pools, by name."""
        by_name: dict[str, dict[str, NodeMigStrategy]] = defaultdict(dict)
        for node in self._nodes.objects():
            strategy = self._parse(node.metadata.annotations.get(MIG_STRATEGY, ""))
            if strategy is not None and strategy.dynamic and strategy.evicts_pods:
                by_name[strategy.name][node.metadata.name] = strategy
        self.uids = {name: next(iter(nodes.values())).uid for name, nodes in by_name.items()}
        return [self._build_pool(name, nodes) for name, nodes in sorted(by_name.items())]

    def _build_pool(self, name: str, nodes: dict[str, NodeMigStrategy]) -> MigPool:
        gpus = {
            node: None if strategy.gpus is None else frozenset(strategy.gpus)
            for node, strategy in sorted(nodes.items())
        }
        # The annotations of nodes change one after the other: the most careful one counts.
        settings = RebalanceSettings(
            min_interval=max(each.interval for each in nodes.values()),
            min_utilization=min(each.min_utilization for each in nodes.values()),
        )
        return MigPool(name, gpus, settings, frozenset(self._iter_stateless_pods(nodes)))

    def _iter_stateless_pods(self, nodes: Iterable[str]) -> Iterator[str]:
        snapshot = self._cache.cluster.snapshot
        for node in nodes:
            for key in snapshot.pods_on[snapshot.row(node)] if node in snapshot else ():
                pod = self._cache.find_pod(key)
                if pod is not None and is_stateless(pod):
                    yield key

    def _parse(self, text: str) -> NodeMigStrategy | None:
        if not text:
            return None
        if text not in self._texts:
            if len(self._texts) > 2 * len(self._nodes):
                self._texts.clear()
            parsed = parse_mig_strategy(text)
            self._texts[text] = None if isinstance(parsed, InvalidAnnotation) else parsed
        return self._texts[text]


def is_stateless(pod: Pod) -> bool:
    """Whether a pod loses no work by a restart: those of services only serve requests."""
    owner = pod.metadata.controller
    return owner is not None and owner.kind in _STATELESS_OWNERS
