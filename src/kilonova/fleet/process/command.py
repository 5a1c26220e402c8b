"""The commands `kilonova run fleet`, `kilonova nebula` and `kilonova run member`."""

from typing import Annotated

import typer

from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)

Endpoint = Annotated[
    str,
    typer.Option(
        "--global-leader-elect-endpoint",
        metavar="URL",
        envvar="GLOBAL_LEADER_ELECT_ENDPOINT",
        help="The store of the fleet, which none of its clusters is: s3://BUCKET/PREFIX, a "
        "directory, kubernetes://NAMESPACE?context=NAME, or three of them, separated by commas, of "
        "which two suffice. @FILE reads it from a file, also while running.",
    ),
]


def fleet(
    endpoint: Endpoint,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    register_members: Annotated[
        bool,
        typer.Option(
            "--register-members/--no-register-members",
            help="Create a Cluster for each member that reports and has none.",
        ),
    ] = False,
    identity: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its name in elections.  [default: host and random]"),
    ] = "",
    health_port: HealthPort = None,
    log_format: LogFormat = None,
) -> None:
    """Run the manager of a fleet (Nebula), until SIGTERM or Ctrl-C.

    The cluster of the kubeconfig is its hub, on which Releases, Deployments and Clusters are
    declared. Of all managers that use the same store, in any region, one leads. Its CRDs must be
    installed (`kilonova install --components fleet`). `deploy/fleet` runs it inside of a cluster.

    \b
    Examples:
      kilonova nebula --global-leader-elect-endpoint s3://fleet/prod
      kilonova run fleet --global-leader-elect-endpoint @/etc/kilonova/endpoint
    """
    from kilonova.component.process.process import HEALTH_PORT, ProcessOptions
    from kilonova.fleet.process.process import FleetOptions, run_fleet

    process = ProcessOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace="",
        health_port=HEALTH_PORT if health_port is None else health_port,
        election=None,
        log_format=log_format,
    )
    run_fleet(FleetOptions(process, endpoint, identity, register_members=register_members))


def nebula(
    endpoint: Endpoint,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    register_members: Annotated[
        bool,
        typer.Option(
            "--register-members/--no-register-members",
            help="Create a Cluster for each member that reports and has none.",
        ),
    ] = False,
    identity: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its name in elections.  [default: host and random]"),
    ] = "",
    health_port: HealthPort = None,
    log_format: LogFormat = None,
) -> None:
    """Run the manager of a fleet: the same as `kilonova run fleet`.

    \b
    Example:
      kilonova nebula --global-leader-elect-endpoint s3://fleet/prod
    """
    fleet(endpoint, kubeconfig, context, register_members, identity, health_port, log_format)


def member(
    endpoint: Endpoint,
    cluster_name: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The name of this cluster in the fleet: that of its Cluster."
        ),
    ],
    region: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Its region, for a manager that registers members by themselves."
        ),
    ] = "",
    console_url: Annotated[
        str, typer.Option(metavar="URL", help="The address of its console, likewise.")
    ] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str,
        typer.Option(metavar="NAME", help="Namespace of its Lease and of the accepted epoch."),
    ] = "kilonova-system",
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    log_format: LogFormat = None,
) -> None:
    """Run the agent of a member of a fleet, until SIGTERM or Ctrl-C.

    It reads from the store what this cluster is to run, and writes there what it runs; nothing
    connects to the cluster. The CRDs must be installed (`kilonova install --components member`).
    `deploy/member` runs it inside of a cluster.

    \b
    Example:
      kilonova run member --cluster-name eu-1 --global-leader-elect-endpoint s3://fleet/prod
    """
    from kilonova.component.process.process import HEALTH_PORT, ElectionOptions, ProcessOptions
    from kilonova.fleet.member import MemberSettings
    from kilonova.fleet.process.process import run_member

    process = ProcessOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        health_port=HEALTH_PORT if health_port is None else health_port,
        election=None if leader_elect is False else ElectionOptions("kilonova-member"),
        log_format=log_format,
    )
    settings = MemberSettings(cluster_name, region=region, console=console_url, namespace=namespace)
    run_member(process, endpoint, settings)
