"""Rows of clusters, global deployments and releases. Pure."""

import msgspec

from kilonova.api import fleet
from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment, Release
from kilonova.component.console import Row
from kilonova.component.console.values import (
    ConditionRow,
    condition_rows,
    parse_timestamp,
)


class AcceleratorRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Accelerators of a cluster."""

    resource: str
    total: int
    free: int


class ClusterRow(Row, frozen=True, gc=False, kw_only=True):
    """A cluster. Its id is its name."""

    region: str = ""
    health: str = "Unknown"
    reason: str = ""
    cordoned: bool = False
    evacuated: bool = False
    weight: int = 0
    instances: int = 0
    ready: int = 0
    nodes: int | None = None
    accelerators: tuple[AcceleratorRow, ...] = ()
    console: str = ""
    """The address of its console."""
    epoch: int | None = None
    last_seen: float | None = None
    created: float | None = None
    conditions: tuple[ConditionRow, ...] = ()


def cluster_row(cluster: Cluster) -> ClusterRow:
    """The row of a cluster."""
    metadata, spec, status = cluster.metadata, cluster.spec, cluster.status
    return ClusterRow(
        id=metadata.name,
        region=spec.region,
        health=status.health,
        reason=status.reason,
        cordoned=spec.cordoned,
        evacuated=spec.evacuated,
        weight=spec.weight,
        instances=status.instances,
        ready=status.ready_instances,
        nodes=status.nodes,
        accelerators=tuple(
            AcceleratorRow(resource=each.resource, total=each.total, free=each.free)
            for each in status.accelerators
        ),
        console=metadata.annotations.get(fleet.CONSOLE, ""),
        epoch=status.epoch,
        last_seen=parse_timestamp(status.last_seen),
        created=parse_timestamp(metadata.creation_timestamp),
        conditions=condition_rows(status.conditions),
    )


class MemberRow(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """A global deployment in one cluster."""

    cluster: str
    desired: int
    observed: int
    ready: int
    release: str
    health: str
    last_seen: float | None
    reason: str


class WaveRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A wave of a rollout."""

    name: str
    phase: str
    clusters: str
    started: float | None
    message: str


class RevisionRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A release that was rolled out."""

    revision: int
    release: str
    health: str
    since: float | None


class GlobalDeploymentRow(Row, frozen=True, gc=False, kw_only=True):
    """A global deployment. Its id is `namespace/name`."""

    release: str = ""
    wave: str = ""
    desired: int = 0
    observed: int = 0
    ready: int = 0
    unallocatable: int = 0
    relocated: int = 0
    masked: tuple[str, ...] = ()
    clusters: tuple[MemberRow, ...] = ()
    waves: tuple[WaveRow, ...] = ()
    history: tuple[RevisionRow, ...] = ()
    created: float | None = None
    conditions: tuple[ConditionRow, ...] = ()


def global_deployment_row(deployment: Deployment) -> GlobalDeploymentRow:
    """The row of a global deployment."""
    metadata, spec, status = deployment.metadata, deployment.spec, deployment.status
    return GlobalDeploymentRow(
        id=f"{metadata.namespace}/{metadata.name}",
        release=status.release or spec.release,
        wave=status.current_wave,
        desired=status.desired,
        observed=status.observed,
        ready=status.ready,
        unallocatable=status.unallocatable,
        relocated=status.relocated,
        masked=spec.mask,
        clusters=tuple(
            MemberRow(
                cluster=each.cluster,
                desired=each.desired,
                observed=each.observed,
                ready=each.ready,
                release=each.observed_release or each.release,
                health="Healthy" if each.reachable else "Lost",
                last_seen=parse_timestamp(each.last_seen),
                reason=each.reason,
            )
            for each in status.clusters
        ),
        waves=tuple(
            WaveRow(
                name=each.name,
                phase=each.phase,
                clusters=", ".join(each.clusters),
                started=parse_timestamp(each.started),
                message=each.message,
            )
            for each in status.waves
        ),
        history=tuple(
            RevisionRow(
                revision=each.revision,
                release=each.release,
                health=each.health,
                since=parse_timestamp(each.since),
            )
            for each in status.history
        ),
        created=parse_timestamp(metadata.creation_timestamp),
        conditions=condition_rows(status.conditions),
    )


class ReleaseClusterRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A cluster that runs a release."""

    cluster: str
    instances: int
    ready: int
    since: float | None


class ReleaseRow(Row, frozen=True, gc=False, kw_only=True):
    """A release. Its id is `namespace/name`."""

    model: str
    build: str = ""
    image: str = ""
    tokenizer: str = ""
    health: str = "Unknown"
    masked: bool = False
    instances: int = 0
    clusters: tuple[ReleaseClusterRow, ...] = ()
    created: float | None = None


def release_row(release: Release) -> ReleaseRow:
    """The row of a release."""
    metadata, spec, status = release.metadata, release.spec, release.status
    return ReleaseRow(
        id=f"{metadata.namespace}/{metadata.name}",
        model=spec.model,
        build=spec.build,
        image=spec.image,
        tokenizer=spec.tokenizer,
        health=status.health,
        masked=status.masked,
        instances=sum(each.instances for each in status.clusters),
        clusters=tuple(
            ReleaseClusterRow(
                cluster=each.cluster,
                instances=each.instances,
                ready=each.ready,
                since=parse_timestamp(each.since),
            )
            for each in status.clusters
        ),
        created=parse_timestamp(metadata.creation_timestamp),
    )
