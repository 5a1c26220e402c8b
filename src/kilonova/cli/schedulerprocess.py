"""`kilonova run scheduler`: the scheduler as a process of its own, for any cluster."""

from dataclasses import dataclass

from kilonova.cli.preflight import require_installed
from kilonova.cli.process import Process, ProcessOptions, run_process
from kilonova.scheduler.objects import GANGS, QUEUES
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings

NAME = "kilonova-scheduler"
"""Of its Lease, as `deploy/scheduler` has it, and of who writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerOptions(ProcessOptions):
    """A scheduler to run."""

    settings: Settings


def run_scheduler(options: SchedulerOptions) -> None:
    """Run until asked to stop; `CommandFailed` when it cannot, or can no longer."""

    async def assemble(process: Process) -> None:
        await require_installed(process.client, (GANGS, QUEUES))
        scheduler = build_scheduler(process.leading, options.settings, instruments=process.metrics)
        process.manager.add(*scheduler.parts)
        process.manager.add_leading(*scheduler.leading)

    run_process(NAME, options, assemble)
