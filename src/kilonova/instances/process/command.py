"""The command `kilonova supernova`."""

from typing import Annotated

import typer

from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)


def supernova(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of its Lease.")
    ] = "kilonova-system",
    builds: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Where builds are: a directory, s3://BUCKET/PREFIX or oci://REGISTRY/REPOSITORY.",
            envvar="KILONOVA_BUILDS",
        ),
    ] = "",
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    log_format: LogFormat = None,
) -> None:
    """Run the controllers of instances and deployments alone.

    `kilonova run operator` runs them, too, with their webhooks: it must not run in the same
    cluster. Their CRDs must be installed (`kilonova install --components instances,scheduler`).
    Several replicas may run; the leader does the work.

    \b
    Examples:
      kilonova supernova
      kilonova supernova --kubeconfig ./kubeconfig --builds s3://models/builds
      kilonova supernova --no-leader-elect --health-port 0
    """
    from kilonova.component.process.process import HEALTH_PORT, ElectionOptions, ProcessOptions
    from kilonova.instances.process.supernova import LEASE, run_supernova

    run_supernova(
        ProcessOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            health_port=HEALTH_PORT if health_port is None else health_port,
            election=None if leader_elect is False else ElectionOptions(LEASE),
            log_format=log_format,
        ),
        builds,
    )
