"""Where commands about builds get their snapshot, and how they allocate in it."""

import gc
from dataclasses import dataclass
from pathlib import Path

from kilonova.artifacts.builds import Build
from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
from kilonova.component.failure import CommandFailed
from kilonova.instances.alloc.allocation import Allocation, BuildRequest, allocate
from kilonova.instances.builders.engine import InvalidSpec
from kilonova.instances.commands.placement.strategies import state_constraints
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.snapshot_source import load_snapshot


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """A cluster, or a snapshot file."""

    snapshot: Path | None
    kubeconfig: Path | None
    context: str | None
    data: Path | None
    config: Path | None
    namespace: str | None

    def load_snapshot(self) -> ClusterSnapshot:
        """Read it; `CommandFailed` if that is not possible."""
        loaded = load_snapshot(self.snapshot, self.kubeconfig, self.context, self.data, self.config)
        gc.freeze()  # it lives as long as the command
        return loaded

    def find_namespace(self) -> str:
        """The namespace of instances."""
        if self.snapshot is not None:
            return self.namespace or "default"
        resolved = resolve_kubeconfig(self.kubeconfig, self.context, self.data)
        return resolve_namespace(self.namespace, resolved, self.context)


def allocate_build(
    build: Build, strategy: str, namespace: str, cluster_snapshot: ClusterSnapshot, limit: int
) -> Allocation:
    """Place copies of a build; `CommandFailed` if its instances would be invalid."""
    try:
        request = BuildRequest.of(build, namespace, strategy)
        constraints = state_constraints(request, cluster_snapshot)
        return allocate(request, constraints, cluster_snapshot, limit)
    except InvalidSpec as error:
        raise CommandFailed(f"build {build.id}: {error}") from error
