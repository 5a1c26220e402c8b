"""`kilonova run scheduler` as typed."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.runoptions import Context, HealthPort, Kubeconfig, LeaderElect, LogFormat


def scheduler(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A SchedulerConfiguration; options count more."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Where its Lease is.  [default: kilonova-system]"),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Place pods whose schedulerName is this; may be given again.  "
            "[default: kilonova-scheduler]",
        ),
    ] = None,
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Lease that it holds.  [default: kilonova-scheduler]"),
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Run the scheduler, until SIGTERM or Ctrl-C.

    Its kinds must be there: `kilonova install` brings them. Several copies may run; the one that
    holds the Lease decides, the others know all that it knows and go on where it ends.
    `deploy/scheduler` runs it inside of a cluster.

    \b
    Examples:
      kilonova run scheduler
      kilonova run scheduler --kubeconfig ./kubeconfig --config scheduler.yaml
      kilonova run scheduler --name kilonova-scheduler --name default-scheduler
    """
    from kilonova.cli.process import HEALTH_PORT, NAMESPACE, Election
    from kilonova.cli.schedulerconfig import read_scheduler_configuration
    from kilonova.cli.schedulerprocess import NAME, SchedulerOptions, run_scheduler
    from kilonova.scheduler.settings import Settings

    read = None if config is None else read_scheduler_configuration(config.expanduser())
    settings = Settings() if read is None else read.settings()
    if name:
        settings = replace(settings, serves=frozenset(name))
    run_scheduler(
        SchedulerOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace or NAMESPACE,
            health_port=HEALTH_PORT if health_port is None else health_port,
            election=None if leader_elect is False else Election(lease or NAME),
            log_format=log_format,
            log_level=None if read is None else read.log_level,
            settings=settings,
        )
    )
