"""Services and EndpointSlices for tests: as values, and as the API takes them."""

from typing import Any

import msgspec

from kilonova.local.processnode.services.objects import EndpointSlice, Service

_SERVER_FIELDS = {"uid": "u", "resourceVersion": "1"}


def service_object(name: str, *ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    namespace = spec.pop("namespace", "default")
    metadata = {"name": name, "namespace": namespace}
    return {"metadata": metadata, "spec": {"ports": list(ports), **spec}}


def slice_object(service: str, *addresses: str, **fields: Any) -> dict[str, Any]:
    """Ready endpoints at port 8080 by default."""
    name, namespace = fields.pop("name", f"{service}-1"), fields.pop("namespace", "default")
    labels = {"kubernetes.io/service-name": service}
    endpoints = fields.pop("endpoints", [endpoint(address) for address in addresses])
    port = {"port": fields.pop("port", 8080), "name": "", "protocol": "TCP"}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [port],
        **fields,
    }


def endpoint(address: str, ready: bool | None = True, **fields: Any) -> dict[str, Any]:
    return {"addresses": [address], "conditions": {"ready": ready}, **fields}


def service(name: str, *ports: dict[str, Any], **spec: Any) -> Service:
    return msgspec.convert(_stored(service_object(name, *ports, **spec)), Service)


def endpoint_slice(service: str, *addresses: str, **fields: Any) -> EndpointSlice:
    return msgspec.convert(_stored(slice_object(service, *addresses, **fields)), EndpointSlice)


def _stored(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], **_SERVER_FIELDS}}
