"""Runs the manager, or the agent of a member, until it is stopped."""

from dataclasses import dataclass

from kilonova.component.failure import CommandFailed
from kilonova.component.process.preflight import require_installed, require_namespace
from kilonova.component.process.process import Process, ProcessOptions, run_process
from kilonova.fleet.manager import ManagerSettings, build_manager
from kilonova.fleet.manager import resources as hub_resources
from kilonova.fleet.member import MemberSettings, build_member
from kilonova.fleet.member import resources as member_resources
from kilonova.fleet.store import EndpointSource
from kilonova.objectstore import ObjectStoreError


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The options of a manager."""

    process: ProcessOptions
    endpoint: str
    identity: str
    register_members: bool


def run_fleet(options: FleetOptions) -> None:
    """Run the manager; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        source = _open_source(options.endpoint)
        await require_installed(process.client, list(hub_resources.RESOURCES.values()))
        manager = build_manager(
            process.client,
            source,
            ManagerSettings(register_members=options.register_members),
            identity=options.identity,
            registry=process.metrics.registry,
            runtime_metrics=process.metrics,
        )
        process.manager.add(*manager.runnables)

    run_process("kilonova-fleet", options.process, assemble)


def run_member(process_options: ProcessOptions, endpoint: str, settings: MemberSettings) -> None:
    """Run the agent; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        source = _open_source(endpoint)
        wanted = [member_resources.DEPLOYMENTS, member_resources.INSTANCES]
        await require_installed(process.client, wanted)
        await require_namespace(process.client, settings.namespace, "the accepted epoch")
        member = build_member(
            process.leader_client, settings, source, runtime_metrics=process.metrics
        )
        process.manager.add(*member.runnables)
        process.manager.add_leader_runnables(*member.leader_runnables)

    run_process("kilonova-member", process_options, assemble)


def _open_source(endpoint: str) -> EndpointSource:
    """The endpoint; `CommandFailed` if it is invalid now."""
    source = EndpointSource(endpoint)
    try:
        source.read()
    except ObjectStoreError as error:
        raise CommandFailed(str(error)) from error
    return source
