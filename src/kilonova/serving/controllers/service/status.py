"""The status of a service. Pure."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.meta import Condition
from kilonova.api.service_addresses import map_to_loopback
from kilonova.api.serving import InferenceServiceStatus, ServerGroupStatus, names
from kilonova.api.serving.service import Phase
from kilonova.kube.status import with_condition
from kilonova.serving.controllers.service.observed import ObservedService, Problem
from kilonova.serving.controllers.service.server_status import build_server_status, explain_pod
from kilonova.serving.settings import ServingSettings

READY = "Ready"
GATEWAY_READY = "GatewayReady"
SERVERS_READY = "ServersReady"
ACCEPTED = "ConfigurationAccepted"


def build_status(
    observed: ObservedService,
    problems: Sequence[Problem],
    settings: ServingSettings,
    now: datetime,
) -> InferenceServiceStatus:
    """The status; what the autoscaler writes of it is kept."""
    service = observed.service
    servers = tuple(build_server_status(observed, each) for each in service.spec.servers)
    gateways = sum(1 for each in observed.list_gateway_pods() if each.is_ready)
    gateway = _judge_gateway(observed, gateways)
    group = _judge_servers(observed, servers)
    conditions = service.status.conditions
    for each in (_judge_whole(gateway, group), gateway, group, _judge_configuration(problems)):
        conditions = with_condition(conditions, each, now)
    url, grpc_address = _build_addresses(observed, settings)
    known = service.metadata
    return replace(
        service.status,
        observed_generation=known.generation,
        phase=_judge_phase(observed, servers, gateway, bool(problems)),
        url=url,
        grpc_address=grpc_address,
        service_address=_build_service_address(observed),
        ready=sum(each.ready for each in servers),
        replicas=sum(each.replicas for each in servers),
        gateways=gateways,
        servers=servers,
        conditions=conditions,
    )


def _judge_gateway(observed: ObservedService, ready: int) -> Condition:
    wanted = observed.service.spec.gateway.replicas
    if observed.is_gateway_closed:
        text = f"requests are refused: {'; '.join(observed.gateway_problems)}"
        return Condition(GATEWAY_READY, "False", "InvalidConfiguration", text)
    if not ready:
        text = _explain_gateways(observed) or f"no gateway of {wanted} is ready"
        return Condition(GATEWAY_READY, "False", "GatewayNotReady", text)
    if observed.gateway_service is None:
        name = names.build_gateway_service(observed.service.metadata.name)
        text = f"Service {name} is missing: clients do not reach the gateways"
        return Condition(GATEWAY_READY, "False", "ServiceMissing", text)
    if (taken := observed.find_host_problem()) is not None:
        return Condition(GATEWAY_READY, "False", taken.reason, taken.message)
    return Condition(GATEWAY_READY, "True", "GatewayReady", f"{ready} of {wanted} gateways ready")


def _explain_gateways(observed: ObservedService) -> str:
    for each in observed.list_gateway_pods():
        if text := explain_pod(each):
            return f"{each.metadata.name}: {text}"
    return ""


def _judge_servers(observed: ObservedService, servers: Sequence[ServerGroupStatus]) -> Condition:
    lacking = [each for each in servers if each.desired and not each.ready]
    if lacking:
        text = "; ".join(
            f"group {each.name} has no ready server: {each.message}" for each in lacking
        )
        return Condition(SERVERS_READY, "False", "NoReadyServer", text)
    if any(each.desired for each in servers):
        text = ", ".join(f"{each.name}: {each.ready} of {each.desired}" for each in servers)
        return Condition(SERVERS_READY, "True", "ServersReady", text)
    if _starts_on_demand(observed):
        text = "scaled to zero: the next request is held until a server is ready"
        return Condition(SERVERS_READY, "True", "ScaledToZero", text)
    return Condition(SERVERS_READY, "False", "NoServers", "every group has 0 replicas")


def _starts_on_demand(observed: ObservedService) -> bool:
    spec = observed.service.spec
    return not spec.paused and any(
        each.autoscaling is not None and each.autoscaling.min_replicas == 0 for each in spec.servers
    )


def _judge_whole(gateway: Condition, servers: Condition) -> Condition:
    for each in (gateway, servers):
        if each.status != "True":
            return Condition(READY, "False", each.reason, each.message)
    return Condition(READY, "True", servers.reason, servers.message)


def _judge_configuration(problems: Sequence[Problem]) -> Condition:
    if not problems:
        return Condition(ACCEPTED, "True", "Accepted", "")
    text = "; ".join(dict.fromkeys(each.message for each in problems))
    return Condition(ACCEPTED, "False", problems[0].reason, text)


def _judge_phase(
    observed: ObservedService,
    servers: Sequence[ServerGroupStatus],
    gateway: Condition,
    has_problems: bool,
) -> Phase:
    was_ready = observed.service.status.phase in ("Ready", "Degraded")
    wanted = [each for each in servers if each.desired]
    has_servers = all(each.ready for each in wanted)
    if gateway.status == "True" and has_servers:
        return "Ready" if wanted else "Idle"
    if was_ready:
        return "Degraded"
    is_alive = any(observed.list_gateway_pods()) or any(each.replicas for each in servers)
    return "Failed" if has_problems and not is_alive else "Pending"


def _build_service_address(observed: ObservedService) -> str:
    known = observed.service.metadata
    name = names.build_gateway_service(known.name)
    return f"{name}.{known.namespace}.svc.cluster.local"


def _build_addresses(observed: ObservedService, settings: ServingSettings) -> tuple[str, str]:
    """The URL for HTTP and the address for gRPC, as clients reach them."""
    gateway = observed.service.spec.gateway
    ingress = gateway.ingress if observed.host_owner is None else None
    if ingress is not None and not settings.on_this_machine:
        host = ingress.host
        return f"https://{host}", f"{host}:443"
    host = _find_host(observed, settings)
    scheme = "http" if gateway.tls is None else "https"
    url = f"{scheme}://{host}:{gateway.http_port}" if host and gateway.http_port else ""
    grpc = f"{host}:{gateway.grpc_port}" if host and gateway.grpc_port else ""
    return url, grpc


def _find_host(observed: ObservedService, settings: ServingSettings) -> str:
    """Where the Service of the gateways is reached; empty while it has no address."""
    service = observed.gateway_service
    if service is None:
        return ""
    if settings.on_this_machine:
        return map_to_loopback(service.spec.cluster_ip) or ""
    if service.spec.type == "LoadBalancer":
        return service.load_balancer_host
    return _build_service_address(observed)
