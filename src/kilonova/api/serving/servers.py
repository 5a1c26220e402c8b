"""Groups of equal model servers."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.grove.podcliqueset import Template
from kilonova.api.inference_engine import PodTemplate
from kilonova.api.serving.autoscaling import Autoscaling
from kilonova.api.serving.common import Count, DnsLabel, Duration
from kilonova.api.serving.repositories import ModelPlacement, ModelRepository
from kilonova.api.validation_rules import ValidationRule

Runtime = Literal["Custom", "ModelServer", "Triton"]
Protocol = Literal["V2", "OpenAI", "HTTP"]

EnvVars = Annotated[
    tuple[dict[str, Any], ...],
    Meta(extra={"kubernetes items": "io.k8s.api.core.v1.EnvVar", "list": "atomic"}),
]
ResourceRequirements = Annotated[
    dict[str, Any], Meta(extra={"kubernetes": "io.k8s.api.core.v1.ResourceRequirements"})
]
Port = Annotated[int, Meta(ge=0, le=65535, extra={"format": "int32"})]


class ServerPorts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The ports of a server; 0 for one that it lacks."""

    http: Annotated[Port, Meta(extra={"default": 8000})] = 8000
    """HTTP: v2, OpenAI, or any other."""
    grpc: Annotated[Port, Meta(extra={"default": 8001})] = 8001
    """gRPC: v2."""
    metrics: Annotated[Port, Meta(extra={"default": 8002})] = 8002
    """Prometheus' text format at `/metrics`."""


class ServerGroup(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Equal model servers. Each is a replica of a PodCliqueSet, and so a gang of its own."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.podCliqueSetTemplate) || (has(self.entryClique) && self.entryClique != '')",
            "name the clique whose pods get requests",
            field_path=".entryClique",
            reason="FieldValueRequired",
        ),
        ValidationRule(
            "!has(self.podCliqueSetTemplate) || !(has(self.template) || has(self.command)"
            " || has(self.args) || has(self.resources) || has(self.env))",
            "podCliqueSetTemplate has the pods: leave out template, command, args, env and "
            "resources",
            field_path=".podCliqueSetTemplate",
            reason="FieldValueForbidden",
        ),
    )

    name: DnsLabel
    """The name of the group."""
    runtime: Annotated[Runtime, Meta(extra={"default": "Custom"})] = "Custom"
    """Triton and ModelServer (`kilonova serve-model`) have an image, a command, probes and metrics
    of their own, which the fields below override."""
    protocol: Annotated[Protocol, Meta(extra={"default": "V2"})] = "V2"
    """What clients speak: KServe's v2 protocol, the OpenAI API, or any HTTP."""
    image: Annotated[str, Meta(max_length=1024)] = ""
    """The image of the server."""
    command: tuple[str, ...] = ()
    """The command of the server, instead of the image's."""
    args: tuple[str, ...] = ()
    """The arguments of the server."""
    env: EnvVars = ()
    """Environment variables of the server."""
    resources: ResourceRequirements | None = None
    """The resources of the server, such as `limits: {nvidia.com/gpu: 1}`."""
    template: PodTemplate | None = None
    """Labels and annotations of the pods, and any other field of their spec. Its first container
    is the server."""
    pod_clique_set_template: Template | None = None
    """The pods of a server that is more than one pod, as in a PodCliqueSet."""
    entry_clique: str = ""
    """The clique of that template whose pods get requests."""
    ports: ServerPorts = ServerPorts()
    replicas: Count | None = None
    """The number of servers. With `autoscaling`, only the number to start with. Defaults to 1."""
    autoscaling: Autoscaling | None = None
    model_repository: ModelRepository | None = None
    model_placement: ModelPlacement | None = None
    max_in_flight: Annotated[int, Meta(ge=1, extra={"format": "int32"})] | None = None
    """The requests that the gateway sends to one server at the same time. Defaults to no limit."""
    max_queued: Count | None = None
    """The requests of the group that wait in the gateway, per server, before further ones are
    refused as exhausted. Defaults to no limit."""
    drain: Annotated[Duration, Meta(extra={"default": "60s"})] = "60s"
    """How long a server that is removed may work on its requests."""
    queue: Annotated[str, Meta(max_length=253)] = ""
    """The scheduling queue that its resources are charged to."""
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    """The priority class of the pods."""


__all__ = [
    "EnvVars",
    "Port",
    "Protocol",
    "ResourceRequirements",
    "Runtime",
    "ServerGroup",
    "ServerPorts",
]
