"""The command `kilonova run operator`."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.failure import CommandFailed, WrongUsage
from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)


def operator(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Grove's OperatorConfiguration; flags take precedence."),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Namespace of its Lease and certificates.  [default: kilonova-system]",
        ),
    ] = None,
    webhook_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL at which the API server reaches this process if it runs outside of the "
            "cluster: https://HOST:PORT; it listens on that port.",
        ),
    ] = None,
    webhook_service: Annotated[
        str | None,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Service through which the API server reaches its webhooks.  [default: "
            "kilonova-operator in its namespace]",
        ),
    ] = None,
    webhooks: Annotated[
        bool,
        typer.Option(
            "--webhooks/--no-webhooks",
            help="Serve the webhooks that validate and default PodCliqueSets.",
        ),
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port of the webhooks.  [default: that of the URL, else 9443]",
        ),
    ] = None,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for its certificates, instead of a Secret.",
            file_okay=False,
        ),
    ] = None,
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Leader-election Lease.  [default: kilonova-operator]"),
    ] = None,
    startup_image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Image with a shell, for init containers that wait for other cliques.  "
            "[default: busybox]",
        ),
    ] = None,
    mnnvl: Annotated[
        bool | None,
        typer.Option(
            "--mnnvl/--no-mnnvl",
            help="Create ComputeDomains for GPU cliques (multi-node NVLink).  [default: no-mnnvl]",
            show_default=False,
        ),
    ] = None,
    topology: Annotated[
        bool | None,
        typer.Option(
            "--topology/--no-topology",
            help="Allow topology constraints.  [default: topology]",
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Scheduler that PodCliqueSets may name; for kai-scheduler and volcano their own "
            "objects are created. May be repeated.",
        ),
    ] = None,
    authorizer: Annotated[
        bool | None,
        typer.Option(
            "--authorizer/--no-authorizer",
            help="Forbid other users to change objects that the operator manages.  "
            "[default: no-authorizer]",
            show_default=False,
        ),
    ] = None,
    exempt_user: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="User exempt from --authorizer; may be repeated."),
    ] = None,
    log_format: LogFormat = None,
) -> None:
    """Run the PodCliqueSet operator, until SIGTERM or Ctrl-C.

    Its CRDs must be installed (`kilonova install`). Several replicas may run; the leader does the
    work. `deploy/operator` runs it inside of a cluster.

    Exits with 7 if --mnnvl is set and the cluster has no ComputeDomains.

    \b
    Examples:
      kilonova run operator
      kilonova run operator --kubeconfig ./kubeconfig --webhook-url https://10.0.0.5:9443
      kilonova run operator --no-webhooks --no-leader-elect
      kilonova run operator --config grove-operator.yaml
    """
    from kilonova.workloads.process.config import read_operator_configuration
    from kilonova.workloads.process.options import OperatorFlags, resolve_options
    from kilonova.workloads.process.process import run_operator

    flags = OperatorFlags(
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
    file = None if config is None else read_operator_configuration(config.expanduser())
    try:
        options = (
            resolve_options(flags) if file is None else resolve_options(flags, file.configuration)
        )
    except ValueError as error:
        in_flags = file is None or str(error).startswith("--")
        raise (WrongUsage if in_flags else CommandFailed)(str(error)) from error
    run_operator(options, ignored=() if file is None else file.ignored)
