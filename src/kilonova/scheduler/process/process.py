"""`kilonova run scheduler`: the scheduler as a process of its own."""

from dataclasses import dataclass

from kilonova.component.process.preflight import require_installed
from kilonova.component.process.process import Process, ProcessOptions, run_process
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.objects.core_v1 import GANGS, QUEUES
from kilonova.scheduler.settings import SchedulerSettings

NAME = "kilonova-scheduler"
"""The name of the Lease, as in `deploy/scheduler`, and the field manager."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions(ProcessOptions):
    """Options of a scheduler process."""

    settings: SchedulerSettings


def run_scheduler(options: SchedulerOptions) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        await require_installed(process.client, (GANGS, QUEUES))
        scheduler = build_scheduler(
            process.leader_client, options.settings, runtime_metrics=process.metrics
        )
        process.manager.add(*scheduler.runnables)
        process.manager.add_leader_runnables(*scheduler.leader_runnables)

    run_process(NAME, options, assemble)
