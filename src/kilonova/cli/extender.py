"""`kilonova run extender`: its options."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.failure import WrongUsage
from kilonova.cli.runoptions import Context, HealthPort, Kubeconfig, LeaderElect, LogFormat


def extender(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    address: Annotated[
        str,
        typer.Option(
            metavar="IP", help="Where it listens; 0.0.0.0 is everywhere. Then use --tls-client-ca."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="Port that it answers on; 0 takes a free one."
        ),
    ] = 8888,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate to serve with; read again when renewed."),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")] = None,
    tls_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead, keep an authority and a certificate in this folder; kube-scheduler "
            "trusts DIR/ca.crt.",
            file_okay=False,
        ),
    ] = None,
    tls_name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Name or IP in the certificate of --tls-dir; may be given again.  [default: the "
            "address, and localhost]",
        ),
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Let only those in who have a certificate of these authorities."
        ),
    ] = None,
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Where its Lease is.")
    ] = "kube-system",
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config",
            help="Print the KubeSchedulerConfiguration that leads to it, and end.",
        ),
    ] = False,
    log_format: LogFormat = None,
) -> None:
    """Answer kube-scheduler's questions about GPUs, until SIGTERM or Ctrl-C.

    For clusters that keep kube-scheduler: it asks this extender which nodes will do for a pod with
    GPUs, how good they are and whom to push out, and lets it write the binding with the devices.
    Tell kube-scheduler of it with what --print-config prints; `deploy/extender` runs it inside of a
    cluster.

    \b
    Examples:
      kilonova run extender --kubeconfig ~/.kube/config
      kilonova run extender --kubeconfig ~/.kube/config --print-config > scheduler-config.yaml
      kilonova run extender --address 0.0.0.0 --tls-dir ./certs --tls-name extender.example.com
      curl 'http://127.0.0.1:8888/explain?pod=default/train-0'
    """
    from kilonova.cli.extenderprocess import (
        NAME,
        ExtenderOptions,
        Tls,
        run_extender,
        written_configuration,
    )
    from kilonova.cli.process import HEALTH_PORT, Election

    try:
        tls = Tls.chosen(tls_cert, tls_key, tls_dir, tuple(tls_name or ()), tls_client_ca, address)
    except ValueError as error:
        raise WrongUsage(str(error)) from error
    options = ExtenderOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        health_port=HEALTH_PORT if health_port is None else health_port,
        election=None if leader_elect is False else Election(NAME),
        log_format=log_format,
        address=address,
        port=port,
        tls=tls,
    )
    if print_config:
        typer.echo(written_configuration(options))
    else:
        run_extender(options)
