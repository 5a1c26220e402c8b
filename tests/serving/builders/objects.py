"""Services and settings, and what is built of them."""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, InferenceServiceSpec, ServerGroup
from kilonova.serving.builders.identity import Identity
from kilonova.serving.builders.server_set import build_server_set
from kilonova.serving.settings import ServingSettings

SETTINGS = ServingSettings(model_server_image="kilonova:1", triton_image="triton:1")
LOCAL = ServingSettings(on_this_machine=True)


def service(*groups: Any, name: str = "web", **spec: Any) -> InferenceService:
    """A service; by default with a group of one Triton."""
    listed = list(groups) or [{"name": "model", "runtime": "Triton"}]
    converted = msgspec.convert({"servers": listed, **spec}, InferenceServiceSpec)
    metadata = Metadata(name=name, uid="u-1", resource_version="1", namespace="team", generation=1)
    return InferenceService(metadata, converted)


def identity_of(found: InferenceService) -> Identity:
    """The identity of a service."""
    return Identity.of(found)


def build_set(group: Any, settings: ServingSettings = SETTINGS, **spec: Any) -> JsonObject:
    """The PodCliqueSet of a group."""
    found = service(group, **spec)
    [parsed] = found.spec.servers
    return build_server_set(Identity.of(found), parsed, found.spec.gateway, 1, settings)


def pod_of(group: Any, settings: ServingSettings = SETTINGS, **spec: Any) -> JsonObject:
    """The spec of the pod of a group."""
    return build_set(group, settings, **spec)["spec"]["template"]["cliques"][0]["spec"]["podSpec"]


def container_of(group: Any, settings: ServingSettings = SETTINGS, **spec: Any) -> JsonObject:
    """The container of a server."""
    return pod_of(group, settings, **spec)["containers"][0]


def parse_group(**fields: Any) -> ServerGroup:
    """A group of servers."""
    return msgspec.convert({"name": "model", "runtime": "Triton", **fields}, ServerGroup)
