"""The command `kilonova run topology`."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.process.flags import Context, HealthPort, Kubeconfig, LogFormat


def topology(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    address: Annotated[
        str, typer.Option(metavar="IP", help="Address to listen on; 0.0.0.0 is all.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port of HTTPS; 0 for any free."),
    ] = 8443,
    grpc_port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port of gRPC; 0 for any free."),
    ] = 8444,
    grpc: Annotated[bool, typer.Option("--grpc/--no-grpc", help="Serve gRPC.")] = True,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with tls.crt, tls.key and ca.crt, read again when they change.  [default: "
            "made in --state-dir]",
            file_okay=False,
        ),
    ] = None,
    state_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder for a certificate of its own; clients trust DIR/ca.crt.",
            file_okay=False,
        ),
    ] = Path("/var/lib/kilonova/topology"),
    name: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="DNS name or IP in that certificate; may be repeated.  [default: localhost, "
            "127.0.0.1]",
        ),
    ] = None,
    health_port: HealthPort = None,
    log_format: LogFormat = None,
) -> None:
    """Serve the GPUs of the cluster to read, until SIGTERM or Ctrl-C.

    All nodes with their GPUs and links, one node, and the best set for a number of GPUs as the
    scheduler would choose it now; nothing is reserved. A caller sends a bearer token of the cluster
    and needs `get` on the path: see deploy/topology.

    \b
    Examples:
      kilonova run topology --state-dir ./topology
      TOKEN=$(kubectl create token reader)
      curl --cacert ./topology/ca.crt -H "Authorization: Bearer $TOKEN" \\
        'https://localhost:8443/v1/best-set?gpus=8&preference=NVLinkRequired'
    """
    from kilonova.component.process.process import HEALTH_PORT, NAMESPACE
    from kilonova.gpu.topologyservice.process import (
        TopologyOptions,
        certificate_source,
        run_topology,
    )

    names = tuple(name or ("localhost", "127.0.0.1"))
    run_topology(
        TopologyOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=NAMESPACE,
            health_port=HEALTH_PORT if health_port is None else health_port,
            election=None,
            log_format=log_format,
            address=address,
            port=port,
            grpc_port=grpc_port if grpc else None,
            certificates=certificate_source(certs, state_dir, names),
        )
    )
