"""The manager of a fleet and the agent of a member in the cluster of `kilonova up`."""

from collections.abc import Callable, Sequence
from functools import partial

from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.fleet.admission import build_handlers, list_webhooks
from kilonova.fleet.manager import ManagerSettings, build_manager
from kilonova.fleet.member import MemberSettings, build_member
from kilonova.fleet.store import (
    EndpointSource,
    FleetStore,
    KubernetesEndpoint,
    connect_by_kubeconfig,
    open_fleet_store,
)
from kilonova.kube import Client, Runnable
from kilonova.kube.admission.registration import list_in_process_webhooks

_NAMESPACE = "kube-system"
"""Every cluster has it."""
LOCAL = "local"
"""The name of a cluster that was given none."""


def build_embedded_fleet(context: EmbeddedContext) -> EmbeddedComponent:
    """The manager, and the webhooks of its kinds; this cluster is its hub."""
    cluster, source = context.cluster, _build_source(context)

    def build_runnables() -> Sequence[Runnable]:
        manager = build_manager(
            context.client,
            source,
            # Those who share the store with this machine may name themselves.
            ManagerSettings(register_members=True),
            open_store=_build_open_store(context),
            identity=f"{_get_text(context, 'cluster-name') or LOCAL}_{cluster.new_id()}",
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            registry=cluster.component_registry(context.name),
            new_id=cluster.new_id,
        )
        return manager.runnables

    return EmbeddedComponent(
        build_runnables=build_runnables,
        build_webhooks=lambda: list_in_process_webhooks(list_webhooks(), build_handlers()),
    )


def build_embedded_member(context: EmbeddedContext) -> EmbeddedComponent:
    """The agent of this cluster."""
    cluster, source = context.cluster, _build_source(context)
    settings = MemberSettings(
        _get_text(context, "cluster-name") or LOCAL,
        region=_get_text(context, "cluster-region"),
        console=_get_text(context, "cluster-console"),
        namespace=_NAMESPACE,
    )

    def build_runnables() -> Sequence[Runnable]:
        member = build_member(
            context.client,
            settings,
            source,
            open_store=_build_open_store(context),
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            new_id=cluster.new_id,
        )
        return [*member.runnables, *member.leader_runnables]

    return EmbeddedComponent(build_runnables=build_runnables)


def _get_text(context: EmbeddedContext, flag: str) -> str:
    value = context.flags.get(flag)
    return value if isinstance(value, str) else ""


def _build_source(context: EmbeddedContext) -> EndpointSource:
    """The endpoint that was given; else a folder, or for a cluster in memory its own API."""
    endpoint = _get_text(context, "global-leader-elect-endpoint")
    if not endpoint:
        data = context.cluster.data_path
        own = f"kubernetes://{_NAMESPACE}"
        endpoint = own if data is None else str(data / "components" / "fleet" / "store")
    return EndpointSource(endpoint)


def _build_open_store(context: EmbeddedContext) -> Callable[[str], FleetStore]:
    """`kubernetes://NAMESPACE` is this cluster, without a socket."""

    def connect(endpoint: KubernetesEndpoint) -> Client:
        if endpoint.context or endpoint.kubeconfig is not None:
            return connect_by_kubeconfig(endpoint)
        return context.client

    return partial(open_fleet_store, connect_api=connect)
