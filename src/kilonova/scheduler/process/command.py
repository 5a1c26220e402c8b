"""The command `kilonova run scheduler`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)


def scheduler(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="SchedulerConfiguration; flags take precedence."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Namespace of its Lease.  [default: kilonova-system]"),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Schedule pods with this schedulerName; may be repeated.  "
            "[default: kilonova-scheduler]",
        ),
    ] = None,
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Leader-election Lease.  [default: kilonova-scheduler]"),
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Run the scheduler, until SIGTERM or Ctrl-C.

    Its CRDs must be installed (`kilonova install`). Several replicas may run: the leader schedules,
    the others keep their caches up to date and take over when it ends. `deploy/scheduler` runs it
    inside of a cluster.

    \b
    Examples:
      kilonova run scheduler
      kilonova run scheduler --kubeconfig ./kubeconfig --config scheduler.yaml
      kilonova run scheduler --name kilonova-scheduler --name default-scheduler
    """
    from kilonova.component.process.process import HEALTH_PORT, NAMESPACE, ElectionOptions
    from kilonova.scheduler.process.config import read_scheduler_configuration
    from kilonova.scheduler.process.process import NAME, SchedulerOptions, run_scheduler
    from kilonova.scheduler.settings import SchedulerSettings

    file = None if config is None else read_scheduler_configuration(config.expanduser())
    settings = SchedulerSettings() if file is None else file.to_settings()
    if name:
        settings = replace(settings, scheduler_names=frozenset(name))
    run_scheduler(
        SchedulerOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace or NAMESPACE,
            health_port=HEALTH_PORT if health_port is None else health_port,
            election=None if leader_elect is False else ElectionOptions(lease or NAME),
            log_format=log_format,
            log_level=None if file is None else file.log_level,
            settings=settings,
        )
    )
