"""How clients reach a service, and how its servers are found: Services and Ingress. Pure."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.api.service_addresses import HOST_LISTENER, POD_LISTENER
from kilonova.api.serving import Gateway, ServerGroup, names
from kilonova.serving.builders.gateway_pods import list_gateway_ports
from kilonova.serving.builders.identity import Identity
from kilonova.serving.builders.runtimes import list_ports
from kilonova.serving.settings import ServingSettings

_H2C = "kubernetes.io/h2c"
_GRPC_PATHS = ("/inference.GRPCInferenceService/", "/grpc.health.v1.Health/")
"""Requests for these paths are gRPC: the only service of the gRPC port, and its health."""


def build_gateway_service(
    identity: Identity, gateway: Gateway, settings: ServingSettings
) -> JsonObject:
    """The Service of the gateways: the name by which clients know the service."""
    annotations = dict(gateway.service.annotations)
    if settings.on_this_machine and gateway.static_config is None:
        # A configuration of the user's does not know the address of the Service.
        annotations[HOST_LISTENER] = POD_LISTENER
    return {
        "metadata": identity.build_metadata(
            names.build_gateway_service(identity.name),
            {**gateway.service.labels, names.ROLE: "gateway"},
            annotations,
        ),
        "spec": {
            "type": gateway.service.type,
            "selector": identity.build_pod_labels("gateway"),
            "ports": [
                _build_port(name, port, is_grpc=name == "grpc" and gateway.tls is None)
                for name, port in list_gateway_ports(gateway)
            ],
        },
    }


def build_server_service(identity: Identity, group: ServerGroup) -> JsonObject:
    """The headless Service of the entry pods of a group, for those who look for the servers
    themselves."""
    return {
        "metadata": identity.build_metadata(
            names.build_server_service(identity.name, group.name), {names.SERVER: group.name}
        ),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {
                **identity.build_pod_labels("server", group.name),
                names.ENTRY: "true",
            },
            "ports": [
                _build_port(name, port, is_grpc=name == "grpc") for name, port in list_ports(group)
            ],
        },
    }


def build_ingress(identity: Identity, gateway: Gateway) -> JsonObject | None:
    """The Ingress, if there is to be one: gRPC goes to its port, everything else to that of
    HTTP."""
    ingress = gateway.ingress
    if ingress is None:
        return None
    tls: JsonObject = {"hosts": [ingress.host]}
    if ingress.tls_secret:
        tls["secretName"] = ingress.tls_secret
    spec: JsonObject = {
        "tls": [tls],
        "rules": [
            {
                "host": ingress.host,
                "http": {"paths": [*_list_paths(identity, gateway)]},
            }
        ],
    }
    if ingress.ingress_class_name:
        spec["ingressClassName"] = ingress.ingress_class_name
    return {
        "metadata": identity.build_metadata(
            names.build_gateway_service(identity.name), annotations=dict(ingress.annotations)
        ),
        "spec": spec,
    }


def _list_paths(identity: Identity, gateway: Gateway) -> Iterator[JsonObject]:
    ports = dict(list_gateway_ports(gateway))
    if "grpc" in ports and "http" in ports:
        for path in _GRPC_PATHS:
            yield _build_path(identity, path, "grpc")
    first = "http" if "http" in ports else "grpc"
    yield _build_path(identity, "/", first)


def _build_path(identity: Identity, path: str, port: str) -> JsonObject:
    service = {"name": names.build_gateway_service(identity.name), "port": {"name": port}}
    return {"path": path, "pathType": "Prefix", "backend": {"service": service}}


def _build_port(name: str, port: int, *, is_grpc: bool) -> JsonObject:
    built: JsonObject = {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
    if is_grpc:
        built["appProtocol"] = _H2C
    return built
