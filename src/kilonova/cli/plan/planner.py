"""`kilonova plan`: reads manifests, expands them, and schedules them on a snapshot (what-if)."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kilonova.api.group_kinds import GroupKind
from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.nodes.image_taint import KEY
from kilonova.api.pods.workload_owner import SET
from kilonova.api.times import format_rfc3339
from kilonova.cli.plan.manifest_expansion import ExpandedObjects, ManifestExpander, Topologies
from kilonova.cli.plan.manifests import Manifest, read_manifests
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
from kilonova.component.failure import CommandFailed
from kilonova.kube import NotFound, connect
from kilonova.scheduler.convert.gangs.pod_groups import pod_group_ref
from kilonova.scheduler.convert.gangs.podgangs import single_pod_gang_name
from kilonova.scheduler.convert.queues import convert_queue
from kilonova.scheduler.library.decisions import SchedulingDecisions
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.what_if import convert_pod_groups, pod_and_gang_names, what_if
from kilonova.scheduler.snapshot_source import load_snapshot
from kilonova.workloads.resources import TOPOLOGY_BINDINGS

_BINDING = GroupKind(TOPOLOGY_BINDINGS.group, TOPOLOGY_BINDINGS.kind)


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The scheduling decisions, and notes on how the manifests were interpreted."""

    decisions: SchedulingDecisions
    notes: list[str]


def plan_manifests(
    files: list[Path],
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    config: Path | None = None,
    namespace: str | None = None,
) -> PlanResult:
    """The decisions of the scheduler if the objects of these files were created now."""
    manifests = read_manifests(files)
    cluster_snapshot = load_snapshot(snapshot, kubeconfig, context, data, config)
    topologies: Topologies = {}
    if snapshot is None:
        resolved = resolve_kubeconfig(kubeconfig, context, data)
        namespace = resolve_namespace(namespace, resolved, context)
        if any(each.group_kind == SET for each in manifests):
            topologies = asyncio.run(_list_topologies(resolved, context))
    if namespace:
        manifests = [replace(each, default_namespace=namespace) for each in manifests]
    now = format_rfc3339(datetime.fromtimestamp(cluster_snapshot.now, UTC))
    expander = ManifestExpander(
        now,
        cluster_snapshot.priorities,
        {**topologies, **_topology_bindings(manifests)},
        never_preempting=cluster_snapshot.never_preempting,
        process_nodes=[
            node for node in cluster_snapshot.nodes if any(each.key == KEY for each in node.taints)
        ],
    )
    expander.expand(manifests)
    expanded = expander.objects
    if not expanded.pods and not expanded.gangs:
        names = ", ".join(map(str, files))
        raise CommandFailed(
            f"nothing to schedule in {names}: no pods, and no objects that own pods"
        )
    expanded.gangs += convert_pod_groups(expanded.groups, expanded.pods, expanded.gangs)
    groups = set(map(pod_group_ref, expanded.groups))
    decisions = what_if(
        _add_to_snapshot(cluster_snapshot, expanded), expanded.pods, expanded.gangs, groups
    )
    return PlanResult(decisions, expanded.notes)


def _add_to_snapshot(
    cluster_snapshot: ClusterSnapshot, expanded: ExpandedObjects
) -> ClusterSnapshot:
    """The snapshot with the planned queues, and without pending gangs that are planned again."""
    planned = set(pod_and_gang_names(expanded.pods, expanded.gangs))
    placed = {placement.pod for placement in cluster_snapshot.placements} & planned
    placed |= {running.gang.name for running in cluster_snapshot.running_gangs} & planned
    if placed:
        raise CommandFailed(
            f"{min(placed)} exists and is placed: see `kilonova why`, or plan it with another name"
        )
    replaced = planned | set(map(single_pod_gang_name, planned))
    specs = {queue.name: queue for queue in cluster_snapshot.queues}
    specs |= {queue.metadata.name: convert_queue(queue) for queue in expanded.queues}
    return replace(
        cluster_snapshot,
        pending_gangs=tuple(
            gang for gang in cluster_snapshot.pending_gangs if gang.name not in replaced
        ),
        queues=tuple(spec for _, spec in sorted(specs.items())),
    )


def _topology_bindings(manifests: list[Manifest]) -> Topologies:
    bindings = (each for each in manifests if each.group_kind == _BINDING)
    return {each.name: _convert_binding(each) for each in bindings}


def _convert_binding(manifest: Manifest) -> ClusterTopologyBinding:
    metadata = {"uid": "", "resourceVersion": "", **manifest.body["metadata"]}
    try:
        return msgspec.convert({**manifest.body, "metadata": metadata}, ClusterTopologyBinding)
    except msgspec.ValidationError as error:
        raise CommandFailed(f"{manifest.location}: {_BINDING.kind}: {error}") from error


async def _list_topologies(kubeconfig: Path | None, context: str | None) -> Topologies:
    with translate_cluster_errors(
        "read from",
        f"; to plan PodCliqueSets, listing {TOPOLOGY_BINDINGS.full_name} must be allowed",
    ):
        async with connect(kubeconfig, context) as client:
            try:
                listing = await client.list(TOPOLOGY_BINDINGS)
            except NotFound:
                return {}
            return {each.metadata.name: each for each in listing.items}
