"""The command `kilonova run serving`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.component.failure import WrongUsage
from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)
from kilonova.serving.settings import ServingSettings

_DEFAULTS = ServingSettings()


def serving(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str,
        typer.Option(metavar="NAME", help="Namespace of its Lease and certificates."),
    ] = "kilonova-system",
    source: Annotated[
        Literal["inferenceservices", "configmaps"],
        typer.Option(
            help="Where services are: in InferenceServices of all namespaces, or in ConfigMaps of "
            "--namespace, which needs no CRDs and no permissions elsewhere."
        ),
    ] = "inferenceservices",
    service: Annotated[
        str,
        typer.Option(metavar="NAME", help="With --source configmaps: the only service."),
    ] = "",
    releases: Annotated[
        bool,
        typer.Option(
            "--releases/--no-releases",
            help="Create InferenceServices from ConfigMaps, as the chart deploy/helm/supersonic "
            "has them with mode=cluster.",
        ),
    ] = False,
    control_plane_host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="Where gateways reach this process.  [default: the Service kilonova-serving of "
            "its namespace]",
        ),
    ] = "",
    control_plane_port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port of gRPC for gateways."),
    ] = _DEFAULTS.control_plane_port,
    control_plane_http_port: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=65535, help="Port of HTTP for gateways."),
    ] = _DEFAULTS.control_plane_http_port,
    tls: Annotated[
        bool,
        typer.Option(
            "--tls/--no-tls", help="Whether gateways and this process speak TLS to one another."
        ),
    ] = True,
    certs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory for its certificates, instead of a Secret.",
            file_okay=False,
        ),
    ] = None,
    gateway_image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Image of gateways whose service names none.")
    ] = _DEFAULTS.gateway_image,
    model_server_image: Annotated[
        str,
        typer.Option(
            metavar="IMAGE", help="Image of the runtime ModelServer, and of downloads of models."
        ),
    ] = _DEFAULTS.model_server_image,
    triton_image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Image of the runtime Triton.")
    ] = _DEFAULTS.triton_image,
    prometheus_url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Prometheus, for queries of services that name none.",
            envvar="KILONOVA_PROMETHEUS_URL",
        ),
    ] = "",
    scheduler_name: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Scheduler of servers whose template names none.  [default: "
            f"{_DEFAULTS.scheduler_name}, with --source configmaps that of the cluster]",
        ),
    ] = "",
    health_port: HealthPort = None,
    leader_elect: LeaderElect = None,
    log_format: LogFormat = None,
) -> None:
    """Run the controllers of inference services and the control plane of their gateways, until
    SIGTERM or Ctrl-C.

    Its CRDs must be installed (`kilonova install`), and the operator must run. Several replicas may
    run: gateways are served by each, the leader writes. `deploy/serving` runs it inside of a
    cluster.

    \b
    Examples:
      kilonova run serving --control-plane-host 10.0.0.5
      kilonova run serving --gateway-image registry.example.com/envoy:v1.40.0
      kilonova run serving --source configmaps --namespace team --service sonic
    """
    from kilonova.component.process.process import HEALTH_PORT, ElectionOptions, ProcessOptions
    from kilonova.serving.process.process import ServingOptions, build_name, run_serving

    namespaced = source == "configmaps"
    if service and not namespaced:
        raise WrongUsage("--service is for --source configmaps: leave it out")
    name = build_name(service)
    process = ProcessOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        health_port=HEALTH_PORT if health_port is None else health_port,
        election=None if leader_elect is False else ElectionOptions(name),
        log_format=log_format,
    )
    settings = ServingSettings(
        scheduler_name=scheduler_name
        or (DEFAULT_SCHEDULER_NAME if namespaced else _DEFAULTS.scheduler_name),
        namespace=namespace if namespaced else "",
        releases=releases,
        gateway_image=gateway_image,
        model_server_image=model_server_image,
        triton_image=triton_image,
        control_plane_host=control_plane_host or f"{name}.{namespace}.svc",
        control_plane_port=control_plane_port,
        control_plane_http_port=control_plane_http_port,
        prometheus_url=prometheus_url,
    )
    run_serving(ServingOptions(process, settings, tls=tls, certs=certs, service=service))
