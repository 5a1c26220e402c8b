"""The controllers of GPU objects as a part of `kilonova run operator`."""

from kilonova.component.process.process import Process
from kilonova.gpu.controllers import build_gpu_controllers
from kilonova.gpu.controllers.metrics import WorkloadMetrics


async def assemble_gpu_controllers(process: Process) -> None:
    """Add the controllers; the leader writes."""
    controllers = build_gpu_controllers(process.leader_client, runtime_metrics=process.metrics)
    process.manager.add(*controllers.runnables)
    process.manager.add_leader_runnables(
        *controllers.leader_runnables,
        WorkloadMetrics(controllers.caches, process.metrics.registry),
    )
