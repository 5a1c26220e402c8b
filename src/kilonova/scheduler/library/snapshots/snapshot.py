"""A **cluster snapshot**: everything a decision depends on, as a value that can be saved and sent.

It is taken of a cluster at one moment; the cluster rebuilt from it, here or on another machine,
gives the same decisions. Everything is sorted by name, so that equal clusters give equal snapshots,
whatever their history.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kilonova.catalog.mig import MASK_COUNT
from kilonova.scheduler.convert.devices.cel_selectors import DeviceSelectorCache
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import Device, SharedCounter
from kilonova.scheduler.core.dra.inventory import DevicePool, PoolId
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.gpu.mig import ProfileDemand
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.queueing.usage_history import UsageHistory
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import Scoring, default_scoring
from kilonova.scheduler.score_plugins import load_score_plugins


@dataclass(frozen=True, slots=True)
class DevicePoolSnapshot:
    """A pool of devices that a driver publishes."""

    driver: str
    name: str
    devices: tuple[Device, ...]
    counters: tuple[tuple[SharedCounter, int], ...]
    complete: bool
    nodes: frozenset[str]

    @staticmethod
    def from_pool(id: PoolId, pool: DevicePool) -> "DevicePoolSnapshot":
        counters = tuple(sorted(pool.counters.items()))
        return DevicePoolSnapshot(*id, pool.devices, counters, pool.complete, pool.nodes)

    def to_pool(self) -> DevicePool:
        return DevicePool(self.devices, dict(self.counters), self.complete, self.nodes)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster, its pending gangs, and the rules of decisions. `ValueError` if it is inconsistent.

    Field names are those of snapshot files.
    """

    now: float
    policy: PlannerPolicy
    weights: Mapping[str, float]
    """Weights of the score plugins by name."""
    nodes: tuple[Node, ...]
    placements: tuple[PodPlacement, ...]
    """`row` is the position of the node in `nodes`."""
    running_gangs: tuple[RunningGang, ...]
    pending_gangs: tuple[Gang, ...]
    not_ready: Mapping[str, GangNotReady]
    """Gangs that cannot be scheduled as they are, whatever the capacity."""
    queues: tuple[QueueSpec, ...]
    history: UsageHistory
    budgets: Mapping[str, int]
    """Disruptions allowed by each PodDisruptionBudget."""
    pools: tuple[DevicePoolSnapshot, ...]
    claims: Mapping[str, PublishedAllocation]
    """Published allocations of ResourceClaims by key."""
    priorities: Mapping[str, int]
    """Values of PriorityClasses, for pods that do not exist yet."""
    never_preempting: tuple[str, ...] = ()
    """PriorityClasses with the preemption policy Never."""
    mig_demand: ProfileDemand = ()
    """The demand for MIG profiles that a scheduler has learned."""
    topology_levels: tuple[str, ...] = ()
    """The levels of the cluster's ClusterTopologyBinding, broadest first, if there is one."""

    def __post_init__(self) -> None:
        _check_unique("nodes", (node.name for node in self.nodes))
        _check_unique("placements", (pod_placement.pod for pod_placement in self.placements))
        _check_unique(
            "running_gangs", (running_gang.gang.name for running_gang in self.running_gangs)
        )
        _check_unique("pending_gangs", (gang.name for gang in self.pending_gangs))
        _check_unique("queues", (queue.name for queue in self.queues))
        placed_pods = {pod_placement.pod for pod_placement in self.placements}
        for pod_placement in self.placements:
            if not 0 <= pod_placement.row < len(self.nodes):
                raise ValueError(
                    f"{pod_placement.pod} is on node {pod_placement.row} of {len(self.nodes)}"
                )
            layout = self.nodes[pod_placement.row].layout
            for share in pod_placement.devices:
                if layout is not None and not 0 <= share.index < len(layout.gpus):
                    raise ValueError(
                        f"{pod_placement.pod} has device {share.index}, which does not exist"
                    )
                parts = share.milli, share.memory_milli
                exists = all(0 <= part <= MILLI_PER_GPU for part in parts)
                if not exists or not 0 <= share.mask < MASK_COUNT:
                    raise ValueError(
                        f"{pod_placement.pod} uses more of device {share.index} than exists"
                    )
        for running_gang in self.running_gangs:
            for pod in running_gang.pods:
                if pod not in placed_pods:
                    raise ValueError(
                        f"{pod} of gang {running_gang.gang.name} is running but not in placements"
                    )

    def to_cluster(self) -> Cluster:
        """Rebuild the cluster."""
        cluster = Cluster()
        cluster.snapshot.mig_demand = self.mig_demand
        for node in self.nodes:
            cluster.snapshot.put_node(node)
        if self.pools or self.claims:
            self._add_device_pools(cluster)
        cluster.snapshot.add_pods(self.placements)
        cluster.running_gangs = {
            running_gang.gang.name: RunningGang(
                running_gang.gang, running_gang.since, dict(running_gang.pods)
            )
            for running_gang in self.running_gangs
        }
        cluster.history = self.history
        cluster.budgets = dict(self.budgets)
        cluster.replace_queues(build_queue_forest(self.queues))
        return cluster

    def _add_device_pools(self, cluster: Cluster) -> None:
        snapshot = cluster.snapshot
        snapshot.claims.set_selector_matcher(DeviceSelectorCache())
        for each in self.pools:
            snapshot.put_pool((each.driver, each.name), each.to_pool())
        for name, written in self.claims.items():
            snapshot.put_claim(name, written)

    def build_scoring(self) -> Scoring:
        """The score plugins with their weights; `ValueError` if one is unknown."""
        plugins = default_scoring(extra=load_score_plugins(self.weights)).plugins
        known = {plugin.name: plugin for plugin in plugins}
        unknown = sorted(name for name, each in self.weights.items() if each and name not in known)
        if unknown:
            raise ValueError(
                f"unknown score plugin: {', '.join(unknown)} (known are "
                f"{', '.join(known)}); install the package that provides it, or set its weight to 0"
            )
        return Scoring(
            [replace(plugin, weight=self.weights.get(name, 0.0)) for name, plugin in known.items()]
        )

    def with_rules(self, policy: PlannerPolicy, scoring: Scoring) -> "ClusterSnapshot":
        """The same cluster with other rules."""
        return replace(self, policy=policy, weights=_weights_of(scoring))

    def build_planner(self, cluster: Cluster) -> Planner:
        """A planner for a cluster of this snapshot."""
        return Planner(cluster, self.build_scoring(), self.policy)


def take_snapshot(
    cluster: Cluster,
    waiting: Iterable[Gang],
    queues: Iterable[QueueSpec],
    policy: PlannerPolicy,
    now: float,
    *,
    scoring: Scoring | None = None,
    not_ready: Mapping[str, GangNotReady] | None = None,
    pools: Mapping[PoolId, DevicePool] | None = None,
    claims: Mapping[str, PublishedAllocation] | None = None,
    priorities: Mapping[str, int] | None = None,
    never_preempting: Iterable[str] = (),
) -> ClusterSnapshot:
    """Take a snapshot of a cluster; `queues` are the specs that it was given."""
    snapshot = cluster.snapshot
    nodes = snapshot.nodes()
    ranks = snapshot.ranks.tolist()
    return ClusterSnapshot(
        now=now,
        policy=policy,
        weights=_weights_of(scoring or default_scoring()),
        nodes=tuple(nodes),
        placements=tuple(
            replace(pod_placement, row=ranks[pod_placement.row])
            for _, pod_placement in sorted(snapshot.placements.items())
        ),
        running_gangs=tuple(
            running_gang for _, running_gang in sorted(cluster.running_gangs.items())
        ),
        pending_gangs=tuple(sorted(waiting, key=lambda gang: gang.name)),
        not_ready=dict(sorted((not_ready or {}).items())),
        queues=tuple(sorted(map(_sort_amounts, queues), key=lambda queue: queue.name)),
        history=cluster.history,
        budgets=dict(sorted(cluster.budgets.items())),
        pools=tuple(
            DevicePoolSnapshot.from_pool(id, pool) for id, pool in sorted((pools or {}).items())
        ),
        claims=dict(sorted((claims or {}).items())),
        priorities=dict(sorted((priorities or {}).items())),
        never_preempting=tuple(sorted(never_preempting)),
        mig_demand=snapshot.mig_demand,
    )


def _weights_of(scoring: Scoring) -> dict[str, float]:
    return {plugin.name: float(plugin.weight) for plugin in scoring.plugins}


def _sort_amounts(queue: QueueSpec) -> QueueSpec:
    """A queue with its amounts sorted by name: of several exceeded limits the first is reported."""
    deserved, limit = dict(sorted(queue.deserved.items())), dict(sorted(queue.limit.items()))
    return replace(queue, deserved=deserved, limit=limit)


def _check_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{name} is listed twice in {what}")
        seen.add(name)
