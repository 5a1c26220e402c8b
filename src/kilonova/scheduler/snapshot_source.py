"""The snapshot that a command works on: captured from a cluster, or read from a file."""

import asyncio
from dataclasses import replace
from pathlib import Path

from kilonova.api import grove
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.command.cluster_selection import resolve_kubeconfig
from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.component.scheduler_names import is_embedded
from kilonova.kube import Client, Forbidden, NotFound, Resource, connect
from kilonova.scheduler.library.snapshots.capture import CapturedSnapshot, capture_snapshot
from kilonova.scheduler.library.snapshots.file import InvalidSnapshotFile, load_snapshot_file
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.topology_levels import select_bound_levels
from kilonova.scheduler.process.config import read_scheduler_configuration
from kilonova.scheduler.score_plugins import build_scoring
from kilonova.scheduler.settings import EMBEDDED_SETTINGS, SchedulerSettings

_TOPOLOGY_BINDINGS = Resource(
    grove.GROUP,
    grove.VERSION,
    "clustertopologybindings",
    "ClusterTopologyBinding",
    False,
    grove.ClusterTopologyBinding,
)
_PERMISSION_HINT = "; listing nodes, pods, podgangs and queues must be allowed"


def load_snapshot(
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    config: Path | None = None,
) -> ClusterSnapshot:
    """The snapshot in a file, if one is given, else of the selected cluster."""
    return capture_or_load(snapshot, kubeconfig, context, data, config).cluster_snapshot


def capture_or_load(
    snapshot: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
    config: Path | None = None,
) -> CapturedSnapshot:
    """Like `load_snapshot`, with the API objects behind it, which a snapshot file lacks."""
    if snapshot is None:
        return capture_cluster(kubeconfig, context, data, config)
    if kubeconfig is not None or context is not None:
        raise WrongUsage("--snapshot and --kubeconfig or --context exclude each other")
    loaded = read_snapshot_file(snapshot)
    if config is None:
        return CapturedSnapshot(loaded, ())
    settings = read_scheduler_settings(config)
    return CapturedSnapshot(loaded.with_rules(settings.policy, build_scoring(settings.weights)), ())


def read_scheduler_settings(config: Path | None) -> SchedulerSettings:
    """Scheduler settings of a configuration file, or the defaults."""
    if config is None:
        return SchedulerSettings()
    return read_scheduler_configuration(config.expanduser()).to_settings()


def read_snapshot_file(path: Path) -> ClusterSnapshot:
    """The snapshot in a file; `CommandFailed` if it cannot be read."""
    try:
        return load_snapshot_file(path.expanduser())
    except InvalidSnapshotFile as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}") from error


def capture_cluster(
    kubeconfig: Path | None, context: str | None, data: Path | None, config: Path | None = None
) -> CapturedSnapshot:
    """Capture a snapshot of the selected cluster."""
    settings = None if config is None else read_scheduler_settings(config)
    return asyncio.run(
        _connect_and_capture(resolve_kubeconfig(kubeconfig, context, data), context, settings)
    )


async def _connect_and_capture(
    kubeconfig: Path | None, context: str | None, settings: SchedulerSettings | None
) -> CapturedSnapshot:
    with translate_cluster_errors("read from", _PERMISSION_HINT):
        async with connect(kubeconfig, context) as client:
            return await capture_connected(client, settings)


async def capture_connected(
    client: Client, settings: SchedulerSettings | None = None
) -> CapturedSnapshot:
    """Capture a snapshot with the levels of the cluster's topology."""
    captured = await capture_snapshot(client, settings or await default_scheduler_settings(client))
    levels = await _list_topology_levels(client)
    return replace(
        captured, cluster_snapshot=replace(captured.cluster_snapshot, topology_levels=levels)
    )


async def _list_topology_levels(client: Client) -> tuple[str, ...]:
    """The levels of the cluster's topology; none if it has none, or they may not be listed."""
    try:
        listing = await client.list(_TOPOLOGY_BINDINGS, on_undecodable=lambda _: None)
    except (Forbidden, NotFound):
        return ()
    return select_bound_levels(listing.items)


async def default_scheduler_settings(client: Client) -> SchedulerSettings:
    """The settings of an unconfigured scheduler on this cluster."""
    return EMBEDDED_SETTINGS if await is_embedded(client) else SchedulerSettings()
