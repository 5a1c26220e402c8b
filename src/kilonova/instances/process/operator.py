"""The controllers of inference engines as a part of `kilonova run operator`."""

from kilonova.component.process.process import Process
from kilonova.instances.artifact_sources import ArtifactSources
from kilonova.instances.assembly import build_instance_controllers
from kilonova.instances.settings import InstanceSettings


async def assemble_instance_controllers(process: Process) -> None:
    """Add the controllers. Builds come from where the environment says."""
    add_controllers(process, ArtifactSources.from_environment())


def add_controllers(process: Process, sources: ArtifactSources) -> None:
    """Add the controllers to a process; the leader writes."""
    controllers = build_instance_controllers(
        process.leader_client,
        InstanceSettings(load_build=sources.load_build if sources.builds else None),
        runtime_metrics=process.metrics,
        registry=process.metrics.registry,
    )
    process.manager.add(*controllers.runnables)
    process.manager.add_leader_runnables(*controllers.leader_runnables)
