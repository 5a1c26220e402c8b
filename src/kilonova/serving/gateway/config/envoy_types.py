"""Small pieces of Envoy's API in its JSON form, which all parts of the configuration use."""

from typing import Any

from kilonova.api.durations import parse_duration
from kilonova.serving.gateway.model import EnvoyResource

_TYPE_PREFIX = "type.googleapis.com/"

ADS: EnvoyResource = {"ads": {}, "resource_api_version": "V3"}
"""Where xDS resources that others refer to come from."""

HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
"""The key of a cluster's `typed_extension_protocol_options`, and the type of its value."""


def build_typed(type_name: str, **fields: Any) -> EnvoyResource:
    """A message in an `Any`."""
    return {"@type": _TYPE_PREFIX + type_name, **fields}


def build_extension(name: str, type_name: str, **fields: Any) -> EnvoyResource:
    """A named extension, such as a filter."""
    return {"name": name, "typed_config": build_typed(type_name, **fields)}


def build_name_lookup() -> EnvoyResource:
    """The fields of a cluster whose host has a name: new connections use a new address.

    Names are resolved as other programs of the pod do it. Envoy's own resolver drops answers that
    do not come from the address of the nameserver, and so all of them where that is routed, as on
    a process node.
    """
    return {
        "type": "STRICT_DNS",
        "dns_lookup_family": "V4_PREFERRED",
        "typed_dns_resolver_config": build_extension(
            "envoy.network.dns_resolver.getaddrinfo",
            "envoy.extensions.network.dns_resolver.getaddrinfo.v3.GetAddrInfoDnsResolverConfig",
        ),
    }


def build_enabled(config: EnvoyResource) -> EnvoyResource:
    """The configuration by which a route enables a filter that is disabled elsewhere."""
    return build_typed("envoy.config.route.v3.FilterConfig", config=config)


def format_seconds(seconds: float) -> str:
    """A `google.protobuf.Duration` in JSON."""
    text = f"{seconds:.9f}".rstrip("0").rstrip(".")
    return f"{text}s"


def convert_duration(text: str) -> str:
    """A duration of our API as a `google.protobuf.Duration` in JSON."""
    return format_seconds(parse_duration(text))


def build_socket_address(host: str, port: int) -> EnvoyResource:
    """A TCP address."""
    return {"socket_address": {"address": host, "port_value": port}}


def build_header(name: str, value: str, *, overwrite: bool = True) -> EnvoyResource:
    """A `HeaderValueOption`."""
    action = "OVERWRITE_IF_EXISTS_OR_ADD" if overwrite else "APPEND_IF_EXISTS_OR_ADD"
    return {"header": {"key": name, "value": value}, "append_action": action}


def build_explicit_http(*, http2: bool, options: EnvoyResource | None = None) -> EnvoyResource:
    """The `typed_extension_protocol_options` of a cluster that speaks one version of HTTP."""
    version = "http2_protocol_options" if http2 else "http_protocol_options"
    protocol = {version: options or {}}
    return {HTTP_OPTIONS: build_typed(HTTP_OPTIONS, explicit_http_config=protocol)}
