"""The command `kilonova run agent`."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.component.failure import WrongUsage
from kilonova.component.process.flags import Context, HealthPort, Kubeconfig, LogFormat


def agent(
    node_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            envvar="NODE_NAME",
            help="The Node that this machine is, from the field spec.nodeName of the pod.",
        ),
    ] = "",
    backend: Annotated[
        str,
        typer.Option(
            metavar="nvml|simulated:PERSONA|recorded:FILE",
            help="The way to the GPUs: the driver, simulated hardware (`h100`, `a100-40:4`), or "
            "recorded readings.",
        ),
    ] = "nvml",
    dcgm: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Take measurements from a DCGM exporter on this node that runs already, such as "
            "http://localhost:9400/metrics; profiling counters have one reader.  [default: the "
            "backend measures]",
            show_default=False,
        ),
    ] = "",
    state_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Folder for the journal of MIG instances and for what containers have; one agent "
            "alone may use it.",
            file_okay=False,
        ),
    ] = Path("/var/lib/kilonova/agent"),
    kubelet_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="The kubelet's folder.", file_okay=False)
    ] = Path("/var/lib/kubelet"),
    cdi_dir: Annotated[
        Path,
        typer.Option(
            metavar="DIR", help="Folder in which the runtime finds CDI specs.", file_okay=False
        ),
    ] = Path("/var/run/cdi"),
    device_plugin: Annotated[
        bool,
        typer.Option(
            "--device-plugin/--no-device-plugin",
            help="Serve nvidia.com/gpu and nvidia.com/mig-* to the kubelet; without it, the agent "
            "writes them to the Node itself.",
        ),
    ] = True,
    shares_per_gpu: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=48,
            help="Offer N shares of each GPU as nvidia.com/gpu.shared, for pods that request a "
            "part of one; their limits are kept by MPS.",
        ),
    ] = 0,
    dra: Annotated[
        bool, typer.Option("--dra/--no-dra", help="Serve ResourceClaims, and publish the devices.")
    ] = True,
    dra_driver: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the DRA driver.")
    ] = "gpu.kilonova.dev",
    labels: Annotated[
        bool,
        typer.Option(
            "--labels/--no-labels",
            help="Write the labels of GPU feature discovery; leave it to NVIDIA's where that runs.",
        ),
    ] = True,
    taint: Annotated[
        bool,
        typer.Option("--taint/--no-taint", help="Taint the node when all its GPUs are unhealthy."),
    ] = True,
    evict: Annotated[
        bool,
        typer.Option("--evict/--no-evict", help="Evict pods from GPUs that became unhealthy."),
    ] = True,
    reset: Annotated[
        bool,
        typer.Option(
            "--reset/--no-reset",
            help="Reset GPUs that nothing uses, where an error or a change of MIG mode needs it.",
        ),
    ] = True,
    prewarm: Annotated[
        bool,
        typer.Option(
            "--prewarm/--no-prewarm",
            help="Make MIG instances in advance, as many as pods are likely to request within a "
            "minute, learnt from earlier pods.",
        ),
    ] = True,
    port: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port of the gRPC service; 0 for any free.",
        ),
    ] = 50052,
    exporter_port: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Port of the metrics of the GPUs for Prometheus, or one of the ten after it where "
            "it is taken, as by DCGM's exporter; 0 for any free.",
        ),
    ] = 9400,
    exporter: Annotated[
        bool, typer.Option("--exporter/--no-exporter", help="Serve metrics of the GPUs.")
    ] = True,
    grpc: Annotated[bool, typer.Option("--grpc/--no-grpc", help="Serve gRPC.")] = True,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory with tls.crt and tls.key for gRPC.  [default: made in --state-dir]",
            file_okay=False,
        ),
    ] = None,
    client_ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Accept gRPC clients only with a certificate of this authority.",
            dir_okay=False,
        ),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the agent.")
    ] = "kilonova-system",
    health_port: HealthPort = None,
    log_format: LogFormat = None,
) -> None:
    """Run the agent of a GPU node, until SIGTERM or Ctrl-C.

    It publishes the GPUs of its node, makes the MIG instances that pods were assigned, gives
    containers their devices (device plugin and DRA driver), and drains and recovers GPUs that fail.
    `deploy/agent` runs it on each GPU node.

    \b
    Examples:
      kilonova run agent --node-name gpu-1
      kilonova run agent --node-name gpu-1 --backend simulated:h100 --state-dir ./state --no-dra
    """
    from kilonova.component.process.process import HEALTH_PORT
    from kilonova.gpu.agent.context import PREWARM_SECONDS, AgentSettings
    from kilonova.gpu.agent.remediation.recovery import RecoverySettings
    from kilonova.gpu.process.options import AgentOptions
    from kilonova.gpu.process.process import run_agent

    if not node_name:
        raise WrongUsage("--node-name is missing: which Node is this machine? (or set NODE_NAME)")
    serves_kubelet = device_plugin or dra
    run_agent(
        AgentOptions(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            health_port=HEALTH_PORT if health_port is None else health_port,
            election=None,
            log_format=log_format,
            node=node_name,
            backend=backend,
            dcgm=dcgm,
            state_dir=state_dir,
            kubelet_dir=kubelet_dir if serves_kubelet else None,
            cdi_dir=cdi_dir,
            device_plugin=device_plugin,
            shares_per_gpu=shares_per_gpu,
            dra=dra,
            dra_driver=dra_driver,
            port=port if grpc else None,
            exporter_port=exporter_port if exporter else None,
            certs=certs,
            client_ca=client_ca,
            may_reset=reset,
            settings=AgentSettings(
                recovery=RecoverySettings(evicts=evict, resets=reset),
                publishes_resources=not device_plugin,
                publishes_labels=labels,
                taints=taint,
                prewarm_seconds=PREWARM_SECONDS if prewarm else 0.0,
            ),
        )
    )
