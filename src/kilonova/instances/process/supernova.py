"""`kilonova supernova`: the controllers of inference engines as a process of their own."""

from datetime import UTC, datetime, timedelta

from kilonova.api.times import parse_time
from kilonova.component.failure import CommandFailed
from kilonova.component.process.preflight import require_installed
from kilonova.component.process.process import Process, ProcessOptions, run_process
from kilonova.component.registry import find_components
from kilonova.instances.artifact_sources import ArtifactSources
from kilonova.instances.process.operator import add_controllers
from kilonova.instances.resources import (
    DEPLOYMENTS,
    GANGS,
    INSTANCES,
    RELEASES,
    RESERVATIONS,
    TOPOLOGY_BINDINGS,
)
from kilonova.kube.election import ApiLeaseStore

LEASE = "kilonova-supernova"
_OPERATOR = "operator"


def run_supernova(options: ProcessOptions, builds: str) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        await require_installed(
            process.client,
            (INSTANCES, DEPLOYMENTS, RELEASES, GANGS, RESERVATIONS, TOPOLOGY_BINDINGS),
        )
        await _require_no_operator(process, options.namespace)
        add_controllers(process, ArtifactSources.from_environment(builds=builds))

    run_process(LEASE, options, assemble)


async def _require_no_operator(process: Process, namespace: str) -> None:
    """Two processes, each with a leader of its own, would both create instances."""
    for name in _list_operator_leases():
        stored = await ApiLeaseStore(process.client, name, namespace).read()
        if stored is None or not stored.record.holder:
            continue
        record = stored.record
        respected = timedelta(seconds=2 * record.duration_seconds)
        if record.renewed and datetime.now(UTC) - parse_time(record.renewed) < respected:
            problem = f"the operator runs these controllers already: {record.holder} holds the "
            fix = "stop it, or leave the controllers to it"
            raise CommandFailed(f"{problem}Lease {namespace}/{name}; {fix}")


def _list_operator_leases() -> list[str]:
    return [
        each.process.lease
        for each in find_components()
        if each.process is not None and each.process.name == _OPERATOR and each.process.lease
    ]
