"""Settings of the controllers, the control plane and the autoscaler."""

from dataclasses import dataclass

from kilonova.api.scheduling_names import SCHEDULER_NAME


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Settings of an installation."""

    scheduler_name: str = SCHEDULER_NAME
    """The scheduler of servers whose template names none."""
    namespace: str = ""
    """The only namespace of the namespaced mode; empty for all."""
    releases: bool = False
    """Whether InferenceServices are created from ConfigMaps with the label `names.SERVICE_CONFIG`:
    who may write these could then have pods created. In the namespaced mode they are the services,
    in any case."""
    gateway_image: str = "docker.io/envoyproxy/envoy:v1.40.0"
    """The image of gateways whose service names none."""
    model_server_image: str = "docker.io/kilonova/kilonova:latest"
    """The image of the runtime ModelServer, and of downloads of models."""
    triton_image: str = "nvcr.io/nvidia/tritonserver:26.04-py3"
    """The image of the runtime Triton."""
    control_plane_host: str = "127.0.0.1"
    """Where gateways reach the control plane."""
    control_plane_port: int = 18000
    """gRPC; 0 takes a free one."""
    control_plane_http_port: int = 18001
    """HTTP; 0 takes a free one."""
    prometheus_url: str = ""
    """Prometheus, for modes and limits with a query that name none."""
    on_this_machine: bool = False
    """In the cluster of `kilonova up`: pods run as processes of this machine. Gateways then listen
    on the address of their Service, too, so that programs of this machine reach Envoy itself."""
    scrape_interval: float = 1.0
    """Seconds between two readings of the metrics of gateways and servers."""
    status_write_interval: float = 1.0
    """Minimum seconds between two status writes of one service, unless its phase changes."""
