"""The controllers of inference engines as a part of `kilonova run operator`."""

from kilonova.component.process.process import Process
from kilonova.instances.assembly import build_instance_controllers


async def assemble_instance_controllers(process: Process) -> None:
    """Add the controllers; the leader writes."""
    controllers = build_instance_controllers(
        process.leader_client, runtime_metrics=process.metrics, registry=process.metrics.registry
    )
    process.manager.add(*controllers.runnables)
    process.manager.add_leader_runnables(*controllers.leader_runnables)
