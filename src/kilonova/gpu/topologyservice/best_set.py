"""The best set for a number of GPUs, as the scheduler would choose it now.

The question becomes pods: one where a node of the cluster has that many GPUs, else as many equal
ones as are needed, close together. The scheduler's placement decides on its own state, in a trial
that is rolled back.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.gpu.topologyservice.views import DOMAIN_LABELS, NodeView
from kilonova.scheduler.core.gpu.device_sets import MAX_DEVICES
from kilonova.scheduler.core.gpu.layout import GpuLayout
from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint
from kilonova.scheduler.core.model.label_columns import ABSENT
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.model.taints import Toleration
from kilonova.scheduler.core.placement.placer import Placer

MAX_GPUS = 65_536
"""The largest number of GPUs that may be asked for."""
ViewLookup: TypeAlias = Callable[[str], NodeView | None]
"""Finds the view of a node."""

_RACK, _CLIQUE = DOMAIN_LABELS[-2:]
_GPU_NODES = Toleration(key=GPU, operator="Exists")


class InvalidQuery(ValueError):
    """A parameter of a question is invalid: which one, and what it may be."""


@dataclass(frozen=True, slots=True)
class SetQuery:
    """What is asked for."""

    gpus: int
    preference: GpuPreference = GpuPreference.NONE
    models: tuple[str, ...] = ()
    architecture: str = ""
    min_memory_mib: int = 0
    min_bandwidth_gbps: int = 0
    profile: str = ""
    """A MIG profile; then `gpus` counts instances."""
    per_node: int = 0
    """GPUs of each pod where one node is not enough; 0 is as many as fit."""


class ChosenSet(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """GPUs of one node."""

    node: str
    gpus: tuple[int, ...]
    uuids: tuple[str, ...]
    """Of the GPUs; empty where the node does not publish them."""
    score: float
    """How well the set meets the preference, 0 to 100."""
    bandwidth_gbps: float | None = None
    """What each GPU can exchange with the others of the node at once; None for a single GPU, and
    if it is unknown."""
    starts: tuple[int, ...] = ()
    """The first memory slice of each MIG instance."""


class BestSet(msgspec.Struct, frozen=True, rename="camel"):
    """The answer: the chosen sets, or why there is none."""

    sets: tuple[ChosenSet, ...]
    reason: str = ""


def build_request_gang(query: SetQuery, layouts: Sequence[GpuLayout], *, has_cliques: bool) -> Gang:
    """The pods of a question. `layouts` are those of the cluster's nodes."""
    per_pod = 1 if query.profile else query.per_node or _gpus_per_pod(query, layouts)
    if query.gpus % per_pod:
        raise InvalidQuery(
            f"perNode: {per_pod} GPUs per node do not divide {query.gpus}; "
            f"use a divisor of {query.gpus}"
        )
    shape = _build_shape(query, per_pod)
    count = query.gpus // per_pod
    members = tuple(Member(f"topology/query-{index}", shape) for index in range(count))
    pack = PackConstraint(preferred=_CLIQUE if has_cliques else _RACK)
    group = Group("gpus", members, count)
    return Gang("topology/query", (group,), pack if count > 1 else PackConstraint())


def find_best_set(
    snapshot: Snapshot, placer: Placer, query: SetQuery, find_view: ViewLookup
) -> BestSet:
    """Where the pods of the question would be placed; the snapshot is as before afterwards."""
    numbers: list[int] = np.unique(snapshot.layouts[: snapshot.size]).tolist()
    layouts = [snapshot.layout_of[number] for number in numbers]
    has_cliques = bool((snapshot.labels.column(_CLIQUE).codes != ABSENT).any())
    gang = build_request_gang(query, layouts, has_cliques=has_cliques)
    trial = snapshot.begin_trial()
    try:
        placed = placer.place(gang)
    finally:
        snapshot.rollback(trial)
    if placed is None:
        return BestSet((), _explain(query))
    chosen = [_describe(snapshot, each, find_view) for each in placed]
    return BestSet(tuple(sorted(chosen, key=lambda each: (each.node, each.gpus, each.starts))))


def _gpus_per_pod(query: SetQuery, layouts: Sequence[GpuLayout]) -> int:
    """All of them where a node has as many, else the most that divide the number evenly."""
    request = _build_gpu_request(query, 1)
    most = max((layout.eligible_devices(request).bit_count() for layout in layouts), default=0)
    return next((size for size in range(min(most, query.gpus), 0, -1) if query.gpus % size == 0), 1)


def _build_shape(query: SetQuery, per_pod: int) -> Shape:
    requests = {PODS: 1} if query.profile else {PODS: 1, GPU: per_pod}
    return Shape(
        tuple(sorted(requests.items())),
        _build_gpu_request(query, per_pod),
        tolerations=(_GPU_NODES,),
    )


def _build_gpu_request(query: SetQuery, count: int) -> GpuRequest:
    return GpuRequest(
        count,
        profile=query.profile,
        memory=query.min_memory_mib,
        models=query.models,
        architecture=query.architecture,
        preference=query.preference,
        bandwidth=query.min_bandwidth_gbps,
    )


def _describe(snapshot: Snapshot, placed: PodPlacement, find_view: ViewLookup) -> ChosenSet:
    name, layout = snapshot.names[placed.row], snapshot.layout(placed.row)
    view, request = find_view(name), placed.shape.gpu
    indices = tuple(share.index for share in placed.devices)
    score, bandwidth = 100.0, None
    if request is not None and request.is_whole and 1 < len(layout.gpus) <= MAX_DEVICES:
        chosen = sum(1 << index for index in indices)
        score = layout.device_sets.score(chosen, request.preference)
        speed = float(layout.device_sets.bandwidth[chosen])
        bandwidth = speed if math.isfinite(speed) and speed > 0 else None
    uuids = () if view is None else tuple(view.gpus[index].uuid for index in indices)
    return ChosenSet(
        node=name,
        gpus=indices,
        uuids=uuids if all(uuids) else (),
        score=round(score, 1),
        bandwidth_gbps=bandwidth,
        starts=tuple(share.start for share in placed.devices if share.profile),
    )


def _explain(query: SetQuery) -> str:
    what = f"MIG instances {query.profile}" if query.profile else "GPUs"
    wanted = [f"{query.gpus} free {what}"]
    if query.models:
        wanted.append(f"of model {' or '.join(query.models)}")
    if query.architecture:
        wanted.append(f"of architecture {query.architecture}")
    if query.min_memory_mib:
        wanted.append(f"with at least {query.min_memory_mib} MiB each")
    if query.preference is GpuPreference.NVLINK_REQUIRED:
        wanted.append("connected by NVLink")
    if query.min_bandwidth_gbps:
        wanted.append(f"with at least {query.min_bandwidth_gbps} GB/s between them")
    return f"there are no {' '.join(wanted)}"
