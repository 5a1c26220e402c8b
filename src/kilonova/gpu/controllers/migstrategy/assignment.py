"""Which strategy a node gets. Pure.

Of the strategies that select a node and GPUs on it, and whose profiles all of these GPUs have, the
one with the highest priority; of equal ones the first by name.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.api.durations import parse_duration
from kilonova.api.gpu.mig_strategy import DEFAULT_INTERVAL, NodeMigStrategy
from kilonova.api.kgwe import GpuSelector, MIGStrategy, MIGStrategySpec
from kilonova.api.kgwe.migstrategy import SUM_TOLERANCE
from kilonova.gpu.controllers.gpuworkload.gpu_resources import to_mebibytes
from kilonova.gpu.controllers.node_devices import DevicesOfNode
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.objects.core_v1 import Node


@dataclass(frozen=True, slots=True)
class Assignment:
    """What strategies have to do with a node."""

    strategy: NodeMigStrategy | None = None
    """The one that the node gets."""
    unknown_profiles: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why others do not suit its GPUs, by their names."""
    overridden: Mapping[str, str] = field(default_factory=dict[str, str])
    """Which strategy takes precedence over others, by their names."""


def assign_strategy(
    node: Node, devices: DevicesOfNode, strategies: Iterable[MIGStrategy]
) -> Assignment:
    """The strategy of a node."""
    chosen: NodeMigStrategy | None = None
    unknown: dict[str, str] = {}
    overridden: dict[str, str] = {}
    for each in sort_by_precedence(strategies):
        name, spec = each.metadata.name, each.spec
        if not selects_node(spec, node) or find_spec_problem(spec) is not None:
            continue
        selected = select_gpus(spec.gpu_selector, devices.layout)
        if not selected:
            continue
        problem = _find_unknown_profile(spec, selected)
        if problem is not None:
            unknown[name] = f"node {node.metadata.name}: {problem}"
        elif chosen is not None:
            overridden[name] = chosen.name
        else:
            chosen = _build_annotation(each, selected, devices.layout)
    return Assignment(chosen, unknown, overridden)


def sort_by_precedence(strategies: Iterable[MIGStrategy]) -> list[MIGStrategy]:
    """The strategies that are not being deleted, those of higher priority first."""
    present = (each for each in strategies if each.metadata.deletion_timestamp is None)
    return sorted(present, key=lambda each: (-each.spec.priority, each.metadata.name))


def selects_node(spec: MIGStrategySpec, node: Node) -> bool:
    """Whether a node has the labels."""
    labels = node.metadata.labels
    return node.metadata.deletion_timestamp is None and all(
        labels.get(key) == value for key, value in spec.node_selector.items()
    )


def find_spec_problem(spec: MIGStrategySpec) -> str | None:
    """Why a strategy cannot be applied to any node; None if it can."""
    if not spec.profile_distribution:
        return "spec.profileDistribution is empty: add profiles, such as 1g.10gb: 0.7"
    if spec.partition_strategy is not None:
        return "spec.partitionStrategy is not supported: write spec.profileDistribution"
    total = sum(spec.profile_distribution.values())
    if total > SUM_TOLERANCE:
        return (
            f"spec.profileDistribution has the sum {total:g}: the fractions must not exceed 1, "
            "write 70 % as 0.7"
        )
    try:
        parse_duration(spec.rebalance_interval)
    except ValueError as error:
        return f"spec.rebalanceInterval: {error}: use 5m"
    return None


def select_gpus(selector: GpuSelector | None, layout: GpuLayout) -> list[Gpu]:
    """The devices with MIG that a selector is for; healthy or not, as that changes."""
    wanted = selector or GpuSelector()
    request = GpuRequest(
        count=1,
        memory=0 if wanted.min_memory_gb is None else to_mebibytes(wanted.min_memory_gb),
        models=tuple(each.strip() for each in wanted.model.split(",") if each.strip()),
        architecture=wanted.architecture or "",
    )
    eligible = _assume_offered(layout).eligible_devices(request)
    return [each for each in layout.gpus if each.mig is not None and eligible >> each.index & 1]


def _assume_offered(layout: GpuLayout) -> GpuLayout:
    if all(each.is_offered for each in layout.gpus):
        return layout
    return GpuLayout(
        tuple(Gpu(each.index, each.memory, each.model, each.architecture) for each in layout.gpus)
    )


def _find_unknown_profile(spec: MIGStrategySpec, gpus: Sequence[Gpu]) -> str | None:
    for gpu in gpus:
        if gpu.mig is None:
            continue
        for profile in sorted(spec.profile_distribution):
            if gpu.mig.profile(profile) is None:
                known = ", ".join(each.name for each in gpu.mig.profiles)
                return f"{gpu.model or 'its GPU'} has no MIG profile {profile}; it has {known}"
    return None


def _build_annotation(
    strategy: MIGStrategy, gpus: Sequence[Gpu], layout: GpuLayout
) -> NodeMigStrategy:
    spec = strategy.spec
    capable = [each.index for each in layout.gpus if each.mig is not None]
    selected = [each.index for each in gpus]
    evicts_pods = spec.allow_dynamic_reconfig and spec.allow_pod_eviction
    return NodeMigStrategy(
        name=strategy.metadata.name,
        generation=strategy.metadata.generation,
        profiles={name: each for name, each in spec.profile_distribution.items() if each > 0},
        gpus=None if selected == capable else tuple(selected),
        dynamic=spec.allow_dynamic_reconfig,
        interval=parse_duration(spec.rebalance_interval or f"{DEFAULT_INTERVAL:g}s"),
        min_utilization=spec.min_utilization_threshold,
        evicts_pods=evicts_pods,
        uid=strategy.metadata.uid if evicts_pods else "",
    )


def describe_distribution(profiles: Mapping[str, float]) -> str:
    """Fractions for people: `1g.10gb 70 %, 2g.20gb 20 %`."""
    return ", ".join(f"{name} {round(100 * each)} %" for name, each in sorted(profiles.items()))
