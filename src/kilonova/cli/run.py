"""`kilonova run`: the parts of Kilonova as processes of their own, on any Kubernetes."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.extender import extender
from kilonova.cli.failure import CommandFailed, WrongUsage
from kilonova.cli.runconsole import console
from kilonova.cli.runoptions import Context, HealthPort, Kubeconfig, LeaderElect, LogFormat
from kilonova.cli.runscheduler import scheduler

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.command()(console)
app.command()(extender)
app.command()(scheduler)


@app.callback()
def run() -> None:
    """Run a part of Kilonova on a cluster, until it is asked to stop.

    \b
    Example:
      kilonova run operator --kubeconfig ~/.kube/config --webhook-url https://10.0.0.5:9443
    """


@app.command()
def operator(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Grove's OperatorConfiguration; options count more."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where its Lease and its certificates are.  [default: kilonova-system]",
        ),
    ] = None,
    webhook_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the API server reaches this process if it is outside of the cluster: "
            "https://HOST:PORT; it listens on that port.",
        ),
    ] = None,
    webhook_service: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Service through which the API server reaches it.  [default: kilonova-operator "
            "in its namespace]",
        ),
    ] = None,
    webhooks: Annotated[
        bool,
        typer.Option(
            "--webhooks/--no-webhooks",
            help="Check sets before they are stored, and fill in what they leave out.",
        ),
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port on which webhooks are answered.  [default: that of the URL, else 9443]",
        ),
    ] = None,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder in which it keeps its certificates, instead of a Secret.",
            file_okay=False,
        ),
    ] = None,
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Lease that it holds.  [default: kilonova-operator]"),
    ] = None,
    startup_image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Image with a shell, for pods that wait for other cliques.  [default: busybox]",
        ),
    ] = None,
    mnnvl: Annotated[
        bool | None,
        typer.Option(
            "--mnnvl/--no-mnnvl",
            help="Give GPU cliques compute domains for multi-node NVLink.  [default: no-mnnvl]",
            show_default=False,
        ),
    ] = None,
    topology: Annotated[
        bool | None,
        typer.Option(
            "--topology/--no-topology",
            help="Take topology constraints.  [default: topology]",
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Scheduler that sets may name; kai-scheduler and volcano get their own objects. "
            "May be given again.",
        ),
    ] = None,
    authorizer: Annotated[
        bool | None,
        typer.Option(
            "--authorizer/--no-authorizer",
            help="Let nobody else change what the operator made.  [default: no-authorizer]",
            show_default=False,
        ),
    ] = None,
    exempt_user: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Somebody who may, nevertheless; may be given again."),
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Run the operator of PodCliqueSets, until SIGTERM or Ctrl-C.

    Its kinds must be there: `kilonova install` brings them. Several copies may run; the one that
    holds the Lease works. `deploy/operator` runs it inside of a cluster.

    Exits with 7 when --mnnvl is asked for and the cluster has no ComputeDomains.

    \b
    Examples:
      kilonova run operator
      kilonova run operator --kubeconfig ./kubeconfig --webhook-url https://10.0.0.5:9443
      kilonova run operator --no-webhooks --no-leader-elect
      kilonova run operator --config grove-operator.yaml
    """
    from kilonova.cli.operatorconfig import read_configuration
    from kilonova.cli.operatoroptions import Asked, choose
    from kilonova.cli.operatorprocess import run_operator

    asked = Asked(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        webhook_url=webhook_url,
        webhook_service=webhook_service,
        webhooks=webhooks,
        port=port,
        certs=certs,
        health_port=health_port,
        leader_elect=leader_elect,
        lease=lease,
        startup_image=startup_image,
        mnnvl=mnnvl,
        topology=topology,
        schedulers=tuple(scheduler or ()),
        authorizer=authorizer,
        exempt_users=tuple(exempt_user or ()),
        log_format=log_format,
    )
    read = None if config is None else read_configuration(config.expanduser())
    try:
        options = choose(asked) if read is None else choose(asked, read.configuration)
    except ValueError as error:
        by_options = read is None or str(error).startswith("--")
        raise (WrongUsage if by_options else CommandFailed)(str(error)) from error
    run_operator(options, ignored=() if read is None else read.ignored)
