"""Which objects a service is to have. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.serving import STATS_PORT, InferenceServiceSpec, ServerGroup
from kilonova.kube import Resource
from kilonova.objectstore import ObjectStoreError
from kilonova.serving import resources
from kilonova.serving.autoscaler.external import build_scaler_object
from kilonova.serving.builders.access import (
    build_gateway_service,
    build_ingress,
    build_server_service,
)
from kilonova.serving.builders.dashboards import build_dashboards
from kilonova.serving.builders.gateway_pods import (
    build_disruption_budget,
    build_gateway_deployment,
)
from kilonova.serving.builders.gateway_secret import build_config_secret, format_bootstrap
from kilonova.serving.builders.identity import Identity, compute_hash
from kilonova.serving.builders.monitoring import build_pod_monitor, build_service_monitors
from kilonova.serving.builders.server_set import (
    build_server_deployment,
    build_server_set,
    get_initial_replicas,
)
from kilonova.serving.controllers.service.observed import (
    LiveObject,
    ObservedService,
    Problem,
)
from kilonova.serving.gateway.config import render_bootstrap
from kilonova.serving.repositories import build_repository_volumes
from kilonova.serving.settings import ServingSettings

_KEDA_MISSING = Problem(
    "ScaledObjectKindMissing",
    "spec.servers[].autoscaling.scaler: this cluster has no ScaledObject (keda.sh/v1alpha1): "
    "install KEDA, or use the scaler Builtin",
)


@dataclass(frozen=True, slots=True)
class DesiredObject:
    """An object as it is to be."""

    resource: Resource[Any]
    body: JsonObject
    keeps_replicas: bool = False
    """Whether `replicas` is only the number to start with, and later that of the autoscaler."""
    if_missing: Problem | None = None
    """What is reported where the cluster lacks the kind."""

    @property
    def name(self) -> str:
        """The name of the object."""
        return self.body["metadata"]["name"]


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What to write for a service, except for its status."""

    objects: tuple[DesiredObject, ...]
    """In the order in which they are written."""
    claims: tuple[JsonObject, ...] = ()
    """PersistentVolumeClaims to create if they do not exist."""
    delete: tuple[LiveObject, ...] = ()
    problems: tuple[Problem, ...] = ()


def desire(observed: ObservedService, settings: ServingSettings) -> ServicePlan:
    """The objects of a service."""
    owner = resources.get_source_kind(settings)
    identity = Identity(observed.service.metadata, owner)
    groups = _Groups(identity, observed.service.spec, settings)
    gateway = [*_list_gateway_objects(identity, observed, settings)]
    problems = [
        *groups.problems,
        *(Problem("InvalidConfiguration", each) for each in observed.gateway_problems),
    ]
    if observed.static_config is not None and observed.static_config.problem is not None:
        problems.append(observed.static_config.problem)
    if (taken := observed.find_host_problem()) is not None:
        problems.append(taken)
    wanted = (
        *gateway,
        *groups.objects,
        *_list_monitors(identity, observed.service.spec),
        *_list_dashboards(identity, observed.service.spec),
    )
    return ServicePlan(
        wanted, groups.claims, tuple(_list_unwanted(observed, wanted)), tuple(problems)
    )


class _Groups:
    """The objects of all groups; of one that cannot be built a problem."""

    def __init__(
        self, identity: Identity, spec: InferenceServiceSpec, settings: ServingSettings
    ) -> None:
        found: list[DesiredObject] = []
        claims: list[JsonObject] = []
        problems: list[Problem] = []
        for group in spec.servers:
            try:
                volumes = build_repository_volumes(
                    group.model_repository, settings.model_server_image
                )
                servers = _build_servers(identity, spec, group, settings)
                found.append(servers)
            except ObjectStoreError as error:
                message = f"spec.servers[{group.name}].modelRepository: {error}"
                problems.append(Problem("InvalidModelRepository", message))
                continue
            claims += volumes.claims
            if any((group.ports.http, group.ports.grpc, group.ports.metrics)):
                service = build_server_service(identity, group)
                found.append(DesiredObject(resources.SERVICES, service))
            scaler = build_scaler_object(identity, group, servers.resource, settings.prometheus_url)
            if scaler is None:
                continue
            problems += [Problem("UnsupportedScaling", each) for each in scaler.problems]
            if scaler.body is not None:
                found.append(DesiredObject(scaler.resource, scaler.body, if_missing=_KEDA_MISSING))
        self.objects = tuple(found)
        self.claims = tuple({each["metadata"]["name"]: each for each in claims}.values())
        self.problems = tuple(problems)


def _build_servers(
    identity: Identity,
    spec: InferenceServiceSpec,
    group: ServerGroup,
    settings: ServingSettings,
) -> DesiredObject:
    build = build_server_deployment if settings.namespace else build_server_set
    body = build(identity, group, spec.gateway, get_initial_replicas(group), settings)
    return DesiredObject(
        resources.DEPLOYMENTS if settings.namespace else resources.POD_CLIQUE_SETS,
        body,
        keeps_replicas=group.autoscaling is not None or spec.paused,
    )


def _list_gateway_objects(
    identity: Identity, observed: ObservedService, settings: ServingSettings
) -> Iterator[DesiredObject]:
    spec = observed.service.spec
    yield DesiredObject(resources.SERVICES, build_gateway_service(identity, spec.gateway, settings))
    config = _build_config(identity, observed)
    if config is not None:
        yield DesiredObject(resources.SECRETS, build_config_secret(identity, config))
        yield DesiredObject(
            resources.DEPLOYMENTS,
            build_gateway_deployment(identity, spec, compute_hash(config), settings),
        )
    budget = build_disruption_budget(identity, spec.gateway)
    if budget is not None:
        yield DesiredObject(resources.DISRUPTION_BUDGETS, budget)
    ingress = build_ingress(identity, spec.gateway)
    if ingress is not None and observed.host_owner is None:
        yield DesiredObject(resources.INGRESSES, ingress)


def _build_config(identity: Identity, observed: ObservedService) -> str | None:
    """What Envoy reads when it starts; None while that is not known. Gateways that run go on with
    what they have."""
    static = observed.static_config
    if static is not None:
        return None if static.problem is not None else static.text
    if not observed.control_plane.port:
        return None
    key = identity.namespace, identity.name
    return format_bootstrap(
        render_bootstrap(key, observed.control_plane, observed.token, STATS_PORT)
    )


def _list_monitors(identity: Identity, spec: InferenceServiceSpec) -> Iterator[DesiredObject]:
    if not spec.monitoring.service_monitors:
        return
    missing = Problem(
        "MonitorKindsMissing",
        "spec.monitoring.serviceMonitors: this cluster has no ServiceMonitor and PodMonitor "
        "(monitoring.coreos.com/v1): install the Prometheus operator, or set it to false",
    )
    pods = build_pod_monitor(identity, spec)
    yield DesiredObject(resources.POD_MONITORS, pods, if_missing=missing)
    for each in build_service_monitors(identity, spec):
        yield DesiredObject(resources.SERVICE_MONITORS, each, if_missing=missing)


def _list_dashboards(identity: Identity, spec: InferenceServiceSpec) -> Iterator[DesiredObject]:
    if spec.monitoring.dashboards:
        found = build_dashboards(identity, has_traces=spec.gateway.tracing is not None)
        yield DesiredObject(resources.CONFIG_MAPS, found)


def _list_unwanted(
    observed: ObservedService, wanted: Sequence[DesiredObject]
) -> Iterator[LiveObject]:
    """Objects of the service that it no longer is to have."""
    kept = {(each.resource.full_name, each.name) for each in wanted}
    if resources.SECRETS not in {each.resource for each in wanted}:
        # It is not known what they are to be.
        kept |= {
            (each.resource.full_name, each.metadata.name)
            for each in observed.objects
            if each.resource is resources.DEPLOYMENTS
        }
    for each in observed.objects:
        known = each.metadata
        if (each.resource.full_name, known.name) in kept or known.deletion_timestamp is not None:
            continue
        yield each
