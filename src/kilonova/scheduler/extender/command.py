"""The command `kilonova run extender`."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.failure import WrongUsage
from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)


def extender(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    address: Annotated[
        str,
        typer.Option(
            metavar="IP", help="Address to listen on; with 0.0.0.0 (all), use --tls-client-ca."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0 for any free."),
    ] = 8888,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Serving certificate; reloaded when it is renewed."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of the certificate.")
    ] = None,
    tls_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead, generate a CA and a certificate in this directory; kube-scheduler "
            "trusts DIR/ca.crt.",
            file_okay=False,
        ),
    ] = None,
    tls_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="DNS name or IP in the certificate of --tls-dir; may be repeated.  [default: the "
            "address, and localhost]",
        ),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CA bundle: require client certificates that it signed."),
    ] = None,
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of its Lease.")
    ] = "kube-system",
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print a KubeSchedulerConfiguration that uses this extender, and exit.",
        ),
    ] = False,
    log_format: LogFormat = None,
) -> None:
    """Run the scheduler extender for kube-scheduler, until SIGTERM or Ctrl-C.

    For clusters that keep kube-scheduler: the extender filters and scores nodes for pods with GPUs,
    selects preemption victims, and binds pods with their devices. Configure kube-scheduler with the
    output of --print-config. `deploy/extender` runs it inside of a cluster.

    \b
    Examples:
      kilonova run extender --kubeconfig ~/.kube/config
      kilonova run extender --kubeconfig ~/.kube/config --print-config > scheduler-config.yaml
      kilonova run extender --address 0.0.0.0 --tls-dir ./certs --tls-name extender.example.com
      curl 'http://127.0.0.1:8888/explain?pod=default/train-0'
    """
    from kilonova.component.process.process import HEALTH_PORT, ElectionOptions
    from kilonova.scheduler.extender.process import (
        NAME,
        ExtenderOptions,
        TlsOptions,
        format_configuration,
        run_extender,
    )

    try:
        tls = TlsOptions.from_flags(
            tls_cert, tls_key, tls_dir, tuple(tls_name or ()), tls_client_ca, address
        )
    except ValueError as error:
        raise WrongUsage(str(error)) from error
    options = ExtenderOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        health_port=HEALTH_PORT if health_port is None else health_port,
        election=None if leader_elect is False else ElectionOptions(NAME),
        log_format=log_format,
        address=address,
        port=port,
        tls=tls,
    )
    if print_config:
        typer.echo(format_configuration(options))
    else:
        run_extender(options)
