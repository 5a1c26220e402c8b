"""Between values and the messages of Envoy's API, but for those of `request_log`.

The packages of the messages are imported when they are first needed, which takes some tens of
milliseconds and megabytes; it is not imported before there is a service. xds-protos has no
types, so everything of it is `Any`, and nothing of that leaves this module.
"""

from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast

import msgspec
from envoy.config.core.v3 import base_pb2
from envoy.service.auth.v3 import external_auth_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import json_format, symbol_database

from kilonova.serving.controlplane.ads.rejection import summarize_rejection
from kilonova.serving.controlplane.ads.snapshot import ResourceType
from kilonova.serving.controlplane.ads.stream import DiscoveryRequest, DiscoveryResponse
from kilonova.serving.controlplane.holds.answer import CheckAnswer
from kilonova.serving.gateway.model import EnvoyResource

_discovery: Any = discovery_pb2
_authorization: Any = external_auth_pb2
_base: Any = base_pb2
_TYPES = frozenset(ResourceType)
_ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.LbEndpoint"


class InvalidResource(ValueError):
    """A resource that is no message of its type: an error of who rendered it."""


def encode_resource(type_: ResourceType, resource: EnvoyResource) -> bytes:
    """The message of a resource in the wire format. `InvalidResource` if it has unknown fields."""
    try:
        if type_ is ResourceType.ENDPOINTS:
            message = _parse_assignment(resource)
        else:
            message = _parse(type_.value, resource)
    except json_format.ParseError as error:
        raise InvalidResource(f"{type_.short_name}: {error}") from None
    return message.SerializeToString(deterministic=True)


def decode_request(body: bytes) -> DiscoveryRequest | None:
    """A request of a gateway; None for a type that we do not serve."""
    message = _discovery.DiscoveryRequest.FromString(body)
    if message.type_url not in _TYPES:
        return None
    return DiscoveryRequest(
        type=ResourceType(message.type_url),
        version=message.version_info,
        nonce=message.response_nonce,
        names=tuple(message.resource_names),
        error=(
            summarize_rejection(message.error_detail.message)
            if message.HasField("error_detail")
            else ""
        ),
        node=message.node.id,
        service=message.node.cluster,
    )


def encode_response(response: DiscoveryResponse) -> bytes:
    """A response in the wire format."""
    message = _discovery.DiscoveryResponse(
        type_url=response.type.value, version_info=response.version, nonce=response.nonce
    )
    for body in response.bodies:
        message.resources.add(type_url=response.type.value, value=body)
    return message.SerializeToString()


def decode_check(body: bytes) -> dict[str, str]:
    """The context extensions of a request that is checked."""
    message = _authorization.CheckRequest.FromString(body)
    return dict(message.attributes.context_extensions)


def encode_check(answer: CheckAnswer) -> bytes:
    """The answer to a check."""
    message = _authorization.CheckResponse()
    message.status.code = answer.grpc_status
    if answer.http_status:
        denied = message.denied_response
        denied.status.code = answer.http_status
        denied.body = answer.message
        for name, value in answer.headers:
            denied.headers.append(
                _base.HeaderValueOption(
                    header=_base.HeaderValue(key=name, value=value),
                    append_action=_base.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
                )
            )
    else:
        message.ok_response.SetInParent()
    return message.SerializeToString()


def _parse_assignment(resource: EnvoyResource) -> Any:
    """The message of the endpoints of a cluster. Of many servers one changes at a time: the others
    are not parsed again, which takes most of the time."""
    localities: list[EnvoyResource] = resource.get("endpoints", [])
    rest: list[EnvoyResource] = [{**each, "lb_endpoints": []} for each in localities]
    message = _parse(ResourceType.ENDPOINTS.value, {**resource, "endpoints": rest})
    for locality, parsed in zip(localities, message.endpoints, strict=True):
        for endpoint in locality.get("lb_endpoints", []):
            parsed.lb_endpoints.append(_parse_endpoint(msgspec.json.encode(endpoint)))
    return message


@lru_cache(maxsize=4096)
def _parse_endpoint(content: bytes) -> Any:
    return _parse(_ENDPOINT, msgspec.json.decode(content))


def _parse(type_url: str, content: EnvoyResource) -> Any:
    for name in {type_url, *_list_type_urls(content)}:
        _import_package(name.rpartition("/")[2].rpartition(".")[0])
    message = cast("Any", symbol_database.Default()).GetSymbol(type_url.partition("/")[2])()
    cast("Any", json_format).ParseDict(content, message)
    return message


def _list_type_urls(value: object) -> Iterator[str]:
    """The types of the `Any`s in a resource."""
    if isinstance(value, dict):
        for name, each in cast("dict[str, object]", value).items():
            if name == "@type" and isinstance(each, str):
                yield each
            else:
                yield from _list_type_urls(each)
    elif isinstance(value, list | tuple):
        for each in cast("list[object]", value):
            yield from _list_type_urls(each)


@cache
def _import_package(package: str) -> None:
    """Import the messages of a protobuf package, such as `envoy.config.cluster.v3`."""
    if not package.startswith(("envoy.", "xds.", "udpa.")):
        return
    try:
        folder = import_module(package)
    except ImportError:
        return  # the parser names the type that is not known
    for module in iter_modules(folder.__path__):
        if module.name.endswith("_pb2"):
            import_module(f"{package}.{module.name}")
