"""Pods of a service, as the collector sees them."""

from kilonova.api.meta import Condition, Metadata
from kilonova.api.serving import names
from kilonova.serving.resources import Pod, PodStatus


def build_pod(name: str, address: str = "127.0.0.1", *, ready: bool = True, **labels: str) -> Pod:
    """A pod with labels of ours."""
    prefixed = {f"serving.kilonova.dev/{key}": value for key, value in labels.items()}
    metadata = Metadata(
        name=name,
        namespace="default",
        uid=name,
        resource_version="1",
        labels={names.SERVICE: "web"} | prefixed,
    )
    condition = Condition("Ready", "True" if ready else "False")
    return Pod(metadata, status=PodStatus("Running", address, conditions=(condition,)))


def gateway_pod(name: str = "web-gateway-0", *, ready: bool = True) -> Pod:
    return build_pod(name, ready=ready, role="gateway")


def server_pod(name: str = "web-main-0", *, ready: bool = True) -> Pod:
    return build_pod(name, ready=ready, role="server", server="main", entry="true")
