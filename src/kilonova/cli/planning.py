"""What `kilonova plan` does: read manifests, draft their pods, decide about them."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kilonova.api.grove import ClusterTopologyBinding
from kilonova.api.imagetaint import KEY
from kilonova.api.times import rfc3339
from kilonova.cli.clusters import cluster_meant, namespace_meant
from kilonova.cli.drafts import Drafting, Drafts, Topologies
from kilonova.cli.failure import CommandFailed
from kilonova.cli.manifests import Manifest, read_manifests
from kilonova.cli.picturing import picture_from
from kilonova.cli.reasons import explained
from kilonova.kube import NotFound, connect
from kilonova.scheduler.decisions import Decisions
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.gangs import lone_name
from kilonova.scheduler.reading.podgroups import ref_of
from kilonova.scheduler.reading.queues import spec_of
from kilonova.scheduler.whatif import gangs_of_groups, names_of, what_if
from kilonova.workloads.resources import TOPOLOGIES

_SET = "PodCliqueSet"
_BINDING = "ClusterTopologyBinding"


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be decided, and what people should know about how manifests were read."""

    decisions: Decisions
    notes: list[str]


def planned(
    files: list[Path],
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    config: Path | None = None,
    namespace: str | None = None,
) -> Planned:
    """What would be decided if the objects in some files were there."""
    manifests = read_manifests(files)
    picture = picture_from(snapshot, kubeconfig, context, data, config)
    topologies: Topologies = {}
    if snapshot is None:
        meant = cluster_meant(kubeconfig, context, data)
        namespace = namespace_meant(namespace, meant, context)
        if any(each.kind == _SET for each in manifests):
            topologies = asyncio.run(_topologies(meant, context))
    if namespace:
        manifests = [replace(each, usual_namespace=namespace) for each in manifests]
    now = rfc3339(datetime.fromtimestamp(picture.now, UTC))
    drafting = Drafting(
        now,
        picture.priorities,
        {**topologies, **_bindings(manifests)},
        never_preempting=picture.never_preempting,
        process_nodes=[
            node for node in picture.nodes if any(each.key == KEY for each in node.taints)
        ],
    )
    drafting.take(manifests)
    drafts = drafting.drafts
    if not drafts.pods and not drafts.gangs:
        where = ", ".join(map(str, files))
        raise CommandFailed(f"nothing in {where} needs a place: no pods, and nothing that has any")
    drafts.gangs += gangs_of_groups(drafts.groups, drafts.pods, drafts.gangs)
    groups = set(map(ref_of, drafts.groups))
    decided = what_if(_beside(picture, drafts), drafts.pods, drafts.gangs, groups)
    return Planned(decided, drafts.notes)


def _beside(picture: Picture, drafts: Drafts) -> Picture:
    """The picture without what comes anew, and with the queues that come."""
    coming = set(names_of(drafts.pods, drafts.gangs))
    placed = {booking.pod for booking in picture.bookings} & coming
    placed |= {one.gang.name for one in picture.standing} & coming
    if placed:
        raise CommandFailed(
            f"{min(placed)} is there and has its place: see `kilonova why`, or plan under "
            "another name"
        )
    again = coming | set(map(lone_name, coming))
    specs = {queue.name: queue for queue in picture.queues}
    specs |= {queue.metadata.name: spec_of(queue) for queue in drafts.queues}
    return replace(
        picture,
        waiting=tuple(gang for gang in picture.waiting if gang.name not in again),
        queues=tuple(spec for _, spec in sorted(specs.items())),
    )


def _bindings(manifests: list[Manifest]) -> Topologies:
    found = (each for each in manifests if each.kind == _BINDING)
    return {each.name: _binding(each) for each in found}


def _binding(manifest: Manifest) -> ClusterTopologyBinding:
    metadata = {"uid": "", "resourceVersion": "", **manifest.body["metadata"]}
    try:
        return msgspec.convert({**manifest.body, "metadata": metadata}, ClusterTopologyBinding)
    except msgspec.ValidationError as error:
        raise CommandFailed(f"{manifest.where}: {_BINDING}: {error}") from error


async def _topologies(kubeconfig: Path | None, context: str | None) -> Topologies:
    with explained("look", f"; whoever plans sets must be able to list {TOPOLOGIES.full_name}"):
        async with connect(kubeconfig, context) as client:
            try:
                listing = await client.list(TOPOLOGIES)
            except NotFound:
                return {}
            return {each.metadata.name: each for each in listing.items}
